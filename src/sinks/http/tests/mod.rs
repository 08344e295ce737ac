//! The sink against a real server, status by status.

mod answers;
mod authorization;
mod batches;
mod requests;
mod settings;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use sluice_actors::chunk::Chunk;
use sluice_actors::outcome::{Cause, Outcome};
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory};
use sluice_actors::record::SinkRecord;
use sluice_actors::report::Report;
use sluice_actors::value::{Datum, Value};
use sluice_test_support::receiver::{Arrival, Receiver, Reply};
use sluice_test_support::wait::eventually;

use crate::config::definition::Faults;
use crate::sinks::contract::{check, check_outage, factory_of, fresh, opened, put, text_record};

const SOON: Duration = Duration::from_secs(20);

fn read(settings: &[(&str, &str)]) -> (Option<Arc<dyn SinkFactory>>, Faults) {
    factory_of("http", settings)
}

fn factory(url: &str, settings: &[(&str, &str)]) -> Arc<dyn SinkFactory> {
    let mut all = vec![("http.url", url)];
    all.extend(settings);
    let (factory, faults) = read(&all);
    factory.unwrap_or_else(|| panic!("{faults}"))
}

async fn sink(url: &str, settings: &[(&str, &str)]) -> Box<dyn Sink> {
    opened(factory(url, settings).as_ref(), 0).await
}

async fn receiver(plan: impl Fn(&Arrival) -> Reply + Send + Sync + 'static) -> Receiver {
    Receiver::start(plan).await.unwrap()
}

fn texts(values: &[&str]) -> Vec<SinkRecord> {
    (0..)
        .zip(values)
        .map(|(offset, value)| text_record(offset, value))
        .collect()
}

fn keyed(offset: i64, key: &str, value: Datum) -> SinkRecord {
    let mut record = text_record(offset, "");
    record.key = Datum::schemaless(Value::String(key.into()));
    record.value = value;
    record
}

fn bodies(receiver: &Receiver) -> Vec<String> {
    receiver.arrivals().iter().map(Arrival::text).collect()
}

/// What was reported, in short and by place.
fn told(mut outcomes: Vec<(usize, Outcome)>) -> Vec<(usize, &'static str)> {
    outcomes.sort_by_key(|(place, _)| *place);
    let name = |outcome: &Outcome| match outcome {
        Outcome::Delivered => "delivered",
        Outcome::Buffered => "buffered",
        Outcome::Retry(_) => "retry",
        Outcome::Reject(_) => "reject",
    };
    outcomes
        .iter()
        .map(|(place, outcome)| (*place, name(outcome)))
        .collect()
}

fn cause_of(outcome: &Outcome) -> Cause {
    match outcome {
        Outcome::Retry(cause) => cause.clone(),
        Outcome::Reject(rejection) => rejection.cause.clone(),
        Outcome::Delivered | Outcome::Buffered => panic!("{outcome:?}"),
    }
}

/// Puts one record; its outcome and the put's end in one word, and the cause
/// in full.
async fn fate(sink: &mut dyn Sink, value: &str) -> (&'static str, String) {
    let (fate, cause) = end(sink, value).await;
    (fate, cause.whole().to_owned())
}

async fn end(sink: &mut dyn Sink, value: &str) -> (&'static str, Cause) {
    let (result, outcomes) = put(sink, texts(&[value])).await;
    match (result, outcomes.as_slice()) {
        (Ok(()), [(0, Outcome::Delivered)]) => ("delivered", "".into()),
        (Ok(()), [(0, outcome)]) => (told(outcomes.clone())[0].1, cause_of(outcome)),
        (Err(SinkError::Unavailable(cause)), []) => ("unavailable", cause),
        (Err(SinkError::UnavailableFor(cause, _)), []) => ("told to wait", cause),
        (Err(SinkError::RejectedOne(cause)), []) => ("reject one", cause),
        other => panic!("{other:?}"),
    }
}

#[actix::test]
async fn keeps_the_contract_of_sinks() {
    let receiver = receiver(|_| Reply::ok()).await;
    let url = receiver.url("/in/${topic}");
    for settings in [
        vec![],
        vec![("max.in.flight.requests", "3"), ("request.method", "PUT")],
        vec![
            ("batching.enabled", "true"),
            ("batch.max.size", "2"),
            ("request.body.format", "json"),
            ("idempotency.key.from", "topic"),
        ],
        vec![("http.headers.forward", "*")],
    ] {
        check(&factory(&url, &settings)).await;
    }
}

#[actix::test]
async fn an_endpoint_that_goes_away_is_an_outage_as_the_contract_has_it() {
    let first = receiver(|_| Reply::ok()).await;
    let (url, address) = (first.url("/in"), first.address());
    let mut second = None;
    let mend = async || {
        second = Some(Receiver::start_at(address, |_| Reply::ok()).await.unwrap());
    };
    check_outage(&factory(&url, &[]), || first.stop(), mend).await;
    let mut came = bodies(&second.unwrap());
    came.sort_unstable();
    assert_eq!(came, ["after", "after", "away", "away too"]);
}

#[actix::test]
async fn an_endpoint_that_takes_nothing_is_an_outage_as_the_contract_has_it() {
    for status in [503, 401, 404] {
        let shut = Arc::new(AtomicBool::new(false));
        let is_shut = Arc::clone(&shut);
        let receiver = receiver(move |_| match is_shut.load(Ordering::SeqCst) {
            true => Reply::status(status),
            false => Reply::ok(),
        })
        .await;
        let factory = factory(&receiver.url("/in"), &[("max.in.flight.requests", "2")]);
        let turn = async |to| shut.store(to, Ordering::SeqCst);
        check_outage(&factory, || turn(true), || turn(false)).await;
    }
}
