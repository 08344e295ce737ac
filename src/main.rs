//! The program: command line in, exit code out.

use std::process::ExitCode;

use sluice::app::{Worker, plugin_tables, plugins};
use sluice::cli::{Surroundings, execute};
use sluice::config::env::Environment;

fn main() -> ExitCode {
    let surroundings = Surroundings {
        environment: Environment::of_process(),
        plugins: plugins(),
        plugin_list: sluice::plugins::all(),
        plugin_tables: plugin_tables(),
        out: &mut std::io::stdout(),
        err: &mut std::io::stderr(),
    };
    execute(std::env::args_os(), surroundings, &Worker).into()
}
