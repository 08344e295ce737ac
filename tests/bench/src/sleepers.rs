//! What sleeping tasks reach without Kafka: the same sink, given the same
//! chunks one after the other. Timers have a grain, so this is less than the
//! sleeping time alone would allow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use sluice::config::definition::{Faults, Reader};
use sluice::sinks::null::{KEYS, NullConfig, NullFactory};
use sluice_actors::chunk::Chunk;
use sluice_actors::ports::sink::{Sink, SinkFactory, TaskContext};
use sluice_actors::record::{SinkRecord, SourcePartition, TimestampType, TopicId};
use sluice_actors::report::Report;
use sluice_actors::value::Datum;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::contestants::owned;

/// Records a second of so many null sinks.
pub async fn rate(tasks: u32, chunk: usize, keys: &[(&str, &str)], lasts: Duration) -> Result<f64> {
    let properties: BTreeMap<_, _> = owned(keys.iter().copied()).into_iter().collect();
    let mut faults = Faults::default();
    let config = NullConfig::read(&mut Reader::new(&properties, "", KEYS, &mut faults));
    ensure!(faults.is_empty(), "{faults}");
    let factory = NullFactory::new(config);
    let begin = Instant::now();
    let mut sleepers = JoinSet::new();
    for task in 0..tasks {
        let mut sink = factory.create(&TaskContext {
            connector: "sleepers".to_owned(),
            task,
            worker: "none".to_owned(),
        })?;
        sleepers.spawn(async move { put_until(&mut *sink, chunk, begin + lasts).await });
    }
    let mut records = 0;
    while let Some(put) = sleepers.join_next().await {
        records += put??;
    }
    Ok(records as f64 / begin.elapsed().as_secs_f64())
}

async fn put_until(sink: &mut dyn Sink, chunk: usize, end: Instant) -> Result<usize> {
    ensure!(chunk > 0, "no chunks without records");
    let chunk = Chunk::new(records(chunk));
    sink.open().await?;
    let mut put = 0;
    while Instant::now() < end {
        sink.put(chunk.clone(), Report::new(chunk.len())).await?;
        put += chunk.len();
    }
    sink.close().await;
    Ok(put)
}

fn records(count: usize) -> Vec<SinkRecord> {
    let partition = Arc::new(SourcePartition {
        topic: "sleepers".into(),
        topic_id: TopicId::default(),
        partition: 0,
    });
    let record = |offset| SinkRecord {
        topic: Arc::clone(&partition.topic),
        partition: Arc::clone(&partition),
        offset,
        delivery_count: 1,
        acquisition: 1,
        timestamp: None,
        timestamp_type: TimestampType::CreateTime,
        key: Datum::null(),
        value: Datum::null(),
        headers: Vec::new(),
        original: None,
        parked: None,
        life: None,
    };
    (0..count as i64).map(record).collect()
}
