//! The way in: the source's events, and how they enter the books.
//!
//! An event is taken and entered under one lock. So poller and supervisor may
//! take turns, and none has an event in hand that the next one had to follow.

use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::books::{Books, Effects};
use crate::hang::WorkSign;
use crate::intake::RawBatch;
use crate::kill_switch::KillSwitch;
use crate::messages::{SourceNews, SourceState};
use crate::outlet::Outlet;
use crate::ports::source::{SourceEvent, SourceEvents};
use crate::record::AcquiredBatch;

/// What is left to be done of an event that was entered, under no lock.
enum Entered {
    Books(Effects),
    State(u64, SourceState),
}

/// See the module. It outlives the generations.
pub(crate) struct Inbox {
    mail: Mutex<Mail>,
    outlet: Outlet,
}

struct Mail {
    events: SourceEvents,
    /// How often a poller has looked at them.
    looks: u64,
    /// Events that were entered in its stead since it looked last.
    missed: usize,
    /// States of the source that were entered so far.
    states: u64,
}

impl Inbox {
    #[must_use]
    pub(crate) fn new(events: SourceEvents, outlet: Outlet) -> Arc<Self> {
        let mail = Mail {
            events,
            looks: 0,
            missed: 0,
            states: 0,
        };
        Arc::new(Self {
            mail: Mutex::new(mail),
            outlet,
        })
    }

    /// Events that wait.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.mail.lock().events.len()
    }

    /// What there is, or was, for the poller to take. Whoever stands in for it
    /// must not make it look well.
    #[must_use]
    pub(crate) fn work(&self) -> WorkSign {
        let mail = self.mail.lock();
        WorkSign {
            waiting: mail.events.len() + mail.missed,
            taken: mail.looks,
        }
    }

    /// For the poller: enters the next event. None after its kill, since the
    /// next generation's poller waits by then.
    pub(crate) fn poll_enter(
        &self,
        kill: &KillSwitch,
        waker: &mut Context<'_>,
    ) -> Poll<Option<Option<SourceNews>>> {
        let mut mail = self.mail.lock();
        // Looked at under the lock: who waits for it may be dead by then.
        if kill.is_dead() {
            return Poll::Ready(None);
        }
        mail.looks += 1;
        mail.missed = 0;
        let event = std::task::ready!(mail.events.poll_recv(waker));
        let entered = event.map(|event| self.enter(event, &mut mail.states));
        drop(mail);
        Poll::Ready(entered.map(|entered| self.follow_up(entered)))
    }

    /// For the supervisor: enters all events that wait.
    pub(crate) fn enter_waiting(&self) -> Vec<SourceNews> {
        let mut mail = self.mail.lock();
        let mut entered = Vec::new();
        for _ in 0..mail.events.len() {
            let Ok(event) = mail.events.try_recv() else {
                break;
            };
            mail.missed += 1;
            entered.push(self.enter(event, &mut mail.states));
        }
        drop(mail);
        let news = |entered| self.follow_up(entered);
        entered.into_iter().filter_map(news).collect()
    }

    fn enter(&self, event: SourceEvent, states: &mut u64) -> Entered {
        let state = match event {
            SourceEvent::Acquired(batches) => return Entered::Books(self.acquired(batches)),
            SourceEvent::Answered(answers) => {
                let answered = |books: &mut Books| books.answered(&answers, Instant::now());
                return Entered::Books(self.changed(answered));
            }
            SourceEvent::Lost(lost) => {
                let lost = |books: &mut Books| books.lost(&lost, Instant::now());
                return Entered::Books(self.changed(lost));
            }
            SourceEvent::Ready => SourceState::Ready,
            SourceEvent::Troubled { cause } => SourceState::Troubled(cause),
            SourceEvent::Failed { cause } => SourceState::Failed(cause),
        };
        *states += 1;
        Entered::State(*states, state)
    }

    fn changed(&self, change: impl FnOnce(&mut Books)) -> Effects {
        self.outlet.change(|books| {
            change(books);
            Effects::default()
        })
    }

    fn follow_up(&self, entered: Entered) -> Option<SourceNews> {
        match entered {
            Entered::Books(effects) => self.outlet.tell(effects).map(SourceNews::Failed),
            Entered::State(number, state) => Some(SourceNews::State(number, state)),
        }
    }

    /// Enters batches in the books, for whichever converter is next.
    fn acquired(&self, batches: Vec<AcquiredBatch>) -> Effects {
        self.outlet.change(|books| {
            let mut effects = Effects {
                work: true,
                ..Effects::default()
            };
            for batch in batches {
                let acquisition = books.acquire(&batch, &mut effects);
                let raw = RawBatch {
                    lives: books.begin_lives(&batch, acquisition),
                    acquisition,
                    partition: batch.partition,
                    records: batch.records,
                };
                books.intake().push(raw, batch.held);
            }
            effects
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;
    use crate::books::{SharedBooks, Tolerance};
    use crate::credit::Credit;
    use crate::error_log::ErrorLog;
    use crate::ports::source::LostRange;
    use crate::record::CorruptRange;
    use crate::testing::{FakeSource, Fate, listen, partition, policy};

    struct Setting {
        inbox: Arc<Inbox>,
        events: mpsc::Sender<SourceEvent>,
        books: Arc<SharedBooks>,
        credit: Arc<Credit>,
        source: FakeSource,
    }

    impl Setting {
        fn with(tolerance: Tolerance) -> Self {
            let credit = Credit::new(1000);
            let books = SharedBooks::new(policy(1, tolerance), Arc::clone(&credit));
            let (source, _) = FakeSource::start(&credit, &[4], Duration::from_secs(30));
            let (events, receiver) = mpsc::channel(8);
            let outlet = Outlet {
                connector: "test".into(),
                books: Arc::clone(&books),
                source: Arc::new(source.clone()),
                error_log: ErrorLog {
                    enable: true,
                    include_messages: true,
                },
                tracer: None,
            };
            Self {
                inbox: Inbox::new(receiver, outlet),
                events,
                books,
                credit,
                source,
            }
        }

        /// Corrupt, so that the books have something to answer.
        fn corrupt(&self, first_offset: i64, last_offset: i64) -> SourceEvent {
            SourceEvent::Acquired(vec![AcquiredBatch {
                partition: partition("orders", 0),
                records: Vec::new(),
                corrupt: vec![CorruptRange {
                    first_offset,
                    last_offset,
                    delivery_count: 1,
                    cause: "checksum".into(),
                }],
                strays: Vec::new(),
                lock_deadline: Instant::now() + Duration::from_secs(30),
                lock: Duration::from_secs(30),
                acquired_at: Instant::now(),
                held: self.credit.hold(0),
            }])
        }
    }

    #[tokio::test]
    async fn a_dead_generation_leaves_events_to_the_next_one() {
        let Setting { inbox, events, .. } = Setting::with(Tolerance::All);
        let (old, new) = (KillSwitch::default(), KillSwitch::default());
        events.send(SourceEvent::Ready).await.unwrap();
        old.throw();
        let entered = poll_fn(|waker| inbox.poll_enter(&old, waker)).await;
        assert!(entered.is_none());
        let entered = poll_fn(|waker| inbox.poll_enter(&new, waker)).await;
        let is_ready = matches!(
            entered,
            Some(Some(SourceNews::State(1, SourceState::Ready)))
        );
        assert!(is_ready, "{entered:?}");
    }

    /// Whoever has the lock meanwhile, and between all their steps.
    #[tokio::test]
    async fn a_poller_that_dies_while_it_waits_for_the_inbox_enters_nothing() {
        let Setting { inbox, events, .. } = Setting::with(Tolerance::All);
        events.send(SourceEvent::Ready).await.unwrap();
        for _ in 0..500 {
            let (kill, start) = (KillSwitch::default(), Barrier::new(2));
            std::thread::scope(|scope| {
                let held = inbox.mail.lock();
                let polled = scope.spawn(|| {
                    let mut waker = Context::from_waker(Waker::noop());
                    start.wait();
                    inbox.poll_enter(&kill, &mut waker)
                });
                start.wait();
                for _ in 0..100 {
                    std::thread::yield_now();
                }
                kill.throw();
                drop(held);
                let entered = polled.join().unwrap();
                assert!(matches!(entered, Poll::Ready(None)), "{entered:?}");
            });
        }
        assert_eq!(inbox.len(), 1);
    }

    #[tokio::test]
    async fn what_waits_is_entered_in_its_order_without_a_poller() {
        let setting = Setting::with(Tolerance::None);
        let held = setting.corrupt(0, 1);
        let lost = LostRange {
            partition: partition("orders", 0),
            first_offset: 0,
            last_offset: 1,
            cause: "connection lost".into(),
        };
        let again = setting.corrupt(1, 1);
        for event in [held, SourceEvent::Lost(vec![lost]), again] {
            setting.events.send(event).await.unwrap();
        }
        let news = setting.inbox.enter_waiting();
        assert!(
            matches!(&news[..], [SourceNews::Failed(_), SourceNews::Failed(_)]),
            "{news:?}"
        );
        let books = setting.books.lock();
        assert_eq!((books.ledger().open(), books.ledger().held()), (1, 1));
        assert_eq!(setting.inbox.len(), 0);
    }

    /// Whoever is heard first.
    #[tokio::test]
    async fn states_are_numbered_as_they_came() {
        let Setting { inbox, events, .. } = Setting::with(Tolerance::All);
        for _ in 0..3 {
            events.send(SourceEvent::Ready).await.unwrap();
        }
        let kill = KillSwitch::default();
        let polled = poll_fn(|waker| inbox.poll_enter(&kill, waker)).await;
        assert!(matches!(polled, Some(Some(SourceNews::State(1, _)))));
        let news = inbox.enter_waiting();
        assert!(
            matches!(
                &news[..],
                [SourceNews::State(2, _), SourceNews::State(3, _)]
            ),
            "{news:?}"
        );
    }

    #[tokio::test]
    async fn what_others_enter_for_the_poller_counts_as_lying_until_it_looks() {
        let Setting { inbox, events, .. } = Setting::with(Tolerance::All);
        events.send(SourceEvent::Ready).await.unwrap();
        let taken = inbox.work().taken;
        assert_eq!(inbox.work(), WorkSign { waiting: 1, taken });
        inbox.enter_waiting();
        assert_eq!(inbox.work(), WorkSign { waiting: 1, taken });
        let mut waker = Context::from_waker(Waker::noop());
        let (dead, alive) = (KillSwitch::default(), KillSwitch::default());
        dead.throw();
        let polled = inbox.poll_enter(&dead, &mut waker);
        assert!(matches!(polled, Poll::Ready(None)), "{polled:?}");
        assert_eq!(inbox.work(), WorkSign { waiting: 1, taken });
        assert!(inbox.poll_enter(&alive, &mut waker).is_pending());
        assert_eq!(inbox.work().waiting, 0);
        assert_ne!(inbox.work().taken, taken);
    }

    #[tokio::test]
    async fn records_that_are_put_aside_are_logged_when_the_inbox_is_open_again() {
        let setting = Setting::with(Tolerance::All);
        for offset in 0..2 {
            let event = setting.corrupt(offset, offset);
            setting.events.send(event).await.unwrap();
        }
        let inbox = Arc::clone(&setting.inbox);
        let heard = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&heard);
        let _listening = listen(move |_, line| {
            assert!(inbox.mail.try_lock().is_some(), "{line}");
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let kill = KillSwitch::default();
        let polled = poll_fn(|waker| setting.inbox.poll_enter(&kill, waker)).await;
        assert!(matches!(polled, Some(None)), "{polled:?}");
        assert!(setting.inbox.enter_waiting().is_empty());
        assert_eq!(heard.load(Ordering::SeqCst), 2);
    }

    /// Nobody has to be there to carry it out.
    #[tokio::test]
    async fn a_corrupt_range_is_rejected_as_it_is_entered() {
        let setting = Setting::with(Tolerance::All);
        setting.credit.set_window_records(4);
        while setting
            .source
            .count(|fate| matches!(fate, Fate::Acquired { .. }))
            < 4
        {
            tokio::task::yield_now().await;
        }
        setting.events.send(setting.corrupt(1, 2)).await.unwrap();
        assert!(setting.inbox.enter_waiting().is_empty());
        while setting.source.count(|fate| fate == Fate::Rejected) < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(setting.source.fate(0, 2), Fate::Rejected);
    }
}
