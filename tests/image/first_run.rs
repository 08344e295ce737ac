//! A worker and its connector by environment variables alone, on a real Kafka.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_test_support::counting::Tally;
use sluice_test_support::free_port;
use sluice_test_support::kafka::Kafka;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::topics::unique_name;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker_log::{log, seconds_between};

use crate::containers::{Container, Image};

const RECORDS: usize = 4000;
/// For one start.
const FEW: usize = 40;
const PARTITIONS: i32 = 4;
const MINUTE: Duration = Duration::from_secs(60);
/// What one record takes until the first stop, so that some are open then and
/// most have not come, on however slow a machine.
const LATENCY: Duration = Duration::from_millis(100);
/// The goal from joining to the first delivery, in seconds: for the median of
/// several starts, as others may keep the machine busy during one of them.
const FIRST_DELIVERY_WITHIN: f64 = 1.0;
const ONE_FIRST_DELIVERY_WITHIN: f64 = 10.0;
const STARTS: usize = 5;

const STRING: &str = "org.apache.kafka.connect.storage.StringConverter";

/// All that the worker is told.
fn variables(
    kafka: &Kafka,
    topic: &str,
    receiver: &Receiver,
    port: u16,
) -> Vec<(&'static str, String)> {
    vec![
        (
            "SLUICE_BOOTSTRAP_SERVERS",
            kafka.bootstrap_servers().to_owned(),
        ),
        ("SLUICE_CONSUMER_GROUP_PROTOCOL", "share".to_owned()),
        ("SLUICE_KEY_CONVERTER", STRING.to_owned()),
        ("SLUICE_VALUE_CONVERTER", STRING.to_owned()),
        ("SLUICE_LISTENERS", format!("http://127.0.0.1:{port}")),
        ("SLUICE_LOG_FORMAT", "json".to_owned()),
        ("SLUICE_STATUS_LOG_INTERVAL_MS", "20".to_owned()),
        (
            "SLUICE_TASK_SHUTDOWN_GRACEFUL_TIMEOUT_MS",
            "60000".to_owned(),
        ),
        ("SLUICE_SINK_ORDERS_NAME", topic.to_owned()),
        ("SLUICE_SINK_ORDERS_CONNECTOR_CLASS", "http".to_owned()),
        ("SLUICE_SINK_ORDERS_HTTP_URL", receiver.url("/orders")),
        ("SLUICE_SINK_ORDERS_TASKS_MAX", "8".to_owned()),
        ("SLUICE_SINK_ORDERS_TOPICS", topic.to_owned()),
    ]
}

fn delivered(receiver: &Receiver) -> Tally {
    let arrivals = receiver.arrivals();
    let bodies = arrivals.iter().map(|arrival| arrival.body.as_ref());
    Tally::from_json_values(bodies, "/id")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_alone_make_it_deliver_and_a_stop_drains_it() -> Result<()> {
    let image = Image::load()?;
    let kafka = Kafka::shared().await?;
    let admin = kafka.admin().await?;
    let topic = unique_name("image");
    admin.create_topic(&topic, PARTITIONS).await?;
    let records = json_records(RECORDS, PARTITIONS, 100);
    produce(kafka.bootstrap_servers(), &topic, records).await?;
    let is_slow = Arc::new(AtomicBool::new(true));
    let receiver = {
        let is_slow = Arc::clone(&is_slow);
        let answer = move |_: &_| match is_slow.load(Ordering::Relaxed) {
            true => Reply::After(LATENCY, Box::new(Reply::ok())),
            false => Reply::ok(),
        };
        Receiver::start(answer).await?
    };
    let port = free_port()?.local_addr()?.port();
    let variables = variables(kafka, &topic, &receiver, port);

    let first = image.start(&format!("{topic}-1"), &variables)?;
    eventually("it is healthy", MINUTE, async || first.check_health()).await?;
    has_neither_rights_nor_a_shell(&first)?;
    eventually("some are delivered", MINUTE, async || {
        ensure!(receiver.count() > 100, "{}", receiver.count());
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    first.stop("60")?;
    let ended = first.worker.wait_for_exit(MINUTE).await?;
    assert_eq!(ended.code(), Some(0), "{}", first.worker.output()?);
    let before = receiver.count();
    assert!(before < RECORDS, "it drained what it had, not the topic");
    let drained = |line: &Value| line["message"] == "stopped" && line["clean"] == true;
    let drained = log(&first.worker)?.iter().any(drained);
    assert!(drained, "{}", first.worker.output()?);

    is_slow.store(false, Ordering::Relaxed);
    let second = image.start(&format!("{topic}-2"), &variables)?;
    tells_what_keda_scales_by(&format!("http://127.0.0.1:{port}/metrics"), &topic).await?;
    admin
        .wait_until_consumed(&format!("share-{topic}"), &topic, MINUTE)
        .await?;
    second.stop("60")?;
    let ended = second.worker.wait_for_exit(MINUTE).await?;
    assert_eq!(ended.code(), Some(0), "{}", second.worker.output()?);
    // A record that was open at the signal and not drained would have come again.
    delivered(&receiver).exactly_once(ids(RECORDS))
}

/// As the kernel sees it: no root, no way to write, nothing but the program.
fn has_neither_rights_nor_a_shell(container: &Container<'_>) -> Result<()> {
    let proc = container.proc()?;
    let status = fs::read_to_string(proc.join("status"))?;
    for ids in ["Uid:", "Gid:"] {
        let line = status.lines().find(|line| line.starts_with(ids));
        let line = line.with_context(|| format!("no {ids} in {status}"))?;
        assert!(
            line.split_whitespace().skip(1).all(|id| id == "65532"),
            "{line}"
        );
    }
    let mounts = fs::read_to_string(proc.join("mounts"))?;
    let root = mounts
        .lines()
        .find(|line| line.split(' ').nth(1) == Some("/"));
    let options = root
        .and_then(|line| line.split(' ').nth(3))
        .context("no root")?;
    assert!(options.split(',').any(|it| it == "ro"), "{mounts}");
    let program = names(&proc.join("root"))?;
    for name in ["sluice", "etc", "data"] {
        assert!(program.contains(name), "{program:?}");
    }
    for name in ["bin", "sbin", "usr"] {
        assert!(!program.contains(name), "{program:?}");
    }
    Ok(())
}

fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(folder)?;
    let name = |entry: std::io::Result<fs::DirEntry>| Ok(entry?.file_name().display().to_string());
    entries.map(name).collect()
}

/// The metric of the ScaledObject, of the connector.
async fn tells_what_keda_scales_by(url: &str, connector: &str) -> Result<()> {
    let scaled = fs::read_to_string("deploy/kubernetes/keda/scaled-object.yaml")?;
    let query = scaled.split_once("query: max(").context("no query")?.1;
    let metric = query.split_once('{').context("no labels")?.0;
    let sample = format!("{metric}{{connector=\"{connector}\"}} ");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build()?;
    eventually("KEDA's metric is there", MINUTE, async || {
        let text = client.get(url).send().await?.text().await?;
        ensure!(
            text.lines().any(|line| line.starts_with(&sample)),
            "no {sample} in {text}"
        );
        Ok::<_, anyhow::Error>(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_joining_to_the_first_delivery_is_less_than_a_second() -> Result<()> {
    let image = Image::load()?;
    let kafka = Kafka::shared().await?;
    let admin = kafka.admin().await?;
    let topic = unique_name("first");
    admin.create_topic(&topic, PARTITIONS).await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let port = free_port()?.local_addr()?.port();
    let variables = variables(kafka, &topic, &receiver, port);
    let mut times = Vec::new();
    // The very first one has to wait for what a new cluster sets up.
    for start in 0..=STARTS {
        let records = json_records(FEW, PARTITIONS, 100);
        produce(kafka.bootstrap_servers(), &topic, records).await?;
        let container = image.start(&format!("{topic}-{start}"), &variables)?;
        eventually("all are delivered", MINUTE, async || {
            let count = receiver.count();
            ensure!(count >= FEW * (start + 1), "{count}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        container.stop("60")?;
        container.worker.wait_for_exit(MINUTE).await?;
        times.push(seconds_to_first_delivery(&log(&container.worker)?)?);
    }
    let mut times = times.split_off(1);
    times.sort_by(f64::total_cmp);
    let (median, longest) = (times[STARTS / 2], times[STARTS - 1]);
    eprintln!(
        "{:.0} ms from joining to the first delivery, the median of {times:?} s",
        median * 1000.0
    );
    assert!(median < FIRST_DELIVERY_WITHIN, "{times:?}");
    assert!(longest < ONE_FIRST_DELIVERY_WITHIN, "{times:?}");
    Ok(())
}

/// From the broker's answer to the join to the first record that is delivered
/// and confirmed.
fn seconds_to_first_delivery(log: &[Value]) -> Result<f64> {
    let find = |wanted: &dyn Fn(&Value) -> bool| log.iter().find(|line| wanted(line));
    let joined = find(&|line| line["message"] == "joined the share group");
    let accepted = find(&|line| line["accepted"].as_u64().is_some_and(|it| it > 0));
    seconds_between(
        joined.context("it has not joined")?,
        accepted.context("no status")?,
    )
}

#[test]
fn it_tells_what_it_is_and_how_to_run_it() -> Result<()> {
    let image = Image::load()?.inspect()?;
    let config = &image["Config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], serde_json::json!(["/sluice"]));
    assert_eq!(config["Cmd"], serde_json::json!(["run"]));
    assert_eq!(config["StopSignal"], "SIGTERM");
    let health = &image["Healthcheck"]["Test"];
    assert_eq!(health, &serde_json::json!(["CMD", "/sluice", "health"]));
    assert!(config["ExposedPorts"]["8083/tcp"].is_object(), "{config}");
    let labels = &config["Labels"];
    assert_eq!(
        labels["org.opencontainers.image.version"],
        env!("CARGO_PKG_VERSION")
    );
    let revision = &labels["org.opencontainers.image.revision"];
    assert!(
        revision.as_str().is_some_and(|it| it.len() == 40),
        "{labels}"
    );
    Ok(())
}
