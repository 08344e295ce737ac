//! What Java's own clients reach on this machine, to compare rates with:
//! `cargo run -p sluice-test-support --example peers -- 1000000`.

use anyhow::{Context, Result, ensure};
use sluice_test_support::{
    java::{CONSUMER_PERFORMANCE, Figures, SHARE_CONSUMER_PERFORMANCE, run_tool},
    kafka::{Kafka, KafkaOptions},
    produce::{json_records, produce},
};
use tokio::time::Instant;

const TOPIC: &str = "peers";
const PARTITIONS: i32 = 12;
const RECORD_BYTES: usize = 100;

/// Class, group, the column with the rate.
const PEERS: &[(&str, &str, &str)] = &[
    (CONSUMER_PERFORMANCE, "plain", "fetch.nMsg.sec"),
    (SHARE_CONSUMER_PERFORMANCE, "share", "nMsg.sec"),
];

#[tokio::main]
async fn main() -> Result<()> {
    let count = std::env::args().nth(1).context("usage: peers RECORDS")?;
    let records: usize = count.parse().context("RECORDS is a number")?;
    let options = KafkaOptions::new().default_timeouts().heap_mb(1024);
    let kafka = Kafka::start(options).await?;
    let admin = kafka.admin().await?;
    admin.create_topic(TOPIC, PARTITIONS).await?;
    let earliest = [("share.auto.offset.reset", "earliest")];
    admin.alter_group("share", &earliest).await?;

    let servers = kafka.bootstrap_servers();
    let start = Instant::now();
    let batch = json_records(records, PARTITIONS, RECORD_BYTES);
    let produced = produce(servers, TOPIC, batch).await?;
    report("produced", produced as f64 / start.elapsed().as_secs_f64());
    for (class, group, column) in PEERS {
        let arguments = [
            "--bootstrap-server",
            servers,
            "--topic",
            TOPIC,
            "--group",
            group,
            "--num-records",
            &count,
        ];
        let figures = Figures::parse(&run_tool(class, &arguments).await?)?;
        let consumed = figures.number("data.consumed.in.nMsg")?;
        ensure!(consumed >= produced as f64, "{class} got {consumed} only");
        report(class, figures.number(column)?);
    }
    Ok(())
}

fn report(what: &str, rate: f64) {
    // Figures are this program's output.
    #[expect(clippy::print_stdout)]
    {
        println!("{what}: {rate:.0} records/s");
    }
}
