//! Kafka's own classes (the broker and its tools) and a client of Kafka
//! Connect, from the jars that the script `test` has fetched.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

pub const SHARE_GROUP_COMMAND: &str = "org.apache.kafka.tools.consumer.group.ShareGroupCommand";
pub const CONSUMER_PERFORMANCE: &str = "org.apache.kafka.tools.ConsumerPerformance";
pub const SHARE_CONSUMER_PERFORMANCE: &str = "org.apache.kafka.tools.ShareConsumerPerformance";

/// The version that tests and benchmarks run on.
pub const KAFKA_VERSION: &str = "4.4.0";

const LIBS_VARIABLE: &str = "SLUICE_TEST_KAFKA_LIBS";

const CLIENT_VERSION: &str = "4.0.5";
const CLIENT_LIBS_VARIABLE: &str = "SLUICE_TEST_CONNECT_CLIENT_LIBS";
const CLIENT_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/connect-client/Ask.java");

/// The folder of Kafka's jars.
///
/// # Errors
/// If it is missing.
pub fn kafka_libs() -> Result<PathBuf> {
    let folder = format!("kafka-{KAFKA_VERSION}");
    let jar = format!("kafka-tools-{KAFKA_VERSION}.jar");
    fetched_libs(LIBS_VARIABLE, &folder, &jar)
}

/// The folder of jars that a variable names or the script `test` has fetched,
/// if that jar is in it.
fn fetched_libs(variable: &str, folder: &str, jar: &str) -> Result<PathBuf> {
    let libs = match std::env::var_os(variable) {
        Some(libs) => PathBuf::from(libs),
        None => std::env::home_dir()
            .context("there is no home directory")?
            .join(format!(".cache/sluice/{folder}/libs")),
    };
    if !libs.join(jar).is_file() {
        bail!(
            "no {jar} in {}: run `./test setup`, or name the folder of the jars in {variable}",
            libs.display()
        );
    }
    Ok(libs)
}

/// Asks a worker about a connector, and restarts it, by a client that was
/// written for Kafka Connect; returns its lines of `what=answer`.
///
/// # Errors
/// If there are no jars, or the client cannot make anything of an answer.
pub async fn ask_as_connects_client(url: &str, connector: &str) -> Result<String> {
    let folder = format!("connect-client-{CLIENT_VERSION}");
    let jar = format!("kafka-connect-client-{CLIENT_VERSION}.jar");
    let libs = fetched_libs(CLIENT_LIBS_VARIABLE, &folder, &jar)?;
    let mut command = Command::new("java");
    command.arg("-Xmx256m").arg("-cp").arg(libs.join("*"));
    command.args([CLIENT_SOURCE, url, connector]);
    run(command, "Connect's client").await
}

/// A command that runs `class`, the JVM given `jvm_options` and warnings
/// written to standard error.
///
/// # Errors
/// If there are no jars.
pub fn java(class: &str, jvm_options: &[String]) -> Result<Command> {
    let mut command = Command::new("java");
    command
        .args(jvm_options)
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        .arg("-Dorg.slf4j.simpleLogger.showDateTime=true")
        .arg("-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS")
        .arg("-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info")
        .arg("-cp")
        .arg(kafka_libs()?.join("*"))
        .arg(class);
    Ok(command)
}

/// Runs one of Kafka's tools to its end and returns what it printed. Dropping
/// the future kills the tool.
///
/// # Errors
/// If it cannot be started or fails; then with what it said.
pub async fn run_tool(class: &str, arguments: &[&str]) -> Result<String> {
    let mut command = java(class, &["-Xmx512m".to_owned()])?;
    command.args(arguments);
    run(command, class).await
}

async fn run(mut command: Command, what: &str) -> Result<String> {
    command.stdin(Stdio::null());
    let output = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot start java for {what}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{what} ended with {}: {printed}{complaint}", output.status);
    }
    Ok(printed)
}

/// One line of figures as `ConsumerPerformance` and `ShareConsumerPerformance`
/// print it, by column name (`fetch.nMsg.sec`).
#[derive(Debug, Clone, PartialEq)]
pub struct Figures(BTreeMap<String, String>);

impl Figures {
    /// Reads a header line and the last line below it that has as many columns.
    ///
    /// # Errors
    /// If there is no such pair of lines.
    pub fn parse(printed: &str) -> Result<Self> {
        let columns = |line: &str| -> Vec<String> {
            line.split(',')
                .map(|column| column.trim().to_owned())
                .collect()
        };
        let mut lines = printed.lines();
        let header = lines
            .find(|line| line.starts_with("start.time"))
            .map(columns)
            .with_context(|| format!("no header of figures in: {printed}"))?;
        let values = lines
            .map(columns)
            .rfind(|values| values.len() == header.len())
            .with_context(|| format!("no figures below the header in: {printed}"))?;
        Ok(Self(header.into_iter().zip(values).collect()))
    }

    /// The number in `column`.
    ///
    /// # Errors
    /// If there is no such column or no number in it.
    pub fn number(&self, column: &str) -> Result<f64> {
        let text = self
            .0
            .get(column)
            .with_context(|| format!("no column {column} in {:?}", self.0.keys()))?;
        text.parse()
            .with_context(|| format!("column {column} has no number but {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
WARN something first
start.time, end.time, data.consumed.in.MB, fetch.nMsg.sec
2026-11-30 05:20:14:000, 2026-11-30 05:20:15:000, 95.3674, 1180000.5
";

    #[test]
    fn figures_are_found_by_column_name() {
        let figures = Figures::parse(PRINTED).unwrap();
        assert!((figures.number("fetch.nMsg.sec").unwrap() - 1_180_000.5).abs() < 1e-9);
    }

    #[test]
    fn a_missing_column_and_a_text_are_told_by_name() {
        let figures = Figures::parse(PRINTED).unwrap();
        let missing = figures.number("nothing").unwrap_err().to_string();
        assert!(missing.contains("no column nothing"), "{missing}");
        let text = figures.number("start.time").unwrap_err().to_string();
        assert!(text.contains("start.time"), "{text}");
    }

    #[test]
    fn output_without_figures_is_an_error() {
        Figures::parse("no brokers available\n").unwrap_err();
        Figures::parse("start.time, end.time\n").unwrap_err();
    }
}
