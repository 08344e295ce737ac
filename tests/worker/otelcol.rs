//! A real collector, with the configuration of deploy/ and a file for what it
//! gets.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sluice_test_support::free_port;
use sluice_test_support::otlp::{Series, Span, metrics_in, spans_in};
use sluice_test_support::process::{Process, Signal};
use sluice_test_support::wait::eventually;
use tempfile::TempDir;
use tokio::net::TcpStream;

const BINARY: &str = "SLUICE_TEST_COLLECTOR";
const CONFIG: &str = "deploy/otel-collector.yaml";
const MINUTE: Duration = Duration::from_secs(60);

/// Two files of configuration become one: what is no map is replaced.
fn overlay(folder: &Path, grpc: u16, http: u16) -> String {
    let folder = folder.display();
    format!(
        "receivers:
  otlp:
    protocols:
      grpc: {{endpoint: '127.0.0.1:{grpc}'}}
      http: {{endpoint: '127.0.0.1:{http}'}}
exporters:
  file/traces: {{path: '{folder}/traces', format: proto}}
  file/metrics: {{path: '{folder}/metrics', format: proto}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{exporters: [debug, file/traces]}}
    metrics: {{exporters: [debug, file/metrics]}}
"
    )
}

/// Free a moment ago; whoever takes one in between shows in the log.
fn two_ports() -> Result<(u16, u16)> {
    let (one, other) = (free_port()?, free_port()?);
    Ok((one.local_addr()?.port(), other.local_addr()?.port()))
}

fn binary() -> Result<PathBuf> {
    let binary = std::env::var_os(BINARY).map(PathBuf::from);
    binary.with_context(|| format!("{BINARY} is not set: run `./test collector`"))
}

/// What a command of the collector prints.
pub fn run(arguments: &[&str]) -> Result<String> {
    let output = Command::new(binary()?).args(arguments).output()?;
    let told = String::from_utf8([output.stdout, output.stderr].concat())?;
    ensure!(output.status.success(), "{arguments:?}: {told}");
    Ok(told)
}

/// It runs until it is stopped, or dropped.
pub struct Otelcol {
    // Before the folder: fields are dropped in this order.
    process: Process,
    folder: TempDir,
    grpc: u16,
    http: u16,
}

impl Otelcol {
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let more = folder.path().join("more.yaml");
        let (grpc, http) = two_ports()?;
        fs::write(&more, overlay(folder.path(), grpc, http))?;
        let mut command = Command::new(binary()?);
        command
            .args(["--config", CONFIG, "--config"])
            .arg(&more)
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log"))?);
        let collector = Self {
            process: Process::spawn("otelcol", command, folder.path())?,
            folder,
            grpc,
            http,
        };
        eventually("the collector listens", MINUTE, async || {
            for port in [grpc, http] {
                let connection = TcpStream::connect(("127.0.0.1", port)).await;
                connection.with_context(|| collector.log())?;
            }
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        Ok(collector)
    }

    /// The address for each of OTLP's protocols.
    pub fn url(&self, protocol: &str) -> String {
        let port = match protocol {
            "grpc" => self.grpc,
            _ => self.http,
        };
        format!("http://127.0.0.1:{port}")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Ends it, so that it writes what it has.
    pub async fn stop(&self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        let status = eventually("the collector ends", MINUTE, async || {
            self.process.exit_status()?.context("it runs")
        })
        .await?;
        ensure!(status.success(), "{status}: {}", self.log());
        Ok(())
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let read = fs::read(self.folder.path().join(name));
        read.with_context(|| format!("no {name}: {}", self.log()))
    }

    pub fn spans(&self) -> Result<Vec<Span>> {
        spans_in(&self.read("traces")?)
    }

    /// The metrics of the last push.
    pub fn metrics(&self) -> Result<Vec<Series>> {
        metrics_in(&self.read("metrics")?)
    }
}
