//! Which records have a dead letter: those that are to blame. No outage puts
//! one aside, and no neighbour in a batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::consume::read_topic;
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{NewRecord, ids, json_records, produce};
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::wait::eventually;

use crate::dead_letters::put_aside;
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);

fn letters_of(stage: &Stage) -> String {
    format!("dlq.{}", stage.name)
}

/// All that an endpoint does while it is away, or somebody else's.
fn outages() -> Vec<Reply> {
    vec![
        Reply::status(503),
        Reply::body(500, "no database"),
        Reply::status(429),
        Reply::status(401),
        Reply::status(403),
        // Its address has no key in it, so this is about no record.
        Reply::status(404),
        Reply::status(502),
        Reply::status(504),
        Reply::Reset,
        Reply::Hang,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kind_of_outage_puts_a_record_aside() -> Result<()> {
    const RECORDS: usize = 200;
    const REQUESTS: usize = 5;
    let stage = Stage::set("blameless", 2).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 2, 100)).await?;
    let (kinds, turn) = (outages(), Arc::new(AtomicUsize::new(0)));
    let (plan, now) = (kinds.clone(), Arc::clone(&turn));
    let receiver = Receiver::start(move |_| plan[now.load(Ordering::SeqCst)].clone()).await?;
    let address = receiver.address();
    let mut connector = stage.connector("http", 4);
    connector["http.url"] = json!(receiver.url("/orders"));
    connector["http.request.timeout.ms"] = json!("500");
    connector["errors.retry.delay.max.ms"] = json!("1000");
    put_aside(&mut connector, &letters_of(&stage));
    connector["share.record.lock.duration.ms"] = json!("2000");
    let worker = stage.worker(&connector)?;
    for (number, kind) in kinds.iter().enumerate() {
        let before = receiver.count();
        turn.store(number, Ordering::SeqCst);
        eventually("some requests meet it", MINUTE, async || {
            let asked = receiver.count() - before;
            ensure!(asked >= REQUESTS, "{asked} met {kind:?}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
    }
    receiver.stop().await;
    let refused = |status: &Value| {
        let outage = status["outage"].as_str().unwrap_or_default();
        outage.contains("refused")
    };
    wait_for_status(&worker, "nobody is there", MINUTE, refused).await?;

    let receiver = Receiver::start_at(address, |_| Reply::ok()).await?;
    let all = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", MINUTE, all).await?;
    for none in ["rejected", "released", "redelivered", "lost", "unknown"] {
        assert_eq!(status[none], 0, "{none} of {status}");
    }
    assert_eq!(status["state"], "RUNNING", "{status}");
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let letters = read_topic(servers, &letters_of(&stage)).await?;
    assert!(letters.is_empty(), "{letters:?}");
    let arrivals = receiver.arrivals();
    let bodies = arrivals.iter().map(|it| &*it.body);
    Tally::from_json_values(bodies, "/id").exactly_once(ids(RECORDS))
}

const RECORDS: usize = 500;
/// More than a few records have, and less than one of them has.
const MOST: usize = 1000;
/// The endpoint does not like it, or it is too large for it.
const BAD: usize = 123;
const LARGE: usize = 321;

fn mixed() -> impl Iterator<Item = NewRecord> + Send + 'static {
    let records = json_records(RECORDS, 1, 100).enumerate();
    records.map(|(number, record)| match number {
        LARGE => {
            let pad = "x".repeat(2 * MOST);
            let value = json!({"id": format!("id-{LARGE:06}"), "pad": pad});
            NewRecord::value(value.to_string()).partition(0)
        }
        _ => record,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_batch_that_is_refused_only_the_bad_record_and_the_one_too_large_have_letters()
-> Result<()> {
    let stage = Stage::set("blamed", 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, mixed()).await?;
    let bad = format!("id-{BAD:06}");
    let is_bad = bad.clone();
    let receiver = Receiver::start(move |arrival| match arrival.body.len() {
        too_many if too_many > MOST => Reply::status(413),
        _ if arrival.text().contains(&is_bad) => Reply::body(400, "not this one"),
        _ => Reply::ok(),
    })
    .await?;
    let mut connector = stage.connector("http", 2);
    connector["http.url"] = json!(receiver.url("/bulk"));
    connector["batching.enabled"] = json!("true");
    put_aside(&mut connector, &letters_of(&stage));
    connector["share.record.lock.duration.ms"] = json!("2000");
    let worker = stage.worker(&connector)?;
    let settled = |status: &Value| status["accepted"] == RECORDS - 2 && status["rejected"] == 2;
    let status = wait_for_status(&worker, "all are settled", MINUTE, settled).await?;
    for none in ["released", "redelivered", "lost", "unknown"] {
        assert_eq!(status[none], 0, "{none} of {status}");
    }
    assert_eq!(status["state"], "RUNNING", "{status}");
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));

    let mut taken = Tally::default();
    for batch in receiver.arrivals().iter() {
        if batch.body.len() <= MOST && !batch.text().contains(&bad) {
            let records: Vec<Value> = serde_json::from_slice(&batch.body)?;
            taken.extend(records.iter().filter_map(|it| it["id"].as_str()));
        }
    }
    let odd = [BAD, LARGE].map(|number| format!("id-{number:06}"));
    taken.exactly_once(ids(RECORDS).filter(|id| !odd.contains(id)))?;
    let letters = read_topic(servers, &letters_of(&stage)).await?;
    let values = letters.iter().filter_map(|it| it.value.as_deref());
    Tally::from_json_values(values, "/id").exactly_once(odd)?;
    let said = letters.iter().map(|letter| {
        let message = letter.header("__connect.errors.exception.message");
        message.unwrap_or_default()
    });
    let said: Vec<String> = said.collect();
    for words in ["not this one", "413"] {
        assert!(said.iter().any(|it| it.contains(words)), "{said:?}");
    }
    Ok(())
}
