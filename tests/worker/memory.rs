//! Memory stays within what `share.max.in.flight.bytes` lets it be.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce_with};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::history::number;
use crate::stage::{BINARY, status};

const MINUTES: Duration = Duration::from_secs(300);
const RECORDS: u64 = 10_000;
const COMPRESSED: u64 = 2000;
const RECORD_BYTES: usize = 1_000_000;
const MIB: u64 = 1 << 20;
const IN_FLIGHT: u64 = 16 * MIB;
/// What the worker takes besides records.
const BASE: u64 = 60 * MIB;
/// What counts as the same.
const SLACK: u64 = 8 * MIB;

/// Made as they are sent, so that the test needs no memory either.
fn large_records(records: u64) -> impl Iterator<Item = NewRecord> + Send {
    (0..records).map(|number| {
        let mut value = vec![b'x'; RECORD_BYTES];
        value[..8].copy_from_slice(&number.to_be_bytes());
        NewRecord::value(value).partition((number % 4) as i32)
    })
}

/// Memory in use at a number of accepted records.
#[derive(Clone, Copy, Debug)]
struct Sample {
    accepted: u64,
    bytes: u64,
    /// What the worker says that records hold.
    held: u64,
}

fn resident_bytes(worker: &Worker) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next());
    let kilobytes: u64 = kilobytes.context("the worker has ended")?.parse()?;
    Ok(kilobytes * 1024)
}

/// The most memory in use while so many records were accepted.
fn peak(samples: &[Sample], accepted: std::ops::Range<u64>) -> Result<u64> {
    let within = samples
        .iter()
        .filter(|sample| accepted.contains(&sample.accepted));
    within
        .map(|sample| sample.bytes)
        .max()
        .with_context(|| format!("no sample at {accepted:?}"))
}

async fn fill(servers: String, records: u64, compression: &str) -> Result<()> {
    let properties = [
        ("message.max.bytes", "1048576"),
        ("queue.buffering.max.kbytes", "65536"),
        ("compression.type", compression),
    ];
    let sent = produce_with(&servers, "large", large_records(records), &properties).await?;
    ensure!(sent as u64 == records, "{sent} were produced");
    Ok(())
}

fn options(kafka: &Kafka, more: &[(&str, &str)]) -> WorkerOptions {
    let mut connector = json!({
        "name": "large",
        "connector.class": "null",
        "tasks.max": "4",
        "topics": "large",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "consumer.override.group.protocol": "share",
        // Slower than the producer, and free to take a gigabyte of records:
        // only the bytes bound it.
        "record.latency.us": "16000",
        "share.max.in.flight.records": "1000",
        "share.max.in.flight.bytes": IN_FLIGHT.to_string(),
    });
    for (key, value) in more {
        connector[key] = json!(value);
    }
    WorkerOptions::new(BINARY)
        .property("bootstrap.servers", kafka.bootstrap_servers())
        .property("log.format", "json")
        .property("status.log.interval.ms", "50")
        .connector("large", &connector)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_large_records_pass_in_the_memory_of_those_in_flight() -> Result<()> {
    let kafka = Kafka::start(KafkaOptions::new().heap_mb(1024)).await?;
    kafka.admin().await?.create_topic("large", 4).await?;
    let filling = tokio::spawn(fill(kafka.bootstrap_servers().to_owned(), RECORDS, "none"));
    let worker = Worker::start(&options(&kafka, &[]))?;
    let samples = samples_until_accepted(&worker, RECORDS).await?;
    filling.await??;

    let third = RECORDS / 3;
    let (first, last) = (
        peak(&samples, 0..third)?,
        peak(&samples, 2 * third..RECORDS)?,
    );
    let held = samples.iter().map(|sample| sample.held).max();
    let highest = worker.usage()?.peak_rss_bytes;
    eprintln!(
        "resident MiB: at most {} in the first third, {} in the last, {} in all; held {held:?}",
        first / MIB,
        last / MIB,
        highest / MIB
    );
    assert!(
        held >= Some(IN_FLIGHT / 2),
        "the bound was never near: {held:?}"
    );
    assert!(last <= first + SLACK, "{last} after {first}");
    assert!(highest <= 3 * IN_FLIGHT + BASE, "{highest}");
    Ok(())
}

/// In the log they are so small that one fetch could bring them all; they wait
/// for longer than their locks last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_records_pass_in_the_memory_of_those_in_flight() -> Result<()> {
    let kafka = Kafka::start(KafkaOptions::new()).await?;
    kafka.admin().await?.create_topic("large", 4).await?;
    fill(kafka.bootstrap_servers().to_owned(), COMPRESSED, "zstd").await?;
    let worker = Worker::start(&options(
        &kafka,
        &[("share.record.lock.duration.ms", "2000")],
    ))?;
    let samples = samples_until_accepted(&worker, COMPRESSED).await?;

    let held = samples.iter().map(|sample| sample.held).max();
    let highest = worker.usage()?.peak_rss_bytes;
    eprintln!("resident MiB: at most {}; held {held:?}", highest / MIB);
    assert!(
        held >= Some(IN_FLIGHT / 2),
        "the bound was never near: {held:?}"
    );
    assert!(highest <= 3 * IN_FLIGHT + BASE, "{highest}");
    let status = status(&worker)?;
    assert_eq!(number(&status, "redelivered")?, 0, "{status}");
    Ok(())
}

async fn samples_until_accepted(worker: &Worker, records: u64) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    eventually("all are accepted", MINUTES, async || {
        let status = status(worker)?;
        let accepted = number(&status, "accepted")?;
        let bytes = resident_bytes(worker)?;
        let held = number(&status, "held_bytes")?;
        samples.push(Sample {
            accepted,
            bytes,
            held,
        });
        if accepted == records {
            Ok(())
        } else {
            bail!("{status}")
        }
    })
    .await?;
    Ok(samples)
}
