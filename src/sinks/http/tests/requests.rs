//! What goes out, and how much of it at once.

use bytes::Bytes;

use super::*;
use crate::sinks::contract::{item, record, with_header};

#[tokio::test]
async fn a_record_is_a_request_with_value_key_headers_and_its_id() {
    let receiver = receiver(|_| Reply::status(201)).await;
    let settings = [
        ("request.method", "PUT"),
        ("http.headers.additional", "X-Team: orders, x-env:test"),
        ("http.headers.forward", "*"),
        ("idempotency.key.from", "topic"),
    ];
    let mut sink = sink(&receiver.url("/${topic}/${key}"), &settings).await;
    let sent = keyed(41, "a/b", item(Value::Int64(5)));
    let mut sent = with_header(sent, "trace", "t-1");
    for reserved in ["Host", "content-length", "Authorization", "x-team"] {
        sent = with_header(sent, reserved, "from the record");
    }
    let (result, outcomes) = put(sink.as_mut(), vec![sent]).await;
    assert_eq!((result, outcomes), (Ok(()), vec![(0, Outcome::Delivered)]));

    let arrivals = receiver.arrivals();
    let [arrival] = arrivals.as_slice() else {
        panic!("{arrivals:?}");
    };
    assert_eq!(
        (arrival.method.as_str(), arrival.path.as_str()),
        ("PUT", "/orders/a%2Fb")
    );
    assert_eq!(arrival.text(), r#"{"item":5}"#);
    for (name, value) in [
        ("content-type", "application/json"),
        ("x-team", "orders"),
        ("x-env", "test"),
        ("trace", "t-1"),
        ("idempotency-key", "orders-0-41"),
        ("content-length", "10"),
    ] {
        assert_eq!(arrival.header(name), Some(value), "{name}");
    }
    assert_eq!(arrival.header("authorization"), None);
    assert!(arrival.header("user-agent").unwrap().starts_with("sluice/"));
}

#[tokio::test]
async fn the_key_of_a_topic_made_anew_differs_by_its_id() {
    let receiver = receiver(|_| Reply::ok()).await;
    let settings = [
        ("idempotency.key.from", "topic-id"),
        ("idempotency.key.header", "X-Request-Id"),
    ];
    let mut sink = sink(&receiver.url("/"), &settings).await;
    assert_eq!(fate(sink.as_mut(), "a").await.0, "delivered");
    let id = format!("{}-0-0", "01".repeat(16));
    assert_eq!(
        receiver.arrivals()[0].header("x-request-id"),
        Some(id.as_str())
    );
}

#[tokio::test]
async fn a_renamed_record_is_routed_by_its_new_topic_and_known_by_its_old_one() {
    let receiver = receiver(|_| Reply::ok()).await;
    let settings = [("idempotency.key.from", "topic")];
    let mut sink = sink(&receiver.url("/${topic}"), &settings).await;
    let mut renamed = text_record(3, "a");
    renamed.topic = "renamed".into();
    assert_eq!(put(sink.as_mut(), vec![renamed]).await.0, Ok(()));
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals[0].path, "/renamed");
    assert_eq!(arrivals[0].header("idempotency-key"), Some("orders-0-3"));
}

#[tokio::test]
async fn a_record_that_makes_no_request_is_rejected_alone() {
    let receiver = receiver(|_| Reply::ok()).await;
    let settings = [("http.headers.forward", "kind")];
    let mut sink = sink(&receiver.url("/${key}"), &settings).await;
    let unfit = Datum::schemaless(Value::Struct(vec![Value::Null]));
    let text = || Datum::schemaless(Value::String("x".into()));
    let records = vec![
        keyed(0, "a", text()),
        keyed(1, "", text()),
        keyed(2, "b", unfit),
        with_header(keyed(3, "c", text()), "kind", "two\nlines"),
        with_header(keyed(4, "d", text()), "other", "two\nlines"),
        record(5, text()),
    ];
    let (result, outcomes) = put(sink.as_mut(), records).await;
    assert_eq!(result, Ok(()));
    for (place, outcome) in outcomes.iter().filter(|(_, it)| *it != Outcome::Delivered) {
        let cause = cause_of(outcome);
        assert!(cause.contains(&format!("orders-0@{place}")), "{cause}");
    }
    let fates = [
        "delivered",
        "reject",
        "reject",
        "reject",
        "delivered",
        "reject",
    ];
    let expected: Vec<_> = fates.into_iter().enumerate().collect();
    assert_eq!(told(outcomes), expected);
    assert_eq!(receiver.count(), 2);
}

#[tokio::test]
async fn tombstones_are_done_rejected_or_deleted_by_setting() {
    let receiver = receiver(|_| Reply::status(204)).await;
    let url = receiver.url("/items/${key}");
    for (behavior, fate, sent) in [
        ("ignore", "delivered", vec![]),
        ("fail", "reject", vec![]),
        ("delete", "delivered", vec!["DELETE /items/k "]),
    ] {
        receiver.arrivals().clear();
        // A DELETE has no items that its answer could tell of.
        let settings = [
            ("behavior.on.null.values", behavior),
            ("response.items.pointer", "/items"),
            ("response.item.status.pointer", "/status"),
        ];
        let mut sink = sink(&url, &settings).await;
        let (result, outcomes) = put(sink.as_mut(), vec![keyed(0, "k", Datum::null())]).await;
        assert_eq!(
            (result, told(outcomes)),
            (Ok(()), vec![(0, fate)]),
            "{behavior}"
        );
        let seen = |it: &Arrival| format!("{} {} {}", it.method, it.path, it.text());
        let arrived: Vec<_> = receiver.arrivals().iter().map(seen).collect();
        assert_eq!(arrived, sent, "{behavior}");
        let types = receiver
            .arrivals()
            .iter()
            .filter(|it| it.header("content-type").is_some())
            .count();
        assert_eq!(types, 0, "nothing has no type");
    }
}

#[tokio::test]
async fn a_big_body_arrives_whole() {
    let receiver = receiver(|_| Reply::ok()).await;
    let mut sink = sink(&receiver.url("/"), &[]).await;
    let payload = Bytes::from((0..8_000_000_u32).map(|it| it as u8).collect::<Vec<_>>());
    let big = record(0, Datum::schemaless(Value::Bytes(payload.clone())));
    assert_eq!(put(sink.as_mut(), vec![big]).await.0, Ok(()));
    let arrivals = receiver.arrivals();
    assert_eq!(
        arrivals[0].header("content-type"),
        Some("application/octet-stream")
    );
    assert!(
        arrivals[0].body == payload,
        "{} bytes",
        arrivals[0].body.len()
    );
}

#[tokio::test]
async fn by_default_records_go_out_one_by_one_in_their_order() {
    let wait = Duration::from_millis(1);
    let receiver = receiver(move |_| Reply::After(wait, Box::new(Reply::ok()))).await;
    let mut sink = sink(&receiver.url("/"), &[]).await;
    let values: Vec<String> = (0..50).map(|it| it.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    assert_eq!(put(sink.as_mut(), texts(&values)).await.0, Ok(()));
    assert_eq!(bodies(&receiver), values);
    assert_eq!((receiver.most_under_way(), receiver.connections()), (1, 1));
}

#[tokio::test]
async fn so_many_requests_are_under_way_as_set_and_no_more() {
    let wait = Duration::from_millis(20);
    let receiver = receiver(move |_| Reply::After(wait, Box::new(Reply::ok()))).await;
    let settings = [("max.in.flight.requests", "4")];
    let mut sink = sink(&receiver.url("/"), &settings).await;
    let (result, outcomes) = put(sink.as_mut(), texts(&["x"; 20])).await;
    assert_eq!((result, outcomes.len()), (Ok(()), 20));
    assert_eq!((receiver.count(), receiver.most_under_way()), (20, 4));
}

#[tokio::test]
async fn all_tasks_share_the_connections() {
    const TASKS: u32 = 50;
    let receiver = receiver(|_| Reply::ok()).await;
    let factory = factory(&receiver.url("/"), &[]);
    for number in 0..TASKS {
        let mut sink = opened(factory.as_ref(), number).await;
        assert_eq!(fate(sink.as_mut(), "a").await.0, "delivered");
        sink.close().await;
    }
    assert_eq!(receiver.count(), TASKS as usize);
    assert_eq!(receiver.connections(), 1, "one after the other, over one");
}

#[tokio::test]
async fn each_answer_is_reported_as_it_comes() {
    let receiver = receiver(|arrival| match arrival.text().as_str() {
        "hang" => Reply::Hang,
        "bad" => Reply::status(422),
        _ => Reply::ok(),
    })
    .await;
    let settings = [("max.in.flight.requests", "4")];
    let mut sink = sink(&receiver.url("/"), &settings).await;
    let chunk = Chunk::new(texts(&["hang", "good", "bad", "good"]));
    let report = Report::new(chunk.len());
    let mut running = sink.put(chunk, report.clone());
    let mut outcomes = Vec::new();
    while outcomes.len() < 3 {
        tokio::select! {
            end = &mut running => panic!("ended: {end:?}"),
            more = report.next_outcomes() => outcomes.extend(more),
        }
    }
    assert_eq!(
        told(outcomes),
        [(1, "delivered"), (2, "reject"), (3, "delivered")]
    );
    assert_eq!(
        running.as_mut().now_or_never(),
        None,
        "one has no answer yet"
    );

    // Given up, it leaves nothing running, and what comes late is not heard.
    drop(running);
    assert_eq!(report.abandon(), [0]);
    let none = async || match receiver.under_way() {
        0 => Ok(()),
        count => Err(format!("{count} are under way")),
    };
    eventually("the request is given up", SOON, none)
        .await
        .unwrap();
    assert_eq!(fresh(&report), []);
}

async fn down_by_value() -> Receiver {
    receiver(|arrival| match arrival.text().starts_with("down") {
        true => Reply::status(503),
        false => Reply::ok(),
    })
    .await
}

#[tokio::test]
async fn an_outage_amid_a_put_keeps_what_is_done_and_sends_no_more() {
    let receiver = down_by_value().await;
    let mut sink = sink(&receiver.url("/"), &[]).await;
    let values = ["a", "down 1", "down 2", "b"];
    let (result, outcomes) = put(sink.as_mut(), texts(&values)).await;
    assert!(
        matches!(result, Err(SinkError::Unavailable(_))),
        "{result:?}"
    );
    assert_eq!(outcomes, [(0, Outcome::Delivered)]);
    assert_eq!(bodies(&receiver), values[..3]);
}

#[tokio::test]
async fn a_record_that_alone_is_refused_keeps_no_other_from_being_sent() {
    let receiver = down_by_value().await;
    let mut sink = sink(&receiver.url("/"), &[]).await;
    let values = ["down", "a", "b"];
    let (result, outcomes) = put(sink.as_mut(), texts(&values)).await;
    assert!(
        matches!(result, Err(SinkError::Unavailable(_))),
        "{result:?}"
    );
    assert_eq!(told(outcomes), [(1, "delivered"), (2, "delivered")]);
}
