//! Sluice measured on a real broker. Compare ratios within one run, not rates:
//! the machine may be shared.

mod idle;
mod machine;
mod output;
mod peers;
mod report;
mod sleepers;
mod sluice;
mod tasks;
mod throughput;
mod traces;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The null sink through all actors, in turns with Kafka's own consumers.
    Throughput(throughput::Options),
    /// Tasks that take their time with each record, beside what they could do
    /// at most.
    Tasks(tasks::Options),
    /// What tracing costs: off, and with a part of the records sampled.
    Traces(traces::Options),
}

#[tokio::main]
async fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Throughput(options) => throughput::run(&options).await,
        Command::Tasks(options) => tasks::run(&options).await,
        Command::Traces(options) => traces::run(&options).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rounds_no_partitions_and_no_tasks_are_refused() {
        for wrong in [
            ["throughput", "--rounds=0"],
            ["throughput", "--partitions=0"],
            ["tasks", "--tasks=0"],
            ["traces", "--rounds=0"],
        ] {
            let arguments = ["bench", wrong[0], "--binary=sluice", wrong[1]];
            Cli::try_parse_from(arguments).unwrap_err();
        }
    }
}
