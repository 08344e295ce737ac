//! Sessions that end within, and answers that come too late.

use std::sync::Arc;
use std::time::Duration;

use krafka::error::ErrorCode;
use krafka::testing::{ApiKey, Control, FakeBroker, ShareAckType};
use sluice_actors::ports::source::{Answer, AnsweredRange, Settlement, SourceClosed, SourceEvent};
use tokio::sync::Notify;

use super::bed::{Bed, TOPIC};

const REQUEST_TIMEOUT: Duration = Duration::from_millis(800);

/// A source that waits not long for answers.
async fn impatient(partitions: i32) -> Bed {
    let broker = FakeBroker::start().await.unwrap();
    broker.create_topic(TOPIC, partitions);
    Bed::on(broker, |config| config.request_timeout = REQUEST_TIMEOUT).await
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_a_session_the_next_one_fetches_all_partitions() {
    let mut bed = impatient(2).await;
    bed.until(&["ready"]).await;
    let ends = [
        (Control::Error(ErrorCode::ShareSessionNotFound), false),
        (Control::Error(ErrorCode::InvalidShareSessionEpoch), false),
        (Control::Error(ErrorCode::ShareSessionLimitReached), false),
        (Control::Disconnect, true),
        (Control::Silence, true),
    ];
    let mut connections = 1;
    for (round, (end, with_connection)) in ends.into_iter().enumerate() {
        let name = format!("{end:?}");
        let met = Arc::new(Notify::new());
        let meets = Arc::clone(&met);
        bed.broker.on_once(ApiKey::ShareFetch, move |_| {
            meets.notify_one();
            end.clone()
        });
        met.notified().await;
        for partition in 0..2 {
            bed.produce_to(partition, 1).await;
        }
        bed.records(2 * (round + 1)).await;
        connections += usize::from(with_connection);
        let used = bed.connections(ApiKey::ShareFetch).len();
        assert_eq!(used, connections, "after {name}");
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_too_late_changes_nothing_and_what_is_settled_after_it_counts() {
    let mut bed = impatient(1).await;
    bed.produce(5).await;
    bed.records(5).await;
    let late = || Control::ApplyThen(Box::new(Control::Delay(REQUEST_TIMEOUT * 2)));
    bed.broker
        .on_once(ApiKey::ShareAcknowledge, move |_| late());
    bed.settle(0, 4, Settlement::Renew);
    bed.settle(0, 1, Settlement::Accept);
    bed.until(&["lost", "no answer within 800 ms"]).await;
    bed.told.clear();
    bed.until(&["ready"]).await;
    bed.produce(2).await;
    bed.records(7).await;
    bed.settle(5, 6, Settlement::Accept);
    assert_eq!(bed.close().await, SourceClosed::default());
    bed.until(&["confirmed Accept 5-6"]).await;
    for (offset, types) in bed.acknowledged() {
        let finals = types.iter().filter(|one| **one != ShareAckType::Renew);
        assert!(finals.count() <= 1, "{offset}: {types:?}");
    }
}

/// What is told to the broker after an answer has failed to come must neither
/// get lost with it nor be told twice, also when the source is closed then.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_settled_while_an_answer_is_late_is_counted_at_the_end_and_sent_once_at_most() {
    let mut bed = impatient(1).await;
    bed.produce(5).await;
    bed.records(5).await;
    let met = Arc::new(Notify::new());
    let meets = Arc::clone(&met);
    bed.broker.on_once(ApiKey::ShareAcknowledge, move |_| {
        meets.notify_one();
        Control::ApplyThen(Box::new(Control::Delay(REQUEST_TIMEOUT * 2)))
    });
    // A renewal goes by an acknowledgement of its own.
    bed.settle(4, 4, Settlement::Renew);
    bed.settle(0, 0, Settlement::Accept);
    met.notified().await;
    bed.settle(1, 2, Settlement::Accept);
    bed.settle(3, 3, Settlement::Release);
    let closed = bed.close().await;
    let mut answered = Vec::new();
    while let Some(event) = bed.events.recv().await {
        let SourceEvent::Answered(answers) = event else {
            continue;
        };
        for AnsweredRange { range, answer, .. } in answers {
            if range.settlement != Settlement::Renew {
                assert!(matches!(answer, Answer::Unknown { .. }), "{answer:?}");
                answered.extend(range.first_offset..=range.last_offset);
            }
        }
    }
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2, 3], "each has one answer");
    assert_eq!(closed.unconfirmed, 4, "{closed:?}");
    for (offset, types) in bed.acknowledged() {
        let finals = types.iter().filter(|one| **one != ShareAckType::Renew);
        assert!(finals.count() <= 1, "{offset}: {types:?}");
    }
}
