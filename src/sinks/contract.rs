//! What every sink must pass, and what sinks are tried with.

mod fixtures;
mod tests;
mod trial;
mod worker;

use std::sync::Arc;

use sluice_actors::outcome::Outcome;
use sluice_actors::ports::sink::{SinkError, SinkFactory};
use sluice_actors::record::SinkRecord;

pub(super) use fixtures::{
    factory_of, fresh, item, opened, producer, put, record, task, text_record, with_header,
};

use fixtures::all_sorts;
use trial::Trial;
use worker::Worker;

/// Tries a sink that is in good health: it must take whatever may lie in a
/// topic, and stand being used as the pipeline uses it. Needs a running actix
/// `System`, as does the other.
pub(in crate::sinks) async fn check(factory: &Arc<dyn SinkFactory>) {
    opens_and_closes_without_a_put(factory).await;
    takes_all_that_may_lie_in_a_topic(factory).await;
    takes_the_same_records_again(factory).await;
    stands_a_put_that_is_fenced(factory).await;
    for turns in [0, 1, 5] {
        stands_a_put_that_is_given_up(factory, turns).await;
    }
    counts_in_a_worker(factory).await;
}

async fn opens_and_closes_without_a_put(factory: &Arc<dyn SinkFactory>) {
    let mut sink = Trial::opened(&**factory, 0).await;
    sink.flush().await.expect("flush of nothing");
    sink.close().await;
}

async fn takes_all_that_may_lie_in_a_topic(factory: &Arc<dyn SinkFactory>) {
    let mut sink = Trial::opened(&**factory, 0).await;
    delivers(factory, &mut sink, all_sorts()).await;
    sink.close().await;
}

async fn takes_the_same_records_again(factory: &Arc<dyn SinkFactory>) {
    for task in [0, 0, 1] {
        let mut sink = Trial::opened(&**factory, task).await;
        for _ in 0..2 {
            delivers(factory, &mut sink, all_sorts()).await;
        }
        sink.close().await;
    }
}

/// Puts records and makes them last; all are delivered, and none before it is.
async fn delivers(factory: &Arc<dyn SinkFactory>, sink: &mut Trial, records: Vec<SinkRecord>) {
    let (result, outcomes) = sink.put(records).await;
    result.expect("put");
    assert_good(factory, &outcomes);
    sink.flush().await.expect("flush");
}

fn assert_good(factory: &Arc<dyn SinkFactory>, outcomes: &[(usize, Outcome)]) {
    for (place, outcome) in outcomes {
        match outcome {
            Outcome::Delivered if factory.traits().buffers => {
                panic!("a sink that buffers called record {place} delivered before the flush")
            }
            Outcome::Delivered | Outcome::Buffered => {}
            Outcome::Retry(_) | Outcome::Reject(_) => panic!("record {place}: {outcome:?}"),
        }
    }
}

async fn stands_a_put_that_is_fenced(factory: &Arc<dyn SinkFactory>) {
    let mut sink = Trial::opened(&**factory, 0).await;
    sink.put_fenced(all_sorts()).await.expect("late put");
    delivers(factory, &mut sink, all_sorts()).await;
    sink.close().await;
}

async fn stands_a_put_that_is_given_up(factory: &Arc<dyn SinkFactory>, turns: usize) {
    let mut closed = Trial::opened(&**factory, 0).await;
    closed.give_up_a_put(all_sorts(), turns).await;
    closed.close().await;
    let mut thrown_away = Trial::opened(&**factory, 0).await;
    thrown_away.give_up_a_put(all_sorts(), turns).await;
    let mut other = Trial::opened(&**factory, 0).await;
    delivers(factory, &mut other, all_sorts()).await;
    other.close().await;
    thrown_away.throw_away().await;
}

async fn counts_in_a_worker(factory: &Arc<dyn SinkFactory>) {
    let mut worker = Worker::start(factory);
    worker.append(&[b"a", b"b", b"c"]);
    worker.delivers_all().await;
    worker.append(&[b"d"]);
    worker.delivers_all().await;
    worker.has_no_trouble_to_tell().await;
    worker.end().await;
}

/// Tries a sink whose destination `fall` takes away, if it is not away from
/// the first, and `mend` brings back. It must say so, blame no record for it
/// and call none delivered, and then go on as the same instance. The records
/// of the outage have `away` in their values.
pub(in crate::sinks) async fn check_outage(
    factory: &Arc<dyn SinkFactory>,
    fall: impl AsyncFnOnce(),
    mend: impl AsyncFnOnce(),
) {
    let mut worker = Worker::start(factory);
    let mut sink = Trial::created(&**factory);
    let mut opened = sink.open().await;
    if opened.is_ok() {
        delivers(factory, &mut sink, vec![text_record(0, "before")]).await;
        worker.append(&[b"before"]);
        worker.delivers_all().await;
    }
    fall().await;
    match &opened {
        Ok(()) => is_away(factory, &mut sink).await,
        Err(error) => assert_blames_no_record(error),
    }
    worker.append(&[b"away", b"away too"]);
    worker.tells_of_an_outage().await;
    mend().await;
    worker.delivers_all().await;
    worker.end().await;
    if opened.is_err() {
        opened = sink.open().await;
    }
    opened.expect("open after an outage");
    let records = vec![text_record(3, "after"), text_record(4, "after")];
    delivers(factory, &mut sink, records).await;
    sink.close().await;
}

async fn is_away(factory: &Arc<dyn SinkFactory>, sink: &mut Trial) {
    let records = vec![text_record(1, "away"), text_record(2, "away too")];
    let (expected, (mut result, outcomes)) = (records.len(), sink.put(records).await);
    let is_retried = |(_, outcome): &(usize, Outcome)| matches!(outcome, Outcome::Retry(_));
    assert!(outcomes.iter().all(is_retried), "{outcomes:?}");
    if factory.traits().buffers && result.is_ok() {
        result = sink.flush().await;
    }
    match result {
        Ok(()) => assert_eq!(outcomes.len(), expected, "delivered in an outage"),
        Err(error) => assert_blames_no_record(&error),
    }
}

fn assert_blames_no_record(error: &SinkError) {
    let is_blameless = matches!(
        error,
        SinkError::Unavailable(_) | SinkError::UnavailableFor(..) | SinkError::Retry(_)
    );
    assert!(is_blameless, "{error:?}");
}
