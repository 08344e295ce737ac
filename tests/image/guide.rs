//! What the guide for a first run says of containers is what happens.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sluice_test_support::counting::Tally;
use sluice_test_support::free_port;
use sluice_test_support::kafka::Kafka;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::topics::unique_name;
use sluice_test_support::wait::eventually;

use crate::containers::Image;

const GUIDE: &str = "docs/guides/first-run.md";
const RECORDS: usize = 1000;
const PARTITIONS: i32 = 4;
const MINUTE: Duration = Duration::from_secs(60);

/// The arguments of the guide's `docker run`, without name and image.
fn arguments() -> Result<Vec<String>> {
    let guide = fs::read_to_string(GUIDE)?;
    let (_, run) = guide.split_once("docker run ").context("no docker run")?;
    let (run, _) = run.split_once("\n```").context("no end")?;
    let mut words = run.split_whitespace().filter(|word| *word != "\\");
    ensure!(words.next() == Some("--name"), "{run}");
    words.next().context("no name")?;
    // `"$(id -u):$(id -g)"` is one word to a shell.
    let words: Vec<_> = words.collect();
    let (image, words) = words.split_last().context("no image")?;
    ensure!(*image == "sluice", "{run}");
    let words = words.join(" ").replace("$(id -u):$(id -g)", "USER");
    Ok(words.split(' ').map(|word| word.replace('"', "")).collect())
}

/// What is different for each who follows the guide.
fn here(arguments: &mut [String], values: &[(&str, &str)]) -> Result<()> {
    for (theirs, ours) in values {
        let mut places = arguments.iter_mut().filter(|word| word.contains(theirs));
        let place = places.next().with_context(|| format!("no {theirs}"))?;
        *place = place.replace(theirs, ours);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_container_of_the_guide_writes_each_order_to_its_volume() -> Result<()> {
    let image = Image::load()?;
    let kafka = Kafka::shared().await?;
    let admin = kafka.admin().await?;
    let topic = unique_name("guide");
    admin.create_topic(&topic, PARTITIONS).await?;
    let records = json_records(RECORDS, PARTITIONS, 100);
    produce(kafka.bootstrap_servers(), &topic, records).await?;
    let folder = tempfile::tempdir()?;
    let data = folder.path().to_str().context("a path that is no text")?;
    let mut arguments = arguments()?;
    here(
        &mut arguments,
        &[
            // Without root, podman has whoever runs it as root inside.
            ("USER", "0:0"),
            ("$PWD/data", data),
            ("localhost:9092", kafka.bootstrap_servers()),
            ("TOPICS=orders", &format!("TOPICS={topic}")),
        ],
    )?;
    // Others may have the usual port here.
    let port = free_port()?.local_addr()?.port();
    let listeners = format!("SLUICE_LISTENERS=http://127.0.0.1:{port}");
    arguments.extend(["--env".to_owned(), listeners]);

    let container = image.start_with(&topic, &arguments)?;
    admin
        .wait_until_consumed("share-orders", &topic, MINUTE)
        .await?;
    eventually("it is RUNNING", MINUTE, async || {
        let status = container.ask("status")?;
        ensure!(status.contains("RUNNING"), "{status}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    container.stop("15")?;
    let ended = container.worker.wait_for_exit(MINUTE).await?;
    assert_eq!(ended.code(), Some(0), "{}", container.worker.output()?);
    let lines = fs::read_to_string(folder.path().join("orders.jsonl"))?;
    assert_eq!(lines.lines().count(), RECORDS);
    let lines = lines.lines().map(str::as_bytes);
    Tally::from_json_values(lines, "/id").exactly_once(ids(RECORDS))
}
