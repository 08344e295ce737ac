//! Sluice measured on a real broker, beside what a user would pick instead.
//! Compare ratios within one run, not rates: the machine may be shared.

mod contestants;
mod figures;
mod fill;
mod idle;
mod json;
mod machine;
mod mixed;
mod noop;
mod output;
mod recovery;
mod report;
mod scaling;
mod sleepers;
mod start;
mod tasks;
mod traces;

use std::fs::create_dir_all;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::output::{print, write};

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The worker to measure.
    #[arg(long, global = true, default_value = "sluice")]
    binary: PathBuf,
    /// Writes what is printed, figures as JSON, and plots into this folder.
    #[arg(long, global = true, value_name = "FOLDER")]
    into: Option<PathBuf>,
    /// Fails when a goal is missed by more than this part of it.
    #[arg(long, global = true, value_name = "PART")]
    slack: Option<f64>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A sink that does nothing, beside Kafka Connect and Kafka's own consumers.
    Noop(noop::Options),
    /// JSON, two transforms and a Kafka sink, beside Kafka Connect.
    Json(json::Options),
    /// Tasks that take their time with each record, beside what they could do
    /// at most.
    Tasks(tasks::Options),
    /// For the other commands: krafka's share consumer, as a program.
    #[command(hide = true, name = contestants::krafka::COMMAND)]
    Krafka(contestants::krafka::Options),
    /// Slow records among fast ones.
    Mixed(mixed::Options),
    /// More workers in one share group.
    Scaling(scaling::Options),
    /// A worker killed or frozen with records in flight.
    Recovery(recovery::Options),
    /// From the process' start to the first delivery, beside Kafka Connect.
    Start(start::Options),
    /// A worker with next to nothing to do, and one with many idle tasks.
    Idle(idle::Options),
    /// What tracing costs: off, and with a part of the records sampled.
    Traces(traces::Options),
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let binary = &cli.binary;
    let section = match &cli.command {
        Command::Noop(options) => noop::run(options, binary).await?,
        Command::Json(options) => json::run(options, binary).await?,
        Command::Krafka(options) => return contestants::krafka::run(options).await,
        Command::Tasks(options) => tasks::run(options, binary).await?,
        Command::Mixed(options) => mixed::run(options, binary).await?,
        Command::Scaling(options) => scaling::run(options, binary).await?,
        Command::Recovery(options) => recovery::run(options, binary).await?,
        Command::Start(options) => start::run(options, binary).await?,
        Command::Idle(options) => idle::run(options, binary).await?,
        Command::Traces(options) => traces::run(options, binary).await?,
    };
    print(&section.markdown("plots"));
    if let Some(folder) = &cli.into {
        create_dir_all(folder.join("plots"))?;
        let file = folder.join(section.key);
        write(&file.with_extension("md"), &section.markdown("plots"))?;
        write(
            &file.with_extension("json"),
            &format!("{:#}\n", section.json()),
        )?;
        section.write_plots(&folder.join("plots"))?;
    }
    cli.slack.map_or(Ok(()), |slack| section.judge(slack))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rounds_no_partitions_and_no_tasks_are_refused() {
        for wrong in [
            ["noop", "--rounds=0"],
            ["noop", "--partitions=0"],
            ["tasks", "--records-per-task=0"],
            ["mixed", "--tasks=0"],
            ["scaling", "--tasks=0"],
            ["recovery", "--kills=0"],
            ["start", "--rounds=0"],
            ["idle", "--connectors=0"],
            ["traces", "--rounds=0"],
        ] {
            let arguments = ["bench", wrong[0], wrong[1]];
            Cli::try_parse_from(arguments).unwrap_err();
        }
    }
}
