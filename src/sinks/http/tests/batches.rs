//! Several records in one request.

use super::*;
use crate::sinks::contract::record;

const BATCHING: (&str, &str) = ("batching.enabled", "true");

fn of_topic(topic: &str, offset: i64, value: &str) -> SinkRecord {
    let mut record = text_record(offset, value);
    record.topic = topic.into();
    record
}

#[tokio::test]
async fn a_put_is_one_json_array() {
    let receiver = receiver(|_| Reply::ok()).await;
    let settings = [BATCHING, ("idempotency.key.from", "topic")];
    let mut sink = sink(&receiver.url("/"), &settings).await;
    let records = || texts(&[r#"{"a":1}"#, "2", "null"]);
    let (result, outcomes) = put(sink.as_mut(), records()).await;
    let all = [(0, "delivered"), (1, "delivered"), (2, "delivered")];
    assert_eq!((result, told(outcomes)), (Ok(()), all.to_vec()));
    assert_eq!(put(sink.as_mut(), records()).await.0, Ok(()));
    assert_eq!(put(sink.as_mut(), texts(&["1", "2"])).await.0, Ok(()));

    let arrivals = receiver.arrivals();
    assert_eq!(arrivals[0].text(), r#"[{"a":1},2,null]"#);
    assert_eq!(arrivals[0].header("content-type"), Some("application/json"));
    let keys: Vec<_> = arrivals
        .iter()
        .filter_map(|it| it.header("idempotency-key"))
        .collect();
    assert!(keys[0].starts_with("orders-0-0.3."), "{keys:?}");
    assert_eq!(keys[0], keys[1], "the same records");
    assert_ne!(keys[0], keys[2], "other records");
}

#[tokio::test]
async fn a_batch_has_one_address_and_so_many_records_at_most() {
    let receiver = receiver(|_| Reply::ok()).await;
    let settings = [
        BATCHING,
        ("batch.max.size", "2"),
        ("batch.prefix", ""),
        ("batch.separator", "\\n"),
        ("batch.suffix", "\\n"),
        ("http.headers.content.type", "application/x-ndjson"),
    ];
    let mut sink = sink(&receiver.url("/${topic}"), &settings).await;
    let records = vec![
        of_topic("a", 0, "a0"),
        of_topic("b", 1, "b1"),
        of_topic("a", 2, "a2"),
        record(3, Datum::null()),
        of_topic("a", 4, "a4"),
        of_topic("b", 5, "b5"),
    ];
    let (result, outcomes) = put(sink.as_mut(), records).await;
    assert_eq!(result, Ok(()));
    assert!(outcomes.iter().all(|(_, it)| *it == Outcome::Delivered));
    assert_eq!(outcomes.len(), 6);
    let arrivals = receiver.arrivals();
    let seen: Vec<_> = arrivals
        .iter()
        .map(|it| (it.path.clone(), it.text()))
        .collect();
    let expected = [("/a", "a0\na2\n"), ("/b", "b1\nb5\n"), ("/a", "a4\n")];
    assert_eq!(
        seen,
        expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
    );
    assert_eq!(
        arrivals[0].header("content-type"),
        Some("application/x-ndjson")
    );
}

#[tokio::test]
async fn one_bad_record_of_a_refused_batch_is_looked_for_and_the_others_are_kept() {
    let receiver = receiver(|arrival| match arrival.text().contains("bad") {
        true => Reply::body(413, "too large"),
        false => Reply::ok(),
    })
    .await;
    let settings = [BATCHING, ("batch.max.size", "2")];
    let mut sink = sink(&receiver.url("/"), &settings).await;
    let (result, outcomes) = put(sink.as_mut(), texts(&["1", "2", "bad", "4", "5"])).await;
    let Err(SinkError::RejectedOne(cause)) = result else {
        panic!("{result:?}");
    };
    assert!(
        cause.contains("413") && cause.whole().contains("too large"),
        "{cause}"
    );
    let kept = [(0, "delivered"), (1, "delivered"), (4, "delivered")];
    assert_eq!(told(outcomes), kept, "batches before and after it");

    // As the pipeline splits it.
    let (result, outcomes) = put(sink.as_mut(), texts(&["bad"])).await;
    assert_eq!((result, told(outcomes)), (Ok(()), vec![(0, "reject")]));
}

#[tokio::test]
async fn a_failure_that_may_pass_is_that_of_the_whole_batch() {
    let receiver = receiver(|_| Reply::status(500)).await;
    let mut sink = sink(&receiver.url("/"), &[BATCHING]).await;
    let (result, outcomes) = put(sink.as_mut(), texts(&["1", "2"])).await;
    assert_eq!(result, Ok(()));
    assert_eq!(told(outcomes), [(0, "retry"), (1, "retry")]);
}

#[tokio::test]
async fn a_value_that_is_no_json_is_rejected_and_its_batch_goes_without_it() {
    let receiver = receiver(|_| Reply::ok()).await;
    let mut sink = sink(&receiver.url("/"), &[BATCHING]).await;
    let unfit = Datum::schemaless(Value::Struct(vec![Value::Null]));
    let records = vec![text_record(0, "0"), record(1, unfit), text_record(2, "2")];
    let (result, outcomes) = put(sink.as_mut(), records).await;
    let fates = [(0, "delivered"), (1, "reject"), (2, "delivered")];
    assert_eq!((result, told(outcomes)), (Ok(()), fates.to_vec()));
    assert_eq!(bodies(&receiver), ["[0,2]"]);
}

const ITEMS: [(&str, &str); 4] = [
    BATCHING,
    ("response.items.pointer", "/items"),
    ("response.item.status.pointer", "/index/status"),
    ("response.item.error.pointer", "/index/error/reason"),
];

#[tokio::test]
async fn errors_of_single_items_inside_a_success_are_their_records_alone() {
    let receiver = receiver(|_| {
        let body = r#"{"errors":true,"items":[{"index":{"status":201}},
            {"index":{"status":400,"error":{"reason":"no date"}}},
            {"index":{"status":429,"error":{"reason":"queue is full"}}},
            {"index":{"status":200}}]}"#;
        Reply::body(200, body)
    })
    .await;
    let mut sink = sink(&receiver.url("/_bulk"), &ITEMS).await;
    let (result, outcomes) = put(sink.as_mut(), texts(&["0", "1", "2", "3"])).await;
    assert_eq!(result, Ok(()));
    let causes: Vec<_> = outcomes[1..3].iter().map(|(_, it)| cause_of(it)).collect();
    assert!(causes[0].whole().contains("400: no date"), "{causes:?}");
    assert!(
        causes[1].whole().contains("429: queue is full"),
        "{causes:?}"
    );
    let fates = [
        (0, "delivered"),
        (1, "reject"),
        (2, "retry"),
        (3, "delivered"),
    ];
    assert_eq!(told(outcomes), fates);
}

#[tokio::test]
async fn an_item_with_an_error_is_not_delivered_whatever_success_its_status_tells() {
    let receiver = receiver(|_| {
        let body = r#"{"items":[{"index":{"status":200,"error":{"reason":"no date"}}},
            {"index":{"status":201,"error":{"reason":""}}},
            {"index":{"status":409,"error":{"reason":"is there"}}}]}"#;
        Reply::body(200, body)
    })
    .await;
    let settings = [&ITEMS[..], &[("success.on.status.codes", "409")]].concat();
    let mut sink = sink(&receiver.url("/_bulk"), &settings).await;
    let (result, outcomes) = put(sink.as_mut(), texts(&["0", "1", "2"])).await;
    assert_eq!(result, Ok(()));
    let cause = cause_of(&outcomes[0].1);
    assert!(cause.whole().contains("200: no date"), "{cause}");
    let fates = [(0, "reject"), (1, "delivered"), (2, "delivered")];
    assert_eq!(told(outcomes), fates);
}

#[tokio::test]
async fn a_success_that_does_not_tell_each_record_delivers_none() {
    let receiver = receiver(|_| Reply::body(200, r#"{"items":[{"index":{"status":200}}]}"#)).await;
    let mut sink = sink(&receiver.url("/_bulk"), &ITEMS).await;
    let (result, outcomes) = put(sink.as_mut(), texts(&["0", "1"])).await;
    assert_eq!(result, Ok(()));
    let cause = cause_of(&outcomes[0].1);
    assert!(cause.contains("1 results for 2 records"), "{cause}");
    assert_eq!(told(outcomes), [(0, "retry"), (1, "retry")]);
}
