//! What a newcomer without a Kafka meets: the demo, the embedded broker, and
//! a word about both.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use sluice_test_support::counting::Tally;
use sluice_test_support::process::{Process, Signal};
use sluice_test_support::produce::{NewRecord, ids, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions, run_command};
use tokio::time::Instant;

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");
const PATIENCE: Duration = Duration::from_secs(60);

/// A row of the tally: `  lost   0  settled, but not in the file`.
fn row(printed: &str, name: &str) -> Result<u64> {
    let of_row = |line: &str| {
        let mut words = line.split_whitespace();
        let is_row = words.next() == Some(name);
        is_row.then(|| words.next()?.parse().ok()).flatten()
    };
    let found = printed.lines().find_map(of_row);
    found.with_context(|| format!("no row {name} in\n{printed}"))
}

/// The figure before a word, in the last line of the progress.
fn last_figure(printed: &str, word: &str) -> Result<u64> {
    let line = printed.lines().rfind(|line| line.contains(" in flight"));
    let words: Vec<_> = line.unwrap_or_default().split_whitespace().collect();
    let place = words.iter().position(|it| *it == word);
    let figure = place.and_then(|place| words[place - 1].parse().ok());
    figure.with_context(|| format!("no figure before {word} in\n{printed}"))
}

/// The README's blocks in this language.
fn readme(language: &str) -> Vec<&'static str> {
    let blocks = include_str!("../../README.md")
        .split("```")
        .skip(1)
        .step_by(2);
    blocks.filter_map(|it| it.strip_prefix(language)).collect()
}

#[tokio::test]
async fn the_readmes_first_command_kills_tasks_and_loses_nothing() -> Result<()> {
    assert_eq!(readme("sh\n").first(), Some(&"cargo run -- demo\n"));
    let began = Instant::now();
    let printed = run_command(SLUICE, &["demo"]).await?;
    // Its sinks sleep for 20 s in all, side by side: what the machine adds is
    // less than twice that.
    let took = began.elapsed();
    ensure!(took < 3 * Duration::from_secs(20), "{took:?}: {printed}");
    assert_eq!(row(&printed, "duplicates")?, 0, "{printed}");
    let tally = readme("text\n")[0]
        .split_once("...\n")
        .context("no tally")?
        .1;
    ensure!(printed.contains(tally), "not as in README.md: {printed}");
    assert!(printed.contains("Nothing was lost."), "{printed}");
    assert_eq!(last_figure(&printed, "accepted")?, 20_000);
    assert!(last_figure(&printed, "killed")? > 0, "{printed}");
    assert!(last_figure(&printed, "redelivered")? > 0, "{printed}");
    assert!(!printed.contains('\r'), "a pipe is no terminal: {printed}");
    Ok(())
}

#[tokio::test]
async fn an_interrupted_demo_tells_what_is_left_and_loses_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("stdout");
    let mut command = Command::new(SLUICE);
    command
        .args(["demo", "--records", "3000", "--seconds", "60"])
        .env_clear()
        .stdout(File::create(&path)?);
    let demo = Process::spawn("demo", command, folder.path())?;
    let printed = || std::fs::read_to_string(&path).unwrap_or_default();
    eventually("some are accepted", PATIENCE, async || {
        let accepted = last_figure(&printed(), "accepted")?;
        ensure!(accepted > 0, "none of them yet");
        Ok(())
    })
    .await?;
    demo.signal(Signal::INT)?;
    let status = eventually("the demo ends", PATIENCE, async || {
        demo.exit_status()?.context("it still runs")
    })
    .await?;

    let printed = printed();
    assert_eq!(status.code(), Some(0), "{printed}");
    assert_eq!(row(&printed, "lost")?, 0);
    let (delivered, left) = (row(&printed, "delivered")?, row(&printed, "left")?);
    assert!(delivered > 0 && left > 0, "{printed}");
    assert_eq!(delivered + left, 3000);
    Ok(())
}

#[tokio::test]
async fn a_worker_without_brokers_is_told_where_to_get_some() {
    let error = run_command(SLUICE, &["run"]).await.unwrap_err().to_string();
    assert!(error.contains("exit status: 64"), "{error}");
    for part in [
        "bootstrap.servers: is required and not set",
        "SLUICE_BOOTSTRAP_SERVERS",
        "`sluice demo`",
        "`sluice run --embedded-broker`",
    ] {
        assert!(error.contains(part), "no {part} in {error}");
    }
}

#[tokio::test]
async fn records_reach_a_sink_by_the_embedded_broker() -> Result<()> {
    let orders = json!({
        "name": "orders",
        "connector.class": "file",
        "topics": "orders",
        "tasks.max": "4",
        "file": "arrived",
        "consumer.override.group.protocol": "share",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    });
    // The flag wins over the file.
    let options = WorkerOptions::new(SLUICE)
        .property("bootstrap.servers", "127.0.0.1:1")
        .connector("orders", &orders)
        .argument("--embedded-broker");
    let worker = Worker::start(&options)?;
    let is_warning = |line: &str| line.contains("WARN") && line.contains("is no Kafka");
    let warning = worker.wait_for_log(is_warning, PATIENCE).await?;
    let servers = warning.split("bootstrap_servers=").nth(1);
    let servers = servers.and_then(|rest| rest.split('"').nth(1));
    let servers = servers.with_context(|| format!("no address in {warning}"))?;

    produce(servers, "orders", ids(1000).map(NewRecord::value)).await?;
    let arrived = worker.folder().join("arrived");
    eventually("all have arrived", PATIENCE, async || {
        Tally::from_lines(&arrived)?.exactly_once(ids(1000))
    })
    .await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));

    // What this broker does not offer is told once, and gone on without.
    let log = worker.stderr()?;
    for lacking in ["find out the kind", "read the settings"] {
        let told = |line: &&str| line.contains("WARN") && line.contains(lacking);
        assert_eq!(log.lines().filter(told).count(), 1, "{lacking}: {log}");
    }
    assert!(!log.contains("ERROR"), "{log}");
    Ok(())
}
