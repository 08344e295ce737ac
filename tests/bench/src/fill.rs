//! Topics with records, for all that take turns.

use anyhow::Result;
use sluice_test_support::kafka::Kafka;
use sluice_test_support::produce::{NewRecord, produce_with};

/// One of 100 bytes, as most cases have them.
pub fn plain(_number: usize) -> NewRecord {
    NewRecord::value(vec![b'x'; 100])
}

/// So many records into a topic that is there, one partition after the other;
/// `properties` are the producer's.
pub async fn fill(
    kafka: &Kafka,
    (topic, partitions): (&str, i32),
    records: usize,
    record: impl Fn(usize) -> NewRecord + Send + 'static,
    properties: &[(&str, &str)],
) -> Result<usize> {
    let records = (0..records)
        .zip((0..partitions).cycle())
        .map(move |(number, partition)| record(number).partition(partition));
    produce_with(kafka.bootstrap_servers(), topic, records, properties).await
}
