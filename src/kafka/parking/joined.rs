//! The source of a connector that parks: its own topics, and behind them the
//! parking topic. Their events come by one way, so that each enters in the
//! order in which its source told it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use sluice_actors::outcome::Cause;
use sluice_actors::ports::source::{SettleRange, Source, SourceClosed, SourceEvent};

/// See the module.
pub struct JoinedSource {
    pub own: Arc<dyn Source>,
    pub parked: Arc<dyn Source>,
    /// The parking topic.
    pub topic: Arc<str>,
}

impl Source for JoinedSource {
    fn settle(&self, ranges: Vec<SettleRange>) {
        let is_parked = |range: &SettleRange| range.partition.topic == self.topic;
        let (parked, own): (Vec<_>, Vec<_>) = ranges.into_iter().partition(is_parked);
        if !own.is_empty() {
            self.own.settle(own);
        }
        if !parked.is_empty() {
            self.parked.settle(parked);
        }
    }

    fn close(&self, deadline: Duration) -> BoxFuture<'static, SourceClosed> {
        let both = futures::future::join(self.own.close(deadline), self.parked.close(deadline));
        both.map(|(own, parked)| SourceClosed {
            unconfirmed: own.unconfirmed + parked.unconfirmed,
            cause: own.cause.or(parked.cause),
        })
        .boxed()
    }
}

/// Which of the two sources speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Own,
    Parked,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Starting,
    Ready,
    Troubled(Cause),
}

/// What two sources tell of themselves as one. It is ready when the
/// connector's own one is: parked records may come later, and are not read
/// before they are wanted.
#[derive(Clone, Debug, Default)]
pub struct States(Arc<Mutex<[State; 2]>>);

impl States {
    /// What the two tell together when one of them tells this.
    #[must_use]
    pub fn tell(&self, of: Of, event: SourceEvent) -> Option<SourceEvent> {
        let state = match event {
            SourceEvent::Ready => State::Ready,
            SourceEvent::Troubled { cause } => State::Troubled(cause),
            event => return Some(event),
        };
        let mut states = self.0.lock();
        states[of as usize] = state;
        let mut troubles = states.iter().filter_map(|state| match state {
            State::Troubled(cause) => Some(cause.clone()),
            State::Starting | State::Ready => None,
        });
        match troubles.next() {
            Some(cause) => Some(SourceEvent::Troubled { cause }),
            None => {
                let is_ready = matches!(states[Of::Own as usize], State::Ready);
                is_ready.then_some(SourceEvent::Ready)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_actors::ports::source::Settlement;
    use sluice_actors::testing::partition;

    use super::*;

    /// Writes down what it is told.
    #[derive(Default)]
    struct Scribe(Mutex<Vec<i64>>);

    impl Source for Scribe {
        fn settle(&self, ranges: Vec<SettleRange>) {
            let offsets = ranges.iter().map(|range| range.first_offset);
            self.0.lock().extend(offsets);
        }

        fn close(&self, _deadline: Duration) -> BoxFuture<'static, SourceClosed> {
            let unconfirmed = self.0.lock().len() as u64;
            let cause = (unconfirmed > 1).then(|| "late".into());
            async move { SourceClosed { unconfirmed, cause } }.boxed()
        }
    }

    #[tokio::test]
    async fn each_source_gets_what_is_its_own() {
        let (own, parked) = (Arc::<Scribe>::default(), Arc::<Scribe>::default());
        let joined = JoinedSource {
            own: Arc::clone(&own) as _,
            parked: Arc::clone(&parked) as _,
            topic: "parked".into(),
        };
        let range = |topic, offset| SettleRange {
            partition: partition(topic, 0),
            first_offset: offset,
            last_offset: offset,
            settlement: Settlement::Accept,
        };
        joined.settle(vec![
            range("orders", 1),
            range("parked", 2),
            range("orders", 3),
        ]);
        assert_eq!(*own.0.lock(), [1, 3]);
        assert_eq!(*parked.0.lock(), [2]);
        let closed = joined.close(Duration::ZERO).await;
        assert_eq!(
            (closed.unconfirmed, closed.cause.as_deref()),
            (3, Some("late"))
        );
    }

    #[test]
    fn they_are_ready_when_the_connectors_own_one_is() {
        let states = States::default();
        assert!(states.tell(Of::Parked, SourceEvent::Ready).is_none());
        let ready = states.tell(Of::Own, SourceEvent::Ready);
        assert!(matches!(ready, Some(SourceEvent::Ready)));
    }

    #[test]
    fn the_trouble_of_one_outlasts_the_others_recovery() {
        let states = States::default();
        let trouble = |cause: &str| SourceEvent::Troubled {
            cause: cause.into(),
        };
        let shown = |told: Option<SourceEvent>| match told {
            Some(SourceEvent::Troubled { cause }) => cause.to_string(),
            told => panic!("{told:?}"),
        };
        assert_eq!(shown(states.tell(Of::Own, trouble("own"))), "own");
        assert_eq!(shown(states.tell(Of::Parked, trouble("parked"))), "own");
        assert_eq!(shown(states.tell(Of::Own, SourceEvent::Ready)), "parked");
        let ready = states.tell(Of::Parked, SourceEvent::Ready);
        assert!(matches!(ready, Some(SourceEvent::Ready)));
    }
}
