//! What each answer, or its absence, means for a record.

use super::*;

#[tokio::test]
async fn every_status_class_has_its_outcome() {
    let receiver = receiver(|arrival| Reply::status(arrival.text().parse().unwrap())).await;
    let mut sink = sink(&receiver.url("/${topic}"), &[]).await;
    let mut sent = 0;
    for (outcome, statuses) in [
        ("delivered", vec!["200", "201", "202", "204"]),
        ("retry", vec!["408", "425", "500", "502", "504", "507"]),
        (
            "reject",
            vec!["400", "404", "405", "409", "413", "422", "501", "505"],
        ),
        ("unavailable", vec!["401", "403", "407", "429", "503"]),
        ("unavailable", vec!["301", "302", "303", "307", "308"]),
    ] {
        for status in statuses {
            let (told, cause) = fate(sink.as_mut(), status).await;
            assert_eq!(told, outcome, "{status}: {cause}");
            sent += 1;
            if outcome != "delivered" {
                assert!(cause.contains(&format!("answered {status}")), "{cause}");
                assert!(cause.contains(&receiver.url("")), "{cause}");
            }
        }
    }
    assert_eq!(
        receiver.count(),
        sent,
        "one request a record, none repeated"
    );
}

#[tokio::test]
async fn an_address_that_all_records_have_and_that_is_wrong_rejects_none() {
    let receiver = receiver(|arrival| Reply::status(arrival.text().parse().unwrap())).await;
    let batches = [("batching.enabled", "true"), ("batch.prefix", "")];
    let batches = [&batches[..], &[("batch.suffix", "")]].concat();
    for settings in [vec![], batches] {
        let mut sink = sink(&receiver.url("/in"), &settings).await;
        for status in ["404", "405", "410", "501", "505"] {
            let (told, cause) = fate(sink.as_mut(), status).await;
            assert_eq!(told, "unavailable", "{status}: {cause}");
            assert!(cause.contains("http.url"), "what to mend: {cause}");
        }
        assert_eq!(fate(sink.as_mut(), "400").await.0, "reject");
    }
}

#[tokio::test]
async fn settings_change_what_a_status_means() {
    let receiver = receiver(|arrival| Reply::status(arrival.text().parse().unwrap())).await;
    let settings = [
        ("success.on.status.codes", "409"),
        ("retry.on.status.codes", "404,429"),
        ("reject.on.status.codes", "500-502"),
    ];
    let mut sink = sink(&receiver.url("/"), &settings).await;
    for (status, outcome) in [
        ("409", "delivered"),
        ("404", "retry"),
        ("429", "retry"),
        ("500", "reject"),
        ("504", "retry"),
    ] {
        assert_eq!(fate(sink.as_mut(), status).await.0, outcome, "{status}");
    }
}

#[tokio::test]
async fn a_retry_after_in_seconds_is_carried_on_and_kept_to_by_all_tasks() {
    let receiver = receiver(|_| Reply::status(429).header("retry-after", "7")).await;
    let factory = factory(&receiver.url("/"), &[]);
    let mut first = opened(factory.as_ref(), 0).await;
    let (result, outcomes) = put(first.as_mut(), texts(&["a", "b"])).await;
    let Err(SinkError::UnavailableFor(cause, wait)) = result else {
        panic!("{result:?}");
    };
    assert!(cause.contains("429"), "{cause}");
    assert_eq!((wait, outcomes), (Duration::from_secs(7), vec![]));

    let mut second = opened(factory.as_ref(), 1).await;
    let (result, _) = put(second.as_mut(), texts(&["c"])).await;
    let Err(SinkError::UnavailableFor(_, rest)) = result else {
        panic!("{result:?}");
    };
    assert!(rest <= wait && rest > wait / 2, "{rest:?}");
    assert_eq!(receiver.count(), 1, "nothing goes out meanwhile");
}

#[tokio::test]
async fn a_retry_after_as_a_date_is_kept_to() {
    let at = std::time::SystemTime::now() + Duration::from_secs(90);
    let date = httpdate::fmt_http_date(at);
    let receiver = receiver(move |_| Reply::status(503).header("retry-after", &date)).await;
    let mut sink = sink(&receiver.url("/"), &[]).await;
    let (result, _) = put(sink.as_mut(), texts(&["a"])).await;
    let Err(SinkError::UnavailableFor(_, wait)) = result else {
        panic!("{result:?}");
    };
    let seconds = wait.as_secs_f64();
    assert!((85.0..=90.0).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn a_retry_after_without_measure_is_cut() {
    let receiver =
        receiver(|_| Reply::status(503).header("retry-after", "18446744073709551615")).await;
    let settings = [("http.retry.after.max.ms", "1500")];
    let mut sink = sink(&receiver.url("/"), &settings).await;
    let (result, _) = put(sink.as_mut(), texts(&["a"])).await;
    let Err(SinkError::UnavailableFor(_, wait)) = result else {
        panic!("{result:?}");
    };
    assert_eq!(wait, Duration::from_millis(1500));
}

#[tokio::test]
async fn after_its_wait_a_throttled_record_is_sent() {
    let receiver = receiver(|arrival| match arrival.attempt {
        0 => Reply::status(429).header("retry-after", "0"),
        _ => Reply::ok(),
    })
    .await;
    let mut sink = sink(&receiver.url("/"), &[]).await;
    assert_eq!(fate(sink.as_mut(), "a").await.0, "told to wait");
    assert_eq!(fate(sink.as_mut(), "a").await.0, "delivered");
}

#[tokio::test]
async fn a_retry_after_holds_back_what_follows_a_record_that_is_retried() {
    let plain = receiver(|arrival| {
        let reply = Reply::status(arrival.text().parse().unwrap());
        reply.header("retry-after", "7")
    })
    .await;
    for (status, settings) in [
        ("408", vec![]),
        ("500", vec![]),
        ("502", vec![]),
        ("504", vec![]),
        ("429", vec![("retry.on.status.codes", "429")]),
    ] {
        let factory = factory(&plain.url("/"), &settings);
        let mut first = opened(factory.as_ref(), 0).await;
        let (result, outcomes) = put(first.as_mut(), texts(&[status, "200"])).await;
        assert_eq!(told(outcomes), [(0, "retry")], "{status}");
        assert!(
            matches!(result, Err(SinkError::UnavailableFor(..))),
            "{status}: {result:?}"
        );
        let before = plain.count();
        let mut second = opened(factory.as_ref(), 1).await;
        let (result, _) = put(second.as_mut(), texts(&["200"])).await;
        let Err(SinkError::UnavailableFor(cause, rest)) = result else {
            panic!("{status}: {result:?}");
        };
        assert!(cause.contains(status), "{cause}");
        assert!(rest <= Duration::from_secs(7), "{rest:?}");
        assert_eq!(plain.count(), before, "nothing goes out meanwhile");
    }
}

#[tokio::test]
async fn a_tombstone_that_comes_again_is_delivered_though_nothing_is_left_to_delete() {
    let receiver = receiver(|arrival| match (arrival.method.as_str(), arrival.attempt) {
        ("DELETE", 0) => Reply::status(204),
        ("DELETE", 1) => Reply::status(404),
        _ => Reply::status(410),
    })
    .await;
    let delete = ("behavior.on.null.values", "delete");
    let url = receiver.url("/orders/${key}");
    let mut usual = sink(&url, &[delete]).await;
    for _ in 0..3 {
        let (result, outcomes) = put(usual.as_mut(), vec![keyed(0, "k", Datum::null())]).await;
        assert_eq!((result, told(outcomes)), (Ok(()), vec![(0, "delivered")]));
    }
    let value = Datum::schemaless(Value::String("value".into()));
    let (_, outcomes) = put(usual.as_mut(), vec![keyed(1, "k", value)]).await;
    assert_eq!(told(outcomes), [(0, "reject")], "410 to what has a value");
    let set = [delete, ("reject.on.status.codes", "410")];
    let mut set = sink(&url, &set).await;
    let (_, outcomes) = put(set.as_mut(), vec![keyed(0, "k", Datum::null())]).await;
    assert_eq!(told(outcomes), [(0, "reject")], "as it is set");
}

#[tokio::test]
async fn a_request_without_an_answer_is_tried_again_and_may_have_been_taken() {
    let receiver = receiver(|arrival| match arrival.text().as_str() {
        "reset" => Reply::Reset,
        _ => Reply::Hang,
    })
    .await;
    let settings = [("http.request.timeout.ms", "100")];
    let mut sink = sink(&receiver.url("/"), &settings).await;
    for (value, says) in [("reset", "("), ("hang", "within 100 ms")] {
        let (told, cause) = fate(sink.as_mut(), value).await;
        assert_eq!(told, "retry", "{cause}");
        assert!(cause.contains(says), "{cause}");
        assert!(cause.contains("may have been taken"), "{cause}");
    }
    assert_eq!(
        receiver.count(),
        2,
        "not repeated behind the pipeline's back"
    );
}

#[tokio::test]
async fn a_success_counts_though_its_body_breaks_off() {
    let receiver = receiver(|_| Reply::Torn(200)).await;
    let mut plain = sink(&receiver.url("/"), &[]).await;
    assert_eq!(fate(plain.as_mut(), "a").await.0, "delivered");

    let settings = [
        ("response.items.pointer", "/items"),
        ("response.item.error.pointer", "/error"),
    ];
    let mut itemized = sink(&receiver.url("/"), &settings).await;
    let (told, cause) = fate(itemized.as_mut(), "a").await;
    assert_eq!(told, "retry", "its results are in there");
    assert!(cause.contains("broke off"), "{cause}");
}

#[tokio::test]
async fn nobody_at_the_address_makes_the_sink_unavailable() {
    let gone = receiver(|_| Reply::ok()).await;
    let url = gone.url("/in?token=hush");
    gone.stop().await;
    for (url, host) in [
        (url.as_str(), "http://127.0.0.1:"),
        ("http://nowhere.invalid/", "http://nowhere.invalid"),
    ] {
        let (told, cause) = fate(sink(url, &[]).await.as_mut(), "a").await;
        assert_eq!(told, "unavailable", "{cause}");
        assert!(cause.contains("cannot connect to"), "{cause}");
        assert!(cause.contains(host) && !cause.contains("hush"), "{cause}");
    }
}

#[tokio::test]
async fn redirections_are_not_followed_unless_harmless_and_wanted() {
    let other = receiver(|_| Reply::ok()).await;
    let elsewhere = other.url("/").replace("127.0.0.1", "localhost");
    let other_port = other.url("/");
    let receiver = receiver(move |arrival| match arrival.path.as_str() {
        "/end" => Reply::ok(),
        "/away" => Reply::status(307).header("location", &elsewhere),
        "/as-get" => Reply::status(302).header("location", "/end"),
        "/loop" => Reply::status(307).header("location", "/loop"),
        "/port" => Reply::status(308).header("location", &other_port),
        _ => Reply::status(308).header("location", "/end"),
    })
    .await;

    let (told, cause) = fate(sink(&receiver.url("/"), &[]).await.as_mut(), "a").await;
    assert_eq!(told, "unavailable", "not by default");
    assert!(cause.contains("http.follow.redirects"), "{cause}");

    let follow = [("http.follow.redirects", "true")];
    let mut followed = sink(&receiver.url("/"), &follow).await;
    assert_eq!(fate(followed.as_mut(), "whole").await.0, "delivered");
    let last = receiver.arrivals().last().unwrap().clone();
    assert_eq!(
        (last.method.as_str(), last.text().as_str()),
        ("POST", "whole")
    );

    for path in ["/away", "/as-get", "/loop", "/port"] {
        let (told, cause) = fate(sink(&receiver.url(path), &follow).await.as_mut(), "a").await;
        assert_eq!(told, "unavailable", "{path}: {cause}");
    }
    assert_eq!(other.count(), 0, "credentials stay with their server");
}

#[tokio::test]
async fn a_long_error_is_cut_and_its_secrets_hidden() {
    let receiver = receiver(|arrival| {
        let sent = arrival.header("authorization").unwrap().to_owned();
        let key = arrival.header("x-api-key").unwrap();
        let body = format!(
            "you sent {sent} and {key}, which is {}",
            "bad ".repeat(100_000)
        );
        Reply::body(400, body)
    })
    .await;
    let settings = [
        ("http.authorization.type", "static"),
        ("http.headers.authorization", "Bearer hush-hush"),
        ("http.headers.additional", "X-Api-Key: s3cr3t-key"),
    ];
    let mut sink = sink(&receiver.url("/"), &settings).await;
    let (told, cause) = fate(sink.as_mut(), "a").await;
    assert_eq!(told, "reject");
    assert!(cause.len() < 500, "{}", cause.len());
    assert!(cause.contains("you sent [hidden] and [hidden]"), "{cause}");
}

#[tokio::test]
async fn what_an_endpoint_says_is_in_no_cause_but_in_full() {
    const HUSH: &str = "hush 4111-1111";
    let receiver = receiver(|arrival| {
        let status = arrival.path.trim_start_matches('/').parse().unwrap();
        Reply::body(status, format!("invalid value {:?}", arrival.text()))
    })
    .await;
    let batch = [("batching.enabled", "true")];
    for (status, fate, settings) in [
        ("400", "reject", &[][..]),
        ("404", "unavailable", &[]),
        ("500", "retry", &[]),
        ("401", "unavailable", &[]),
        ("503", "unavailable", &[]),
        ("400", "reject", &batch),
    ] {
        let mut sink = sink(&receiver.url(&format!("/{status}")), settings).await;
        let (told, cause) = end(sink.as_mut(), HUSH).await;
        assert_eq!(told, fate, "{status}: {cause}");
        let shown = format!("{cause} {cause:?}");
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains(&format!("answered {status}")), "{shown}");
        for clue in [" bytes", "errors.log.include.messages=true"] {
            assert!(shown.contains(clue), "{shown}");
        }
        let whole = cause.whole();
        assert!(whole.contains(HUSH) && whole.contains(status), "{whole}");
    }
}

#[tokio::test]
async fn the_error_of_an_item_is_in_no_cause_but_in_full() {
    for (settings, says) in [
        (vec![], "for this record: error"),
        (
            vec![("response.item.status.pointer", "/status")],
            "for this record: 422",
        ),
    ] {
        let receiver = receiver(|arrival| {
            let item = serde_json::json!({"status": 422, "error": arrival.text()});
            Reply::body(200, serde_json::json!({"items": [item]}).to_string())
        })
        .await;
        let items = [
            ("response.items.pointer", "/items"),
            ("response.item.error.pointer", "/error"),
        ];
        let settings = [&items[..], &settings].concat();
        let mut sink = sink(&receiver.url("/"), &settings).await;
        let (told, cause) = end(sink.as_mut(), "hush").await;
        assert_eq!(told, "reject", "{cause}");
        assert!(cause.contains(says) && cause.contains("4 bytes"), "{cause}");
        assert!(!cause.contains("hush"), "{cause}");
        assert!(cause.whole().ends_with(": hush"), "{}", cause.whole());
    }
}

#[tokio::test]
async fn a_long_answer_is_told_by_a_bound_and_an_empty_one_not_at_all() {
    let receiver =
        receiver(|arrival| Reply::body(400, "x".repeat(arrival.text().parse().unwrap()))).await;
    let mut sink = sink(&receiver.url("/"), &[]).await;
    for (length, says) in [("4095", "4095 bytes"), ("9999", "4096 bytes or more")] {
        let (_, cause) = end(sink.as_mut(), length).await;
        assert!(cause.contains(says), "{cause}");
    }
    let (_, cause) = end(sink.as_mut(), "0").await;
    assert!(cause.ends_with("answered 400 Bad Request"), "{cause}");
    assert_eq!(cause.whole(), &*cause);
}
