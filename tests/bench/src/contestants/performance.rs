//! Kafka's own consumers: the plain one, which settles nothing, and the one of
//! a share group.

use anyhow::{Result, ensure};
use sluice_test_support::java::{
    CONSUMER_PERFORMANCE, Figures, SHARE_CONSUMER_PERFORMANCE, run_tool,
};
use sluice_test_support::kafka::Kafka;

/// Records a second of `ConsumerPerformance` while fetching; its total holds a
/// second of rebalance.
pub async fn consumer(kafka: &Kafka, topic: &str, group: &str, records: usize) -> Result<f64> {
    let figures = run(CONSUMER_PERFORMANCE, kafka, topic, group, records).await?;
    figures.number("fetch.nMsg.sec")
}

/// Records a second of `ShareConsumerPerformance`, joining its group included:
/// it tells no other figure.
pub async fn share_consumer(
    kafka: &Kafka,
    topic: &str,
    group: &str,
    records: usize,
) -> Result<f64> {
    let earliest = [("share.auto.offset.reset", "earliest")];
    kafka.admin().await?.alter_group(group, &earliest).await?;
    let figures = run(SHARE_CONSUMER_PERFORMANCE, kafka, topic, group, records).await?;
    figures.number("nMsg.sec")
}

async fn run(
    class: &str,
    kafka: &Kafka,
    topic: &str,
    group: &str,
    records: usize,
) -> Result<Figures> {
    let messages = records.to_string();
    let arguments = [
        "--bootstrap-server",
        kafka.bootstrap_servers(),
        "--topic",
        topic,
        "--group",
        group,
        "--num-records",
        &messages,
        "--timeout",
        "60000",
    ];
    let figures = Figures::parse(&run_tool(class, &arguments).await?)?;
    let consumed = figures.number("data.consumed.in.nMsg")?;
    ensure!(
        consumed >= records as f64,
        "{class} consumed {consumed} of {records} records"
    );
    Ok(figures)
}
