//! Debian's Prometheus, and its promtool, on a worker's metrics.

use std::fs::File;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::Value;
use sluice_test_support::process::Process;
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::wait::eventually;
use tempfile::TempDir;

use crate::api::Api;
use crate::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);
const ACCEPTED: &str = "kafka_connect_sink_task_sink_record_acknowledge_total";
const SETTLEMENT: &str = "sluice_settlement_seconds";
const TRICKLE: usize = 40;
/// `fetch.max.wait.ms`, in seconds.
const FETCH_WAIT: f64 = 0.5;
const INSTALL: &str = "install Debian's package prometheus, as ./test setup does";

fn check_by_promtool(text: &str) -> Result<()> {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut promtool = command.stderr(Stdio::piped()).spawn().context(INSTALL)?;
    let mut stdin = promtool.stdin.take().context("no stdin")?;
    std::io::Write::write_all(&mut stdin, text.as_bytes())?;
    drop(stdin);
    let output = promtool.wait_with_output()?;
    let told = String::from_utf8(output.stderr)?;
    ensure!(output.status.success() && told.is_empty(), "{told}\n{text}");
    Ok(())
}

/// A Prometheus that asks one worker every second.
struct Prometheus {
    // Before the folder: fields are dropped in this order.
    _process: Process,
    _folder: TempDir,
    url: String,
}

impl Prometheus {
    fn start(worker: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let target = worker.trim_start_matches("http://");
        let config = format!(
            "global: {{scrape_interval: 1s}}\n\
             scrape_configs: [{{job_name: sluice, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config)?;
        // Free a moment ago; whoever takes it in between shows in the log.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("stderr"))?);
        let process = Process::spawn("prometheus", command, folder.path()).context(INSTALL)?;
        Ok(Self {
            _process: process,
            _folder: folder,
            url: format!("http://127.0.0.1:{port}"),
        })
    }

    /// The value of a query that has one.
    async fn ask(&self, query: &str) -> Result<f64> {
        let url = reqwest::Url::parse_with_params(
            &format!("{}/api/v1/query", self.url),
            [("query", query)],
        )?;
        let answer: Value = serde_json::from_str(&reqwest::get(url).await?.text().await?)?;
        let value = answer["data"]["result"][0]["value"][1].as_str();
        Ok(value
            .with_context(|| format!("no value in {answer}"))?
            .parse()?)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_scrapes_a_worker_and_settlements_are_quick_when_it_is_idle() -> Result<()> {
    let stage = Stage::set("scraped", 1).await?;
    let worker = stage.worker(&stage.to_null(2))?;
    let api = Api::of(&worker).await?;
    let ready = |code: reqwest::StatusCode, _: &Value| code.is_success();
    api.wait_for("/health/ready", MINUTE, ready).await?;
    // One at a time, so that each finds the worker idle.
    let label = format!("connector=\"{}\"", stage.name);
    let records: Vec<_> = json_records(TRICKLE, 1, 100).collect();
    for (number, record) in records.into_iter().enumerate() {
        produce(stage.kafka.bootstrap_servers(), &stage.name, [record]).await?;
        eventually("it is accepted", MINUTE, async || {
            let accepted = api.metric(ACCEPTED, &label).await?;
            ensure!(accepted as usize > number, "{accepted}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
    }

    let (_, text) = api.text(Method::GET, "/metrics").await?;
    check_by_promtool(&text)?;

    let prometheus = Prometheus::start(&api.url)?;
    let up = format!("{ACCEPTED}{{{label}}}");
    eventually("Prometheus has scraped", MINUTE, async || {
        let accepted = prometheus.ask(&up).await?;
        ensure!(accepted as usize == TRICKLE, "{accepted}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let series = format!("{SETTLEMENT}_bucket{{{label}}}");
    let median = prometheus
        .ask(&format!("histogram_quantile(0.5, {series})"))
        .await?;
    let spread = text.lines().filter(|line| line.starts_with(SETTLEMENT));
    let spread = spread.collect::<Vec<_>>().join("\n");
    // Behind the next fetch, which waits for records that do not come, it would
    // take as long as that.
    assert!(
        median < FETCH_WAIT / 5.0,
        "a settlement took {median} s:\n{spread}"
    );
    Ok(())
}
