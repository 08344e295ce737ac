//! Memory stays within what `share.max.in.flight.bytes` lets it be, and does not
//! grow with the number of records that have passed.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce, produce_with};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::history::number;
use crate::stage::{BINARY, Stage, status};

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

/// Small ones, in runs of a kind. Each fourth run fails for a while.
const SMALL: u64 = 1_200_000;
const RUN: u64 = 6000;
const FAILING_RUN: u64 = 4;
const SPREAD: i32 = 12;
/// What a worker knows of a record as long as it is open, in bytes: a slot of
/// the ledger, and an entry of one that keeps failing.
const SLOT: u64 = 40;
const FAILING: u64 = 100;

/// Memory in use at a number of settled records.
#[derive(Clone, Copy, Debug)]
struct Sample {
    settled: u64,
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

/// The most memory in use while so many records were settled.
fn peak(samples: &[Sample], settled: std::ops::Range<u64>) -> Result<u64> {
    let within = samples
        .iter()
        .filter(|sample| settled.contains(&sample.settled));
    within
        .map(|sample| sample.bytes)
        .max()
        .with_context(|| format!("no sample at {settled:?}"))
}

/// The most in use over the first and over the last third of the records.
fn peaks_of_thirds(samples: &[Sample], records: u64) -> Result<(u64, u64)> {
    let third = records / 3;
    let (first, last) = (0..third, records - third..records);
    let (first, last) = (peak(samples, first)?, peak(samples, last)?);
    eprintln!(
        "resident MiB: at most {} in the first third, {} in the last",
        first / MIB,
        last / MIB
    );
    Ok((first, last))
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
    let samples = samples_until_settled(&worker, RECORDS).await?;
    filling.await??;

    let (first, last) = peaks_of_thirds(&samples, RECORDS)?;
    let held = samples.iter().map(|sample| sample.held).max();
    let highest = worker.usage()?.peak_rss_bytes;
    eprintln!("{} in all; held {held:?}", highest / MIB);
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
    let samples = samples_until_settled(&worker, COMPRESSED).await?;

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

/// Each record is delivered, or refused at once, or tried for a while and then
/// put aside. If anything that a worker knows of one stayed behind, the last
/// third would show it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_records_pass_and_nothing_of_them_stays() -> Result<()> {
    // From the end of the first third to the end, two thirds of them pass.
    let (records, failing) = (SMALL * 2 / 3, SMALL / FAILING_RUN * 2 / 3);
    assert!(records * SLOT > 2 * SLACK && failing * FAILING > 2 * SLACK);

    let stage = Stage::set("small", SPREAD).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, small_records()).await?;
    let mut connector = stage.connector("null", 4);
    for (key, value) in [
        ("share.max.in.flight.records", "5000"),
        // It is tried once more, then released, and taken when it comes again.
        ("retry.match", "value=fails,delivery=1"),
        ("errors.retry.timeout", "20"),
        ("errors.retry.delay.max.ms", "20"),
        ("reject.match", "value=refused"),
        ("errors.tolerance", "all"),
    ] {
        connector[key] = json!(value);
    }
    let options = stage.worker_options(&connector);
    let worker = Worker::start(&options.property("status.log.interval.ms", "250"))?;
    let samples = samples_until_settled(&worker, SMALL).await?;

    let (first, last) = peaks_of_thirds(&samples, SMALL)?;
    let status = status(&worker)?;
    assert!(last <= first + SLACK, "{last} after {first}: {status}");
    let refused = small_records().filter(|it| it.value.as_deref() == Some(b"refused"));
    assert_eq!(status["rejected"], refused.count(), "{status}");
    assert!(number(&status, "released")? >= failing, "{status}");
    Ok(())
}

fn small_records() -> impl Iterator<Item = NewRecord> + Send {
    let numbered = (0..SMALL).zip((0..SPREAD).cycle());
    numbered.map(|(number, partition)| {
        let run = number / RUN;
        let value = match run % 20 {
            1 => "refused",
            _ if run.is_multiple_of(FAILING_RUN) => "fails",
            _ => "plain",
        };
        NewRecord::value(value).partition(partition)
    })
}

/// Until all are accepted or rejected.
async fn samples_until_settled(worker: &Worker, records: u64) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    eventually("all are settled", MINUTES, async || {
        let status = status(worker)?;
        let settled = number(&status, "accepted")? + number(&status, "rejected")?;
        let bytes = resident_bytes(worker)?;
        let held = number(&status, "held_bytes")?;
        samples.push(Sample {
            settled,
            bytes,
            held,
        });
        if settled == records {
            Ok(())
        } else {
            bail!("{status}")
        }
    })
    .await?;
    Ok(samples)
}
