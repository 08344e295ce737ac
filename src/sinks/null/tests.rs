use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, advance};

use sluice_actors::chunk::Chunk;
use sluice_actors::outcome::Outcome;
use sluice_actors::ports::sink::{SinkError, SinkFactory};
use sluice_actors::record::SinkRecord;
use sluice_actors::report::Report;

use crate::config::definition::Faults;
use crate::sinks::contract::{
    check, check_outage, factory_of, fresh, opened, put, task, text_record,
};

fn read(settings: &[(&str, &str)]) -> (Option<Arc<dyn SinkFactory>>, Faults) {
    factory_of("null", settings)
}

fn factory(settings: &[(&str, &str)]) -> Arc<dyn SinkFactory> {
    let (factory, faults) = read(settings);
    factory.unwrap_or_else(|| panic!("{faults}"))
}

fn texts(values: &[&str]) -> Vec<SinkRecord> {
    (0..)
        .zip(values)
        .map(|(offset, value)| text_record(offset, value))
        .collect()
}

fn places(outcomes: &[(usize, Outcome)]) -> Vec<usize> {
    outcomes.iter().map(|(place, _)| *place).collect()
}

#[actix::test]
async fn keeps_the_contract_of_sinks() {
    tokio::time::pause();
    check(&factory(&[])).await;
    let slow = [
        ("latency.ms", "3"),
        ("slow.match", "every=2"),
        ("slow.ms", "5"),
    ];
    check(&factory(&slow)).await;
}

#[actix::test]
async fn an_outage_by_rule_is_one_as_the_contract_has_it() {
    tokio::time::pause();
    let settings = [
        ("unavailable.match", "value=away"),
        ("unavailable.ms", "500"),
    ];
    let over = async || advance(Duration::from_millis(500)).await;
    check_outage(&factory(&settings), async || {}, over).await;
}

#[tokio::test]
async fn put_without_settings_is_done_at_once() {
    let mut sink = opened(factory(&[]).as_ref(), 0).await;
    let report = Report::new(2);
    let done = sink
        .put(Chunk::new(texts(&["a", "b"])), report.clone())
        .now_or_never();
    assert_eq!(done, Some(Ok(())));
    assert_eq!(
        fresh(&report),
        [],
        "Ok says it all; reports would cost time"
    );
}

#[tokio::test(start_paused = true)]
async fn put_waits_once_for_all_its_records() {
    let settings = [("latency.ms", "7"), ("record.latency.us", "500")];
    let mut sink = opened(factory(&settings).as_ref(), 0).await;
    let started = Instant::now();
    let (result, _) = put(sink.as_mut(), texts(&["x"; 40])).await;
    assert_eq!(result, Ok(()));
    assert_eq!(started.elapsed(), Duration::from_millis(27));
}

#[tokio::test(start_paused = true)]
async fn slow_records_do_not_hold_up_the_others() {
    let settings = [("slow.match", "value=slow"), ("slow.ms", "1000")];
    let mut sink = opened(factory(&settings).as_ref(), 0).await;
    let chunk = Chunk::new(texts(&["a", "slow", "b", "slow"]));
    let report = Report::new(chunk.len());
    let started = Instant::now();
    let mut running = sink.put(chunk, report.clone());
    assert_eq!(running.as_mut().now_or_never(), None);
    let reported = fresh(&report);
    assert_eq!(places(&reported), [0, 2]);
    assert!(reported.iter().all(|(_, one)| *one == Outcome::Delivered));
    assert_eq!(running.await, Ok(()));
    assert_eq!(started.elapsed(), Duration::from_secs(1), "side by side");
    assert_eq!(report.abandon(), [1, 3], "delivered by the Ok of the put");
}

#[tokio::test]
async fn retried_record_is_fine_after_so_many_failures_of_any_task() {
    let factory = factory(&[("retry.match", "value=flaky,times=2")]);
    let mut first = opened(factory.as_ref(), 0).await;
    let mut second = opened(factory.as_ref(), 1).await;
    let records = texts(&["a", "flaky"]);
    for sink in [&mut first, &mut second] {
        let (result, outcomes) = put(sink.as_mut(), records.clone()).await;
        assert_eq!(result, Ok(()));
        let cause = "orders-0@1 matches retry.match".into();
        assert_eq!(outcomes, [(1, Outcome::Retry(cause))]);
    }
    let (_, outcomes) = put(first.as_mut(), records).await;
    assert_eq!(outcomes, []);
}

#[tokio::test]
async fn reject_takes_its_record_only_and_names_it() {
    let mut sink = opened(factory(&[("reject.match", "offset=1")]).as_ref(), 0).await;
    let (result, outcomes) = put(sink.as_mut(), texts(&["a", "b", "c"])).await;
    assert_eq!(result, Ok(()));
    let [(1, Outcome::Reject(rejection))] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    assert_eq!(
        rejection.to_string(),
        "TASK_PUT: orders-0@1 matches reject.match"
    );
}

#[tokio::test(start_paused = true)]
async fn outage_hits_all_tasks_and_ends() {
    let settings = [
        ("unavailable.match", "value=down"),
        ("unavailable.ms", "500"),
    ];
    let factory = factory(&settings);
    let mut first = opened(factory.as_ref(), 0).await;
    let mut second = opened(factory.as_ref(), 1).await;
    let (fine, _) = put(second.as_mut(), texts(&["a"])).await;
    assert_eq!(fine, Ok(()));

    let (began, _) = put(first.as_mut(), texts(&["down"])).await;
    assert!(matches!(began, Err(SinkError::Unavailable(_))), "{began:?}");
    let (other, _) = put(second.as_mut(), texts(&["a"])).await;
    assert!(matches!(other, Err(SinkError::Unavailable(_))), "{other:?}");

    advance(Duration::from_millis(500)).await;
    let (ended, _) = put(first.as_mut(), texts(&["down"])).await;
    assert_eq!(ended, Ok(()), "the same record begins no second outage");
}

#[tokio::test]
async fn fatal_rule_breaks_the_put_and_names_the_record() {
    let mut sink = opened(factory(&[("fatal.match", "offset=2")]).as_ref(), 0).await;
    let (result, _) = put(sink.as_mut(), texts(&["a", "b", "c"])).await;
    let cause = "orders-0@2 matches fatal.match".into();
    assert_eq!(result, Err(SinkError::Fatal(cause)));
}

#[tokio::test]
#[should_panic(expected = "orders-0@0 matches panic.match")]
async fn panic_rule_panics_and_names_the_record() {
    let mut sink = opened(factory(&[("panic.match", "value=poison")]).as_ref(), 0).await;
    let _ = put(sink.as_mut(), texts(&["poison"])).await;
}

#[tokio::test]
async fn the_worst_rule_counts() {
    let settings = [("reject.match", "offset=0"), ("retry.match", "every=1")];
    let mut sink = opened(factory(&settings).as_ref(), 0).await;
    let (_, outcomes) = put(sink.as_mut(), texts(&["a"])).await;
    assert!(matches!(outcomes.as_slice(), [(0, Outcome::Reject(_))]));
}

#[tokio::test(start_paused = true)]
async fn blocking_holds_the_thread_and_the_traits_say_so() {
    assert!(!factory(&[("slow.match", "every=1")]).traits().blocking);
    let factory = factory(&[("block.match", "offset=0"), ("block.ms", "20")]);
    assert!(factory.traits().blocking);
    let mut sink = opened(factory.as_ref(), 0).await;
    let started = std::time::SystemTime::now();
    let done = put(sink.as_mut(), texts(&["a"])).now_or_never();
    assert!(done.is_some(), "a blocking put never yields");
    assert!(started.elapsed().unwrap() >= Duration::from_millis(20));
}

#[tokio::test(start_paused = true)]
async fn delivered_records_are_told_in_the_record_file_before_they_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    let settings = [
        ("record.file", path.to_str().unwrap()),
        ("slow.match", "value=slow"),
        ("reject.match", "value=bad"),
        ("retry.match", "value=flaky"),
        ("panic.match", "value=deadly"),
    ];
    let factory = factory(&settings);
    let mut sink = opened(factory.as_ref(), 0).await;
    let told = || std::fs::read_to_string(&path).unwrap();

    let chunk = Chunk::new(texts(&["a", "slow", "bad", "b", "flaky"]));
    let report = Report::new(chunk.len());
    let mut running = sink.put(chunk, report.clone());
    assert_eq!(running.as_mut().now_or_never(), None);
    assert_eq!(told(), "a\nb\n", "as soon as they are reported");
    let good = fresh(&report)
        .into_iter()
        .filter(|(_, one)| *one == Outcome::Delivered);
    assert_eq!(places(&good.collect::<Vec<_>>()), [0, 3]);
    assert_eq!(running.await, Ok(()));
    assert_eq!(told(), "a\nb\nslow\n");

    let deadly = put(sink.as_mut(), texts(&["c", "deadly"]));
    let died = std::panic::AssertUnwindSafe(deadly).catch_unwind().await;
    assert!(died.is_err());
    assert_eq!(told(), "a\nb\nslow\n", "nothing of a put that panicked");

    let mut other = opened(factory.as_ref(), 1).await;
    assert_eq!(put(other.as_mut(), texts(&["d"])).await.0, Ok(()));
    assert_eq!(told(), "a\nb\nslow\nd\n", "all tasks append");
}

#[tokio::test]
async fn a_record_file_that_cannot_be_written_is_named() {
    // No folder, whoever runs this.
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = format!("{}/records", file.path().display());
    let factory = factory(&[("record.file", &path)]);
    let mut sink = factory.create(&task(0)).unwrap();
    let Err(SinkError::Fatal(cause)) = sink.open().await else {
        panic!("opened");
    };
    assert!(cause.contains(&format!("record.file {path}")), "{cause}");
}

#[test]
fn all_faults_are_told_by_key() {
    let (factory, faults) = read(&[
        ("latency.ms", "soon"),
        ("slow.match", "ofset=5"),
        ("panic.match", "every=0"),
    ]);
    assert!(factory.is_none());
    let mut keys: Vec<_> = faults.iter().map(|fault| fault.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["latency.ms", "panic.match", "slow.match"]);
}

#[test]
fn tasks_are_made_without_opening_anything() {
    assert!(factory(&[]).create(&task(3)).is_ok());
}
