//! Changes the books, and carries out what they answer.

use std::sync::Arc;

use tokio::time::Instant;

use crate::books::{Books, Effects, Notice, SharedBooks};
use crate::error_log::ErrorLog;
use crate::messages::RecordFailed;
use crate::outcome::Rejection;
use crate::ports::source::Source;
use crate::ports::tracer::Tracer;

/// The way out for one connector, for all its actors.
#[derive(Clone)]
pub(crate) struct Outlet {
    pub(crate) connector: Arc<str>,
    pub(crate) books: Arc<SharedBooks>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) error_log: ErrorLog,
    pub(crate) tracer: Option<Arc<dyn Tracer>>,
}

impl Outlet {
    /// Changes the books and does what follows of it. Returns the record that
    /// fails the connector, if one does.
    pub(crate) fn enter(&self, change: impl FnOnce(&mut Books) -> Effects) -> Option<RecordFailed> {
        let effects = self.change(change);
        self.tell(effects)
    }

    /// Changes the books and tells the source in one step, under the books'
    /// lock: settlements leave in the order in which they were entered, and no
    /// actor's death comes in between. Returns what is to be told.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Books) -> Effects) -> Effects {
        let effects = {
            let mut books = self.books.lock();
            let mut effects = change(&mut books);
            let settle = std::mem::take(&mut effects.settle);
            if !settle.is_empty() {
                books.settling(&settle);
                self.source.settle(settle);
            }
            effects.finished = books.take_finished();
            effects
        };
        if effects.work {
            self.books.work.notify_waiters();
        }
        if effects.letters {
            self.books.letters.notify_waiters();
        }
        effects
    }

    /// Tells log and tracer, under no lock: who reads the log slowly, and the
    /// making of spans, must hold up nobody. Returns the record that fails the
    /// connector, if one does.
    pub(crate) fn tell(&self, effects: Effects) -> Option<RecordFailed> {
        if let Some(tracer) = &self.tracer {
            effects.finished.tell(&**tracer);
        }
        if !effects.notices.is_empty() {
            self.log(self.digested(effects.notices));
        }
        let logged = self.error_log.tell(&self.connector, effects.put_aside);
        self.books.add_errors_logged(logged);
        let failed = effects.failure?;
        let Rejection { stage, cause } = failed.rejection;
        let rejection = Rejection::new(stage, self.error_log.words(cause));
        Some(RecordFailed {
            rejection,
            ..failed
        })
    }

    /// What is to be logged at once.
    fn digested(&self, notices: Vec<Notice>) -> Vec<Notice> {
        let (mut digest, now) = (self.books.digest.lock(), Instant::now());
        let notices = notices.into_iter();
        notices.filter_map(|it| digest.take(it, now)).collect()
    }

    /// Logs what was to be told later, and now all of it if this is the end.
    pub(crate) fn log_late(&self, is_end: bool) {
        let mut digest = self.books.digest.lock();
        let told: Vec<Notice> = match is_end {
            true => digest.rest().collect(),
            false => digest.due(Instant::now()).collect(),
        };
        drop(digest);
        self.log(told);
    }

    fn log(&self, notices: Vec<Notice>) {
        for notice in notices {
            notice.log(&self.connector, self.error_log);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;
    use tracing::Level;

    use super::*;
    use crate::books::tests::batch;
    use crate::books::{PutAside, Tolerance};
    use crate::credit::Credit;
    use crate::life::{Choice, FinishedLife, FinishedPut};
    use crate::outcome::Stage;
    use crate::record::RecordId;
    use crate::sampling::Sampling;
    use crate::testing::{FakeSource, listen, partition, policy};

    /// Minds when it is told while the books are locked.
    #[derive(Debug)]
    struct Unlocked(Arc<SharedBooks>);

    impl Tracer for Unlocked {
        fn sampling(&self) -> Sampling {
            Sampling::ratio(1.0)
        }

        fn admits(&self, _choice: Choice, _now: Instant) -> bool {
            true
        }

        fn left_out(&self, _deliveries: usize) {}

        fn ended(&self, life: FinishedLife) {
            assert!(!self.0.is_locked());
            tracing::error!(connector = "test", offset = life.life.origin.offset, "told");
        }

        fn put_ended(&self, _put: FinishedPut) {}
    }

    #[tokio::test]
    async fn all_is_logged_when_the_books_are_open_again() {
        let credit = Credit::new(0);
        let books = SharedBooks::new(policy(1, Tolerance::All), Arc::clone(&credit));
        let (source, _events) = FakeSource::start(&credit, &[], Duration::from_secs(1));
        let outlet = Outlet {
            connector: "test".into(),
            books: Arc::clone(&books),
            source: Arc::new(source),
            error_log: ErrorLog {
                enable: true,
                include_messages: false,
            },
            tracer: Some(Arc::new(Unlocked(Arc::clone(&books)))),
        };
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let _listening = listen(move |level, line| {
            assert!(!books.is_locked(), "{line}");
            assert!(line.contains("connector=\"test\""), "{line}");
            heard.lock().push(level);
        });
        let record = RecordId {
            partition: partition("orders", 0),
            offset: 7,
        };
        outlet.enter(|_| Effects {
            put_aside: vec![PutAside {
                record,
                rejection: Rejection::new(Stage::TaskPut, "no good"),
                trace: None,
            }],
            notices: vec![Notice::WentDown { records: 1 }],
            ..Effects::default()
        });
        assert_eq!(*lines.lock(), [Level::ERROR, Level::WARN]);
        lines.lock().clear();
        let tracer = outlet.tracer.clone();
        outlet.books.lock().trace_by(tracer.unwrap());
        let batch = batch(0..1, 1);
        outlet.enter(|books| {
            let mut effects = Effects::default();
            let acquisition = books.acquire(&batch, &mut effects);
            books.begin_lives(&batch, acquisition);
            books.watch_locks(batch.lock_deadline)
        });
        assert_eq!(*lines.lock(), [Level::ERROR], "its lock has ended");
    }
}
