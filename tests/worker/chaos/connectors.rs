//! What the workers of a run are told: all read the same group, each into a sink
//! of another kind.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::cluster::{LETTERS, PARTITIONS, TOPIC};
use super::endpoint::Endpoint;
use super::fate::{add_rules, latency_us};
use super::mood::PATIENCE;
use super::schedule::{LOCK, TASKS, WORKERS};
use super::setting::{Patience, PutAside, Retried, Setting, SinkKind};

pub const GROUP: &str = "share-chaos";
pub const DELIVERY_LIMIT: u16 = 10;
/// What the limit is raised to for a while. That of the parking topic's group,
/// which may not be lower, is this from the start.
pub const RAISED_LIMIT: u16 = 15;
/// `share.max.in.flight.records`.
const WINDOW: u64 = 200;
/// Of the producer, in records.
pub const BATCH: &str = "20";
/// A parked record fails once more where it comes back. What is settled there
/// may be deleted, so that it must be read before.
const PARK_BACKOFF_MS: &str = "3000";
/// Of what is given back; the endpoint is in a bad mood for up to twice as long.
const RETRY_TIMEOUT_MS: &str = "1500";
/// Shorter than a lock.
const SHORT_PUT_MS: &str = "2500";
/// Settings of the group are read so often.
const METADATA_AGE_MS: &str = "1000";

/// A batch of each partition.
pub fn beyond_window() -> Result<u64> {
    Ok(BATCH.parse::<u64>()? * u64::try_from(PARTITIONS)?)
}

/// Its window, and what may come beyond it.
pub fn in_flight_limit() -> Result<u64> {
    Ok(WINDOW + beyond_window()?)
}

/// Each worker's has another name, so that letters tell who wrote them.
pub fn connector_of(worker: usize) -> String {
    format!("{TOPIC}-{worker}")
}

pub fn worker_of(connector: &str) -> Option<usize> {
    (0..WORKERS).find(|worker| connector_of(*worker) == connector)
}

/// Topic and group of a worker's parked records.
pub fn parked_of(worker: usize) -> String {
    format!("share-{}-parked", connector_of(worker))
}

/// A life of a worker.
pub struct Role<'a> {
    pub worker: usize,
    pub life: usize,
    /// Where what it delivers is told.
    pub file: &'a Path,
}

pub fn connector(setting: &Setting, endpoint: &Endpoint, role: &Role<'_>) -> Result<Value> {
    let mut connector = json!({
        "name": connector_of(role.worker),
        "topics": TOPIC,
        "tasks.max": TASKS.to_string(),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "consumer.override.group.protocol": "share",
        "consumer.override.metadata.max.age.ms": METADATA_AGE_MS,
        "errors.tolerance": "all",
        "max.put.records": "50",
        "share.group.id": GROUP,
        "share.max.in.flight.records": WINDOW.to_string(),
        "share.record.lock.duration.ms": LOCK.as_millis().to_string(),
        "share.delivery.count.limit": DELIVERY_LIMIT.to_string(),
    });
    add_sink(&mut connector, setting, endpoint, role)?;
    match setting.retried {
        Retried::Held => {}
        Retried::GivenBack => connector["errors.retry.timeout"] = json!(RETRY_TIMEOUT_MS),
        Retried::GivenBackAtOnce => connector["share.retriable"] = json!("release"),
    }
    if setting.put_aside == PutAside::Letters {
        connector["errors.deadletterqueue.mode"] = json!("sluice");
        connector["errors.deadletterqueue.topic.name"] = json!(LETTERS);
        connector["errors.deadletterqueue.topic.replication.factor"] = json!("1");
        connector["errors.deadletterqueue.context.headers.enable"] = json!("true");
    }
    Ok(connector)
}

fn add_sink(
    connector: &mut Value,
    setting: &Setting,
    endpoint: &Endpoint,
    role: &Role<'_>,
) -> Result<()> {
    match setting.sinks[role.worker] {
        SinkKind::Null => {
            let latency = latency_us(setting.seed, role.worker, role.life);
            connector["connector.class"] = json!("null");
            connector["record.file"] = json!(role.file);
            connector["record.latency.us"] = json!(latency.to_string());
            add_rules(connector);
        }
        SinkKind::Http => {
            let file = role.file.file_name().and_then(|name| name.to_str());
            connector["connector.class"] = json!("http");
            connector["http.url"] = json!(endpoint.url(file.context("no name")?));
            let (key, time) = match setting.patience {
                Patience::Request => ("http.request.timeout.ms", PATIENCE.as_millis().to_string()),
                Patience::ShortPut => ("share.delivery.timeout.ms", SHORT_PUT_MS.to_owned()),
                Patience::LongPut => (
                    "share.delivery.timeout.ms",
                    PATIENCE.as_millis().to_string(),
                ),
            };
            connector[key] = json!(time);
        }
        SinkKind::File => {
            connector["connector.class"] = json!("file");
            connector["file"] = json!(role.file);
            connector["share.flush.idle.ms"] = json!("200");
        }
    }
    if setting.parks(role.worker) {
        connector["share.park.after.ms"] = json!("0");
        connector["share.park.backoff.ms"] = json!(PARK_BACKOFF_MS);
        connector["share.park.topic.replication.factor"] = json!(setting.nodes.to_string());
    }
    Ok(())
}
