//! Connectors over TLS and SCRAM, with the right password and with a wrong
//! one.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::history::{log, seconds_between};
use crate::stage::BINARY;

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 1000;
const PASSWORD: &str = "right-hush-1";
const WRONG_PASSWORD: &str = "wrong-hush-2";
/// So long the worker is watched after the error.
const WATCHED_SECONDS: f64 = 5.0;

fn jaas(password: &str) -> String {
    format!(
        "org.apache.kafka.common.security.scram.ScramLoginModule required \
         username=\"alice\" password=\"{password}\";"
    )
}

/// A worker's settings for the listener with TLS and SCRAM.
fn options(kafka: &Kafka) -> Result<WorkerOptions> {
    Ok(WorkerOptions::new(BINARY)
        .property("bootstrap.servers", kafka.secure_bootstrap_servers()?)
        .property("security.protocol", "SASL_SSL")
        .property("ssl.truststore.type", "PEM")
        .property(
            "ssl.truststore.location",
            &kafka.ca_file().display().to_string(),
        )
        .property("sasl.mechanism", "SCRAM-SHA-512")
        .property("sasl.jaas.config", &jaas(PASSWORD))
        .property(
            "key.converter",
            "org.apache.kafka.connect.storage.StringConverter",
        )
        .property(
            "value.converter",
            "org.apache.kafka.connect.storage.StringConverter",
        )
        .property("consumer.group.protocol", "share")
        .property("log.format", "json")
        .property("status.log.interval.ms", "50"))
}

fn locked_out() -> Value {
    json!({
        "name": "locked-out",
        "connector.class": "null",
        "topics": "orders",
        "consumer.override.sasl.jaas.config": jaas(WRONG_PASSWORD),
    })
}

/// What the log says about a connector, status lines apart.
fn said_about<'a>(log: &'a [Value], connector: &str) -> Vec<&'a Value> {
    log.iter()
        .filter(|line| line["message"] != "status" && line.to_string().contains(connector))
        .collect()
}

fn newest_status(log: &[Value], connector: &str) -> Result<Value> {
    let of = |line: &&Value| line["message"] == "status" && line["connector"] == connector;
    let line = log.iter().rfind(of);
    line.cloned()
        .with_context(|| format!("no status of {connector}"))
}

/// The error names listener, mechanism and user: what there is to mend.
fn check_error(line: &Value) -> Result<()> {
    assert_eq!(line["level"], "ERROR", "{line}");
    let error = line["error"].as_str().context("no cause")?;
    for part in ["bootstrap.servers", "SCRAM-SHA-512", "sasl.jaas.config"] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
    Ok(())
}

fn check_secrets(worker: &Worker) -> Result<()> {
    let output = worker.output()?;
    for secret in [PASSWORD, WRONG_PASSWORD] {
        assert!(!output.contains(secret), "a password is in {output}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_one_error_beside_a_connector_that_runs() -> Result<()> {
    let kafka = Kafka::start(KafkaOptions::new().user("alice", PASSWORD)).await?;
    kafka.admin().await?.create_topic("orders", 2).await?;
    produce(
        kafka.bootstrap_servers(),
        "orders",
        json_records(RECORDS, 2, 100),
    )
    .await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("out.txt");
    let runs = json!({
        "name": "runs",
        "connector.class": "file",
        "file": file,
        "tasks.max": "4",
        "topics": "orders",
    });
    let options = options(&kafka)?;
    let both = options
        .clone()
        .connector("runs", &runs)
        .connector("locked-out", &locked_out());
    let worker = Worker::start(&both)?;
    eventually("one runs and the other has failed", MINUTE, async || {
        let log = log(&worker)?;
        let (runs, locked) = (
            newest_status(&log, "runs")?,
            newest_status(&log, "locked-out")?,
        );
        if runs["accepted"] == RECORDS && locked["state"] == "FAILED" {
            return Ok(());
        }
        bail!("{runs} and {locked}")
    })
    .await?;
    let told = said_about(&log(&worker)?, "locked-out")
        .first()
        .map(|line| (*line).clone());
    let told = told.context("nothing was said about it")?;
    eventually("time goes by", MINUTE, async || {
        let newest = newest_status(&log(&worker)?, "runs")?;
        let seconds = seconds_between(&told, &newest)?;
        if seconds >= WATCHED_SECONDS {
            Ok(())
        } else {
            bail!("{seconds} s")
        }
    })
    .await?;
    let log = log(&worker)?;
    let said = said_about(&log, "locked-out");
    let [error] = said[..] else {
        panic!("one line tells it: {said:?}");
    };
    check_error(error)?;
    assert_eq!(newest_status(&log, "runs")?["state"], "RUNNING");
    Tally::from_json_lines(&file, "/id")?.exactly_once(ids(RECORDS))?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    check_secrets(&worker)?;

    // Alone, there is nothing left to run for.
    let worker = Worker::start(&options.connector("locked-out", &locked_out()))?;
    assert_eq!(worker.wait_for_exit(MINUTE).await?.code(), Some(69));
    let log = crate::history::log(&worker)?;
    let said = said_about(&log, "locked-out");
    let [error] = said[..] else {
        panic!("one line tells it: {said:?}");
    };
    check_error(error)?;
    check_secrets(&worker)
}
