//! Debian's Prometheus and its promtool.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_test_support::process::Process;
use tempfile::TempDir;

const INSTALL: &str = "install Debian's package prometheus, as ./test setup does";
const RULES: &str = "rules.yml";

/// Fails over what Prometheus would not like in what `/metrics` answers.
pub fn check_by_promtool(text: &str) -> Result<()> {
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

/// An alert as the server has it now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alert {
    pub name: String,
    /// Empty for one that is about no connector.
    pub connector: String,
    /// Not pending any more.
    pub fires: bool,
}

/// A Prometheus that asks one worker every second, as the job `sluice`, and
/// looks at rules as often.
pub struct Prometheus {
    // Before the folder: fields are dropped in this order.
    _process: Process,
    _folder: TempDir,
    url: String,
}

impl Prometheus {
    pub fn start(worker: &str) -> Result<Self> {
        Self::with_rules(worker, "groups: []\n")
    }

    pub fn with_rules(worker: &str, rules: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let target = worker.trim_start_matches("http://");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [{RULES}]\n\
             scrape_configs: [{{job_name: sluice, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config)?;
        std::fs::write(folder.path().join(RULES), rules)?;
        Self::with_config(&file, folder)
    }

    /// One that is started with the file of `deploy/`, as compose does.
    pub fn as_deployed() -> Result<Self> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus/prometheus.yml");
        Self::with_config(&file, tempfile::tempdir()?)
    }

    fn with_config(file: &Path, folder: TempDir) -> Result<Self> {
        // Free a moment ago; whoever takes it in between shows in the log.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = spawn(file, folder.path(), port)?;
        Ok(Self {
            _process: process,
            _folder: folder,
            url: format!("http://127.0.0.1:{port}"),
        })
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        let url = format!("{}/api/v1/{path}", self.url);
        let url = reqwest::Url::parse_with_params(&url, query)?;
        let answer: Value = serde_json::from_str(&reqwest::get(url).await?.text().await?)?;
        ensure!(answer["status"] == "success", "{path} {query:?}: {answer}");
        Ok(answer["data"].clone())
    }

    /// The value of a query that has one.
    pub async fn ask(&self, query: &str) -> Result<f64> {
        let data = self.get("query", &[("query", query)]).await?;
        let value = data["result"][0]["value"][1].as_str();
        Ok(value
            .with_context(|| format!("no value in {data}"))?
            .parse()?)
    }

    /// How many series a query has; an error if it is none.
    pub async fn series(&self, query: &str) -> Result<usize> {
        let data = self.get("query", &[("query", query)]).await?;
        Ok(data["result"].as_array().map_or(0, Vec::len))
    }

    /// The alerts that fire or are about to.
    pub async fn alerts(&self) -> Result<BTreeSet<Alert>> {
        let data = self.get("alerts", &[]).await?;
        let alerts = data["alerts"].as_array().context("no alerts")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let alerts = alerts.iter().map(|alert| Alert {
            name: text(&alert["labels"]["alertname"]),
            connector: text(&alert["labels"]["connector"]),
            fires: alert["state"] == "firing",
        });
        Ok(alerts.collect())
    }

    /// Names of rules that have been looked at, all of them without an error.
    pub async fn evaluated_rules(&self) -> Result<usize> {
        let data = self.get("rules", &[]).await?;
        let groups = data["groups"].as_array().context("no groups")?;
        let rules = groups.iter().flat_map(|it| it["rules"].as_array());
        let mut evaluated = 0;
        for rule in rules.flatten() {
            ensure!(rule["health"] == "ok", "{rule}");
            evaluated += 1;
        }
        Ok(evaluated)
    }
}

fn spawn(config: &Path, folder: &Path, port: u16) -> Result<Process> {
    let mut command = Command::new("prometheus");
    let data = folder.join("data");
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", data.display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("stderr"))?);
    Process::spawn("prometheus", command, folder).context(INSTALL)
}
