//! Kafka's own plain consumer, which settles nothing.

use anyhow::Result;
use sluice_test_support::java::{Figures, run_tool};
use sluice_test_support::kafka::Kafka;

/// Records a second while fetching; the tool's total holds a second of
/// rebalance.
pub async fn measure(kafka: &Kafka, topic: &str, records: usize) -> Result<f64> {
    let messages = records.to_string();
    let arguments = [
        "--bootstrap-server",
        kafka.bootstrap_servers(),
        "--topic",
        topic,
        "--num-records",
        &messages,
        "--timeout",
        "60000",
    ];
    let printed = run_tool("org.apache.kafka.tools.ConsumerPerformance", &arguments).await?;
    Figures::parse(&printed)?.number("fetch.nMsg.sec")
}
