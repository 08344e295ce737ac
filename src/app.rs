//! The worker: configuration to threads, connectors and an orderly end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_actors::live_view::LiveView;
use sluice_actors::threads::Threads;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Duration, Instant, interval};

use crate::cli::{App, DemoOptions, Exit, MigrationOrder, MigrationTarget};
use crate::config::connector::Topics;
use crate::config::load::Configuration;
use crate::config::plugins::Plugins;
use crate::config::reference::Table;
use crate::config::worker::WorkerConfig;
use crate::connectors::{Manager, migrate};
use crate::converters::part::Part;
use crate::kafka::admin::Direction;
use crate::kafka::embedded::EmbeddedBroker;
use crate::rest::{Connectors, Rest, Server};
use crate::telemetry::loggers::Loggers;
use crate::telemetry::push::Push;
use crate::telemetry::rates::Rates;
use crate::telemetry::traces::Traces;
use crate::telemetry::{logs, status_log};
use crate::{converters, demo, sinks, transforms};

/// How often it is looked whether any connector could still run.
const FAILURE_TICK: Duration = Duration::from_millis(100);

/// What the last spans and metrics get when the drain has taken all of its time.
const LEAST_FLUSH: Duration = Duration::from_millis(200);

/// Of each topic that a connector names, on the embedded broker.
const EMBEDDED_PARTITIONS: i32 = 12;

/// The plugins that this program has.
#[must_use]
pub fn plugins() -> Plugins {
    Plugins {
        sink_keys: sinks::registry::keys,
        sink_produces: sinks::registry::produces,
        check_sink: |class, properties, producer, faults| {
            sinks::registry::factory(class, properties, producer, faults);
        },
        converter_keys: |_, class| converters::registry::keys(class),
        check_converter: |part, class, properties, faults| match part {
            Part::Header => {
                converters::registry::header_converter(class, properties, faults);
            }
            Part::Key | Part::Value => {
                converters::registry::converter(class, part, properties, faults);
            }
        },
        aliased_keys: transforms::registry::keys,
        check_aliased: transforms::registry::check,
    }
}

/// Their keys, for the reference.
#[must_use]
pub fn plugin_tables() -> Vec<Table> {
    let mut tables = sinks::registry::tables();
    tables.extend(converters::registry::tables());
    tables.extend(transforms::registry::tables());
    tables
}

/// What the commands do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Worker;

impl App for Worker {
    fn run(&self, configuration: Configuration, broker: Option<EmbeddedBroker>) -> Exit {
        let loggers = logs::start(&configuration.worker.log);
        if let Some(broker) = &broker {
            announce(broker, &configuration);
        }
        let run = on_threads(async |runtime| {
            let for_ever = async |_| std::future::pending::<()>().await;
            run_until(configuration, loggers, runtime, for_ever).await.0
        });
        run.unwrap_or_else(|error| no_threads(&error))
    }

    fn demo(&self, options: DemoOptions) -> Exit {
        demo::run(options)
    }

    fn migrate(&self, configuration: Configuration, order: &MigrationOrder) -> Exit {
        logs::start(&configuration.worker.log);
        let connector = &*order.connector;
        let Some(config) = configuration
            .connectors
            .iter()
            .find(|it| it.name == connector)
        else {
            return Exit::BadConfiguration;
        };
        let direction = match order.to {
            MigrationTarget::Share => Direction::ToShare,
            MigrationTarget::Consumer => Direction::ToConsumer,
        };
        let migration = migrate(config, direction, order.dry_run);
        match runtime().map(|runtime| runtime.block_on(migration)) {
            Ok(Ok(report)) => {
                #[allow(clippy::print_stdout, reason = "the command's answer")]
                {
                    println!("{report}");
                }
                Exit::Fine
            }
            Ok(Err(error)) => {
                tracing::error!(connector, %error, "positions were not carried over");
                Exit::Unavailable
            }
            Err(error) => no_threads(&error),
        }
    }
}

fn no_threads(error: &io::Error) -> Exit {
    tracing::error!(%error, "cannot start threads");
    Exit::Internal
}

/// Says what the embedded broker is not, and makes the connectors' topics.
fn announce(broker: &EmbeddedBroker, configuration: &Configuration) {
    let bootstrap_servers = broker.bootstrap_servers();
    tracing::warn!(
        bootstrap_servers,
        "the embedded broker is no Kafka and keeps nothing: for trying out only"
    );
    for connector in &configuration.connectors {
        if let Topics::Named(topics) = &connector.topics {
            for topic in topics {
                broker.create_topic(topic, EMBEDDED_PARTITIONS);
                let connector = &*connector.name;
                let partitions = EMBEDDED_PARTITIONS;
                tracing::info!(connector, topic, partitions, "topic is there");
            }
        }
    }
}

/// Gives `work` the threads of a worker, and takes them away after it.
pub(crate) fn on_threads<T>(work: impl AsyncFnOnce(&Runtime) -> T) -> io::Result<T> {
    let runtime = runtime()?;
    let done = actix::System::new().block_on(work(&runtime));
    // A sink's thread that is stuck must not keep the process.
    runtime.shutdown_background();
    Ok(done)
}

/// The threads of the Kafka client: fetching, decoding, heartbeats.
fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(num_threads().max(2))
        .thread_name("sluice-io")
        .enable_all()
        .build()
}

fn num_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs until a signal, until no connector can run any more, or until
/// `enough` ends; its answer is there in that case only. The list of what
/// happens at the end stands in `docs/architecture.md`.
pub(crate) async fn run_until<T>(
    configuration: Configuration,
    loggers: Loggers,
    runtime: &Runtime,
    enough: impl AsyncFnOnce(Arc<LiveView>) -> T,
) -> (Exit, Option<T>) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        tracing::error!("cannot listen for signals");
        return (Exit::Internal, None);
    };
    for note in &configuration.notes {
        match &note.connector {
            Some(connector) => tracing::info!(connector, "{note}"),
            None => tracing::info!("{note}"),
        }
    }
    let view = LiveView::new();
    let threads = Threads::start(num_threads().saturating_sub(1));
    let worker = configuration.worker.admin.client_id.clone();
    let (traces, push) = match start_exports(&configuration.worker, runtime) {
        Ok(exports) => exports,
        Err(error) => {
            tracing::error!(
                error,
                "traces or metrics cannot be exported; see otel.exporter.otlp.endpoint"
            );
            return (Exit::BadConfiguration, None);
        }
    };
    let manager = Arc::new(Manager::new(
        worker,
        runtime.handle().clone(),
        threads.clone(),
        Arc::clone(&view),
        configuration.worker.shutdown_timeout,
        traces.clone(),
    ));
    let server = match Server::bind(&configuration.worker.listeners).await {
        Ok(server) => server,
        Err(error) => {
            tracing::error!("{error}");
            return (Exit::Unavailable, None);
        }
    };
    if configuration.connectors.is_empty() {
        tracing::error!("no connector is configured; give one with --connector FILE");
        return (Exit::BadConfiguration, None);
    }
    for connector in configuration.connectors {
        manager.start(connector);
    }
    if let Some(interval) = configuration.worker.log.status_interval {
        runtime.spawn(status_log::run(Arc::clone(&view), interval));
    }
    let worker = Arc::new(configuration.worker);
    let told = Told {
        view: Arc::clone(&view),
        loggers,
        traces: traces.clone(),
    };
    let rest = serve(server, Arc::clone(&worker), told, &manager, runtime);
    push.observe(move || rest.worker_sight());
    let enough = enough(Arc::clone(&view));
    let stop = wait(&manager, &mut terminate, &mut interrupt, enough).await;
    if let Stop::Signal(name) = &stop {
        tracing::info!(signal = name, "draining");
    }
    let ends_by = Instant::now() + worker.shutdown_timeout;
    let exit = if matches!(stop, Stop::Failed) {
        tracing::error!("no connector could start, stopping");
        Exit::Unavailable
    } else {
        tokio::select! {
            clean = manager.drain(worker.shutdown_timeout) => {
                tracing::info!(clean, "stopped");
                if clean { Exit::Fine } else { Exit::Unfinished }
            }
            () = signalled(&mut terminate, &mut interrupt) => second_signal(),
        }
    };
    let answer = match stop {
        Stop::Failed | Stop::Signal(_) => None,
        Stop::Enough(answer) => Some(answer),
    };
    if exit != Exit::Interrupted {
        let left = ends_by.saturating_duration_since(Instant::now());
        let left = left.max(LEAST_FLUSH);
        let flushed = async { tokio::join!(traces.shut_down(left), push.shut_down(left)) };
        tokio::select! {
            _ = flushed => {}
            () = signalled(&mut terminate, &mut interrupt) => {
                tracing::warn!("signal, the last spans and metrics are not waited for");
            }
        }
    }
    threads.stop();
    (exit, answer)
}

/// What goes to a collector of OpenTelemetry's. An error says what to mend.
fn start_exports(worker: &WorkerConfig, runtime: &Runtime) -> Result<(Traces, Push), String> {
    let _in_runtime = runtime.enter();
    let traces = Traces::start(worker.traces.as_ref())?;
    Ok((traces, Push::start(worker.pushed_metrics.as_ref())?))
}

/// What is told of a worker, and how much.
struct Told {
    view: Arc<LiveView>,
    loggers: Loggers,
    traces: Traces,
}

/// REST and metrics, on the I/O threads.
fn serve(
    server: Server,
    worker: Arc<WorkerConfig>,
    told: Told,
    manager: &Arc<Manager>,
    runtime: &Runtime,
) -> Rest {
    let rates = Arc::new(Rates::default());
    runtime.spawn(Arc::clone(&rates).run(Arc::clone(&told.view)));
    let addresses = server.addresses();
    for address in &addresses {
        tracing::info!(url = %format_args!("http://{address}"), "REST listens");
    }
    let connectors: Arc<dyn Connectors> = Arc::clone(manager) as Arc<dyn Connectors>;
    let rest = Rest {
        connectors,
        view: told.view,
        rates,
        plugins: crate::plugins::all().into(),
        worker,
        checks: plugins(),
        loggers: told.loggers,
        worker_id: worker_id(addresses.first()).into(),
        traces: Arc::clone(told.traces.figures()),
        requests: told.traces.requests(),
    };
    server.serve(&rest, runtime.handle());
    rest
}

/// `host:port`, as Connect names its workers; by the machine's name if it
/// listens on all interfaces.
fn worker_id(address: Option<&SocketAddr>) -> String {
    let machine = || {
        let name = rustix::system::uname();
        name.nodename().to_string_lossy().into_owned()
    };
    match address {
        Some(address) if address.ip().is_unspecified() => {
            format!("{}:{}", machine(), address.port())
        }
        Some(address) => address.to_string(),
        None => machine(),
    }
}

async fn signalled(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

fn second_signal() -> Exit {
    tracing::warn!("second signal, stopped without draining; open records come again");
    Exit::Interrupted
}

enum Stop<T> {
    Signal(&'static str),
    Failed,
    Enough(T),
}

async fn wait<T>(
    manager: &Manager,
    terminate: &mut Signal,
    interrupt: &mut Signal,
    enough: impl Future<Output = T>,
) -> Stop<T> {
    let mut enough = std::pin::pin!(enough);
    let mut ticks = interval(FAILURE_TICK);
    loop {
        tokio::select! {
            _ = terminate.recv() => return Stop::Signal("SIGTERM"),
            _ = interrupt.recv() => return Stop::Signal("SIGINT"),
            answer = &mut enough => return Stop::Enough(answer),
            _ = ticks.tick() => {
                if manager.has_failed() {
                    return Stop::Failed;
                }
            }
        }
    }
}
