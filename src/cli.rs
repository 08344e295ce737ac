//! The command line.
//!
//! Exit codes, as `sysexits.h` has them: 0 fine, 64 bad configuration or
//! command line, 69 something needed is not available, 70 internal error, 75
//! stopped at the deadline before all was settled; 130 ended by a second signal.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};

use crate::config::check;
use crate::config::env::Environment;
use crate::config::load::{Configuration, Loaded, Places, load};
use crate::config::plugins::Plugins;
use crate::config::reference::{self, Table};
use crate::config::secrets::address;
use crate::kafka::embedded::EmbeddedBroker;
use crate::plugins::{self, Plugin};
use crate::telemetry::reference as metrics_reference;

mod ask;
mod status;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Fine = 0,
    BadConfiguration = 64,
    Unavailable = 69,
    /// Also: something has failed that `status` asked for.
    Internal = 70,
    /// Stopped at its deadline with work unfinished; some records come again.
    Unfinished = 75,
    /// A second signal ended it before it had drained.
    Interrupted = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Kafka sink connectors on share groups.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, about)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the worker and its connectors.
    Run(RunArgs),
    /// Shows Sluice at work on a broker of its own: no Kafka is needed.
    Demo(DemoOptions),
    /// Shows the configuration in effect, or all that is wrong with it.
    Check(PlaceArgs),
    /// Carries a connector's positions over to its share group, or back.
    Migrate(MigrateArgs),
    /// Asks a worker what its connectors do. Ends with 69 if it does not answer,
    /// with 70 if a connector or a task has failed.
    Status(StatusArgs),
    /// Asks a worker whether it is ready. Ends with 69 if it is not, or does not
    /// answer: the health check of a container.
    Health(WorkerArgs),
    /// Lists sinks, converters, transforms and predicates by their names.
    Plugins(PluginsArgs),
    /// Prints all keys (type, default, meaning), or all metrics.
    Reference(ReferenceArgs),
}

#[derive(Args, Debug)]
struct RunArgs {
    #[command(flatten)]
    places: PlaceArgs,
    /// Takes a broker inside this process for bootstrap.servers. It is no
    /// Kafka and keeps nothing: for trying out only.
    #[arg(long)]
    embedded_broker: bool,
}

/// How large the demo is.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemoOptions {
    /// How many orders are written.
    #[arg(long, default_value_t = 20_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub records: u32,
    /// How many tasks deliver them.
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u32).range(1..=1000))]
    pub tasks: u32,
    /// About how long it takes; the sink is as slow as that.
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u32).range(1..=600))]
    pub seconds: u32,
}

#[derive(Args)]
struct PlaceArgs {
    /// The worker's file (.properties or .json).
    #[arg(value_name = "WORKER_FILE", conflicts_with = "worker_option")]
    worker: Option<PathBuf>,
    /// The worker's file, by name.
    #[arg(id = "worker_option", long = "worker", value_name = "WORKER_FILE")]
    worker_option: Option<PathBuf>,
    #[command(flatten)]
    others: OtherPlaceArgs,
}

#[derive(Args)]
struct OtherPlaceArgs {
    /// A connector's file (.json or .properties); may be given again.
    #[arg(long = "connector", value_name = "FILE")]
    connectors: Vec<PathBuf>,
    /// A setting of the worker (key=value) or of a connector
    /// (CONNECTOR:key=value) that wins over all others; may be given again.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Args, Debug)]
struct MigrateArgs {
    /// The connector.
    name: String,
    /// Where its positions go.
    #[arg(long)]
    to: MigrationTarget,
    /// Only shows what would be set.
    #[arg(long)]
    dry_run: bool,
    /// The worker's file (.properties or .json).
    #[arg(long = "worker", value_name = "WORKER_FILE")]
    worker: Option<PathBuf>,
    #[command(flatten)]
    others: OtherPlaceArgs,
}

#[derive(Args, Debug)]
struct StatusArgs {
    /// The connector; all of them if none is given.
    name: Option<String>,
    #[command(flatten)]
    worker: WorkerArgs,
    /// As JSON, in the form of Connect's GET /connectors?expand=status.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct WorkerArgs {
    /// Where the worker's REST is. By default where SLUICE_LISTENERS has it, or
    /// at http://127.0.0.1:8083.
    #[arg(long)]
    url: Option<String>,
}

impl WorkerArgs {
    fn url(self, environment: &Environment) -> String {
        self.url.unwrap_or_else(|| ask::url_of(environment))
    }
}

#[derive(Args, Debug)]
struct PluginsArgs {
    /// As JSON, in the form of Connect's GET /connector-plugins.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct ReferenceArgs {
    #[arg(value_enum, default_value_t = ReferenceOf::Configuration)]
    of: ReferenceOf,
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReferenceOf {
    Configuration,
    Metrics,
}

/// The kind of group that takes the positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MigrationTarget {
    /// The share group, from Connect's group.
    Share,
    /// Connect's group, from the share group. Records that the share group has
    /// finished beyond its start offsets come again.
    Consumer,
}

/// What `migrate` is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationOrder {
    /// One of the configuration's.
    pub connector: String,
    pub to: MigrationTarget,
    /// Only show what would be set.
    pub dry_run: bool,
}

/// `--set` may hold a secret.
impl std::fmt::Debug for PlaceArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let worker = self.worker.as_ref().or(self.worker_option.as_ref());
        f.debug_struct("PlaceArgs")
            .field("worker", &worker)
            .field("others", &self.others)
            .finish()
    }
}

impl std::fmt::Debug for OtherPlaceArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OtherPlaceArgs")
            .field("connectors", &self.connectors)
            .finish_non_exhaustive()
    }
}

impl PlaceArgs {
    fn places(self, environment: Environment) -> Places {
        self.others
            .places(self.worker.or(self.worker_option), environment)
    }
}

impl OtherPlaceArgs {
    fn places(self, worker_file: Option<PathBuf>, environment: Environment) -> Places {
        Places {
            worker_file,
            connector_files: self.connectors,
            environment,
            set: self.set,
        }
    }
}

/// What the commands do once the configuration is sound.
pub trait App {
    /// Runs until it is told to stop; on this broker, if there is one.
    fn run(&self, configuration: Configuration, broker: Option<EmbeddedBroker>) -> Exit;

    /// Shows itself on a broker of its own.
    fn demo(&self, options: DemoOptions) -> Exit;

    /// Carries the positions of one connector over.
    fn migrate(&self, configuration: Configuration, order: &MigrationOrder) -> Exit;
}

/// The process's surroundings, passed in so that tests need no process.
pub struct Surroundings<'a> {
    pub environment: Environment,
    pub plugins: Plugins,
    /// Their names, for the list.
    pub plugin_list: Vec<Plugin>,
    /// Their tables, for the reference.
    pub plugin_tables: Vec<Table>,
    pub out: &'a mut dyn Write,
    pub err: &'a mut dyn Write,
}

/// Runs the command that the arguments name, program name first.
pub fn execute(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    surroundings: Surroundings<'_>,
    app: &dyn App,
) -> Exit {
    let mut session = Session { surroundings };
    match CommandLine::try_parse_from(arguments) {
        Ok(line) => session
            .dispatch(line.command, app)
            .unwrap_or(Exit::Internal),
        // Help and version are asked for in the same way.
        Err(error) if !error.use_stderr() => {
            let _ = write!(session.surroundings.out, "{error}");
            Exit::Fine
        }
        Err(error) => {
            let _ = write!(session.surroundings.err, "{error}");
            Exit::BadConfiguration
        }
    }
}

struct Session<'a> {
    surroundings: Surroundings<'a>,
}

impl Session<'_> {
    fn dispatch(&mut self, command: Command, app: &dyn App) -> io::Result<Exit> {
        let environment = self.surroundings.environment.clone();
        match command {
            Command::Run(args) => self.run(args, environment, app),
            Command::Demo(options) => Ok(app.demo(options)),
            Command::Check(args) => {
                let Some(loaded) = self.load(&args.places(environment))? else {
                    return Ok(Exit::BadConfiguration);
                };
                check::print_effective(&loaded, self.surroundings.out)?;
                Ok(Exit::Fine)
            }
            Command::Migrate(args) => self.migrate(args, environment, app),
            Command::Plugins(args) => {
                let print = if args.json {
                    plugins::print_json
                } else {
                    plugins::print_table
                };
                print(&self.surroundings.plugin_list, self.surroundings.out)?;
                Ok(Exit::Fine)
            }
            Command::Status(args) => self.status(args, &environment),
            Command::Health(args) => self.health(&args.url(&environment)),
            Command::Reference(ReferenceArgs {
                of: ReferenceOf::Metrics,
            }) => {
                metrics_reference::print(self.surroundings.out)?;
                Ok(Exit::Fine)
            }
            Command::Reference(ReferenceArgs {
                of: ReferenceOf::Configuration,
            }) => {
                let tables = reference::TABLES.iter();
                let tables = tables.chain(&self.surroundings.plugin_tables);
                reference::print(tables, self.surroundings.out)?;
                Ok(Exit::Fine)
            }
        }
    }

    fn status(&mut self, args: StatusArgs, environment: &Environment) -> io::Result<Exit> {
        let url = args.worker.url(environment);
        let statuses = match ask::statuses(&url) {
            Ok(statuses) => statuses,
            Err(error) => {
                writeln!(self.surroundings.err, "{error}")?;
                return Ok(Exit::Unavailable);
            }
        };
        let Some(statuses) = status::of(statuses, args.name.as_deref()) else {
            let name = args.name.as_deref().unwrap_or_default();
            writeln!(
                self.surroundings.err,
                "the worker at {} has no connector {name:?}",
                address(&url)
            )?;
            return Ok(Exit::BadConfiguration);
        };
        if args.json {
            status::print_json(&statuses, self.surroundings.out)?;
        } else {
            status::print_table(&statuses, self.surroundings.out)?;
        }
        Ok(match status::has_failed(&statuses) {
            true => Exit::Internal,
            false => Exit::Fine,
        })
    }

    fn health(&mut self, url: &str) -> io::Result<Exit> {
        let (is_ready, words) = match ask::readiness(url) {
            Ok(readiness) => readiness,
            Err(error) => (false, error.to_string()),
        };
        if is_ready {
            writeln!(self.surroundings.out, "{words}")?;
            return Ok(Exit::Fine);
        }
        writeln!(self.surroundings.err, "{words}")?;
        Ok(Exit::Unavailable)
    }

    fn run(&mut self, args: RunArgs, environment: Environment, app: &dyn App) -> io::Result<Exit> {
        let mut places = args.places.places(environment);
        let mut broker = None;
        if args.embedded_broker {
            match EmbeddedBroker::start() {
                Ok(started) => {
                    let servers = started.bootstrap_servers();
                    places.set.push(format!("bootstrap.servers={servers}"));
                    broker = Some(started);
                }
                Err(error) => {
                    writeln!(self.surroundings.err, "--embedded-broker: {error}")?;
                    return Ok(Exit::Unavailable);
                }
            }
        }
        let configuration = self.load(&places)?.and_then(Loaded::sound);
        Ok(configuration.map_or(Exit::BadConfiguration, |it| app.run(it, broker)))
    }

    fn migrate(
        &mut self,
        args: MigrateArgs,
        environment: Environment,
        app: &dyn App,
    ) -> io::Result<Exit> {
        let places = args.others.places(args.worker, environment);
        let Some(configuration) = self.load(&places)?.and_then(Loaded::sound) else {
            return Ok(Exit::BadConfiguration);
        };
        if !configuration
            .connectors
            .iter()
            .any(|it| it.name == args.name)
        {
            writeln!(
                self.surroundings.err,
                "there is no connector {:?}; give its file with --connector",
                args.name
            )?;
            return Ok(Exit::BadConfiguration);
        }
        let order = MigrationOrder {
            connector: args.name,
            to: args.to,
            dry_run: args.dry_run,
        };
        Ok(app.migrate(configuration, &order))
    }

    /// What was loaded if it is sound; otherwise its faults are told.
    fn load(&mut self, places: &Places) -> io::Result<Option<Loaded>> {
        match load(places, &self.surroundings.plugins) {
            Ok(loaded) if loaded.is_sound() => Ok(Some(loaded)),
            Ok(loaded) => {
                check::print_faults(&loaded, self.surroundings.err)?;
                Ok(None)
            }
            Err(error) => {
                writeln!(self.surroundings.err, "{error}")?;
                Ok(None)
            }
        }
    }
}
