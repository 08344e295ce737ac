//! The demo from its first line to its last:
//!
//! 1. start the embedded broker, write the orders;
//! 2. run a worker as `sluice run` does, its sink slow, dying and refusing now
//!    and then by plan;
//! 3. show progress until the broker is done with all orders, or until Ctrl-C;
//! 4. drain, and count what lies in the sink's file.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use config::ConfigError;
use krafka::error::KrafkaError;
use krafka::producer::DeliveryHandle;
use krafka::{Kafka, Record};
use sluice_actors::live_view::LiveView;

use super::orders::Orders;
use super::plan::{GROUP, PARTITIONS, Plan, TOPIC};
use super::progress::Progress;
use super::tally::Tally;
use super::watch::{Ended, watch};
use crate::app::{on_threads, plugins, run_until};
use crate::cli::{DemoOptions, Exit};
use crate::config::env::Environment;
use crate::config::load::{Configuration, Loaded, Places, load};
use crate::kafka::embedded::{EmbeddedBroker, EmbeddedBrokerError};
use crate::telemetry::logs;

const BATCH_BYTES: usize = 4096;

/// What may keep the demo from a tally.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error(transparent)]
    Broker(#[from] EmbeddedBrokerError),
    #[error("cannot write the orders: {0}")]
    Writing(#[from] KrafkaError),
    #[error("the demo's own configuration is refused: {0}")]
    Configuration(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<ConfigError> for DemoError {
    fn from(error: ConfigError) -> Self {
        Self::Configuration(error.to_string())
    }
}

/// Runs the demo. It is fine if no order was lost; and, unless it was
/// interrupted, if the worker was done with all of them.
pub fn run(options: DemoOptions) -> Exit {
    let in_place = io::stdout().is_terminal();
    match show(options, &mut io::stdout(), in_place) {
        Ok(exit) => exit,
        Err(error) => {
            // Standard output may be what failed; there is nowhere else to tell.
            let _ = writeln!(io::stderr(), "demo: {error}");
            match error {
                DemoError::Broker(_) => Exit::Unavailable,
                _ => Exit::Internal,
            }
        }
    }
}

fn show(options: DemoOptions, out: &mut dyn Write, in_place: bool) -> Result<Exit, DemoError> {
    let plan = Plan::of(options);
    let orders = Orders::new(plan.records);
    let broker = EmbeddedBroker::start()?;
    let folder = tempfile::Builder::new().prefix("sluice-demo-").tempdir()?;
    let arrived = folder.path().join("arrived.ndjson");
    let configuration = configuration(plan, &broker, &arrived)?;
    let loggers = logs::start(&configuration.worker.log);
    hush_planned_deaths();

    broker.create_topic(TOPIC, PARTITIONS as i32);
    let (places, exit, ended) = on_threads(async |runtime| {
        let places = write(&orders, &broker).await?;
        introduce(plan, out)?;
        let progress = Progress::new(out, in_place);
        let watch = async |view: Arc<LiveView>| watch(&view, &broker, plan.records, progress).await;
        let (exit, ended) = run_until(configuration, loggers, runtime, watch).await;
        Ok::<_, DemoError>((places, exit, ended))
    })??;
    let ended = ended.transpose()?.unwrap_or(Ended::Interrupted);

    let settled = broker.settled(GROUP, TOPIC);
    let tally = Tally::count(&orders, &read(&arrived)?, |number| {
        let place = places[number as usize];
        let partition = settled.get(place.partition);
        partition.is_some_and(|it| it.contains(place.offset))
    });
    conclude(&tally, &ended, out)?;
    Ok(verdict(&tally, &ended, exit))
}

/// As `sluice run` would load it, from the demo's own words alone.
fn configuration(
    plan: Plan,
    broker: &EmbeddedBroker,
    record_file: &Path,
) -> Result<Configuration, DemoError> {
    let connector = plan.connector(record_file).to_string();
    let variables = BTreeMap::from([("SLUICE_SINK_DEMO_JSON".to_owned(), connector)]);
    let places = Places {
        environment: Environment::of(variables),
        set: vec![
            format!("bootstrap.servers={}", broker.bootstrap_servers()),
            // Warnings would say what the demo does on purpose.
            "log.level=error".to_owned(),
            "status.log.interval.ms=0".to_owned(),
            // A worker of the reader's own may have the port.
            "listeners=".to_owned(),
        ],
        ..Places::default()
    };
    let loaded = load(&places, &plugins())?;
    let faults = faults(&loaded);
    loaded.sound().ok_or(DemoError::Configuration(faults))
}

fn faults(loaded: &Loaded) -> String {
    let connectors = loaded.connectors.iter().map(|it| &it.faults);
    let all = std::iter::once(&loaded.worker.faults).chain(connectors);
    all.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Tasks that die by plan are counted, not told; other panics are told.
fn hush_planned_deaths() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or_default();
        if !text.ends_with("matches panic.match") {
            tell(panic);
        }
    }));
}

/// Where an order lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    partition: usize,
    offset: i64,
}

/// Writes all orders, and tells where each one lies. Done when the broker has
/// confirmed them.
async fn write(orders: &Orders, broker: &EmbeddedBroker) -> Result<Vec<Place>, KrafkaError> {
    let kafka = Kafka::builder(broker.bootstrap_servers()).connect().await?;
    // The broker gives out whole batches: small ones keep to what is asked for.
    let producer = kafka.producer().batch_size(BATCH_BYTES).build().await?;
    let mut written: Vec<DeliveryHandle> = Vec::new();
    for number in 0..orders.count() {
        let order = orders.order(number);
        let record = Record::new(TOPIC, order.json)
            .key(order.customer)
            .partition((number % PARTITIONS) as i32);
        written.push(producer.enqueue(record).await?);
    }
    let mut places = Vec::new();
    for order in written {
        let written = order.await?;
        places.push(Place {
            partition: usize::try_from(written.partition).unwrap_or_default(),
            offset: written.offset,
        });
    }
    producer.close().await?;
    Ok(places)
}

fn introduce(plan: Plan, out: &mut dyn Write) -> io::Result<()> {
    let Plan {
        records,
        tasks,
        latency,
        slow,
    } = plan;
    let takes = |tasks| plan.takes(tasks).as_secs_f64();
    writeln!(
        out,
        "{records} orders are in topic {TOPIC}, {PARTITIONS} partitions, on an embedded broker\n\
         (no Kafka; nothing is kept). The sink needs {:.0} ms for an order, {:.0} ms for one in {}:\n\
         {tasks} tasks on a share group take {:.0} s; {PARTITIONS} tasks, one a partition, would take {:.0} s.\n\
         Some tasks are killed on the way, and some orders refused at first.\n",
        latency.as_secs_f64() * 1e3,
        slow.as_secs_f64() * 1e3,
        plan.slow_every(),
        takes(tasks),
        takes(PARTITIONS),
    )
}

/// The sink makes its file with its first task.
fn read(arrived: &Path) -> io::Result<String> {
    match std::fs::read(arrived) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

fn conclude(tally: &Tally, ended: &Ended, out: &mut dyn Write) -> io::Result<()> {
    match ended {
        Ended::AllSettled => writeln!(out, "\nAll orders are settled. Counted in the sink's file:"),
        Ended::Interrupted => writeln!(out, "\n\nInterrupted. Counted in the sink's file:"),
        Ended::Failed(cause) => writeln!(out, "\nFailed: {cause}. Counted in the sink's file:"),
    }?;
    tally.print(out)?;
    if tally.is_good() {
        writeln!(out, "Nothing was lost.")
    } else {
        writeln!(out, "The tally is wrong: please report this.")
    }
}

/// `exit` is how the worker ended.
fn verdict(tally: &Tally, ended: &Ended, exit: Exit) -> Exit {
    match (ended, exit) {
        _ if !tally.is_good() => Exit::Internal,
        (_, Exit::Interrupted) => exit,
        (Ended::Interrupted, _) => Exit::Fine,
        (Ended::AllSettled, _) if tally.left == 0 => Exit::Fine,
        _ => Exit::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(left: u64, lost: Vec<u32>) -> Tally {
        Tally {
            left,
            lost,
            ..Tally::default()
        }
    }

    #[test]
    fn a_lost_order_fails_the_demo_however_it_ended() {
        for ended in [Ended::AllSettled, Ended::Interrupted] {
            let exit = verdict(&tally(0, vec![7]), &ended, Exit::Fine);
            assert_eq!(exit, Exit::Internal);
        }
    }

    #[test]
    fn what_is_left_is_fine_only_after_an_interruption() {
        let left = tally(5, Vec::new());
        let exit = |ended| verdict(&left, &ended, Exit::Unfinished);
        assert_eq!(exit(Ended::Interrupted), Exit::Fine);
        assert_eq!(exit(Ended::AllSettled), Exit::Internal);
        assert_eq!(exit(Ended::Failed("gone".into())), Exit::Internal);
    }

    #[cfg(feature = "embedded-broker")]
    #[test]
    fn the_demos_own_configuration_is_sound() {
        let broker = EmbeddedBroker::start().unwrap();
        let plan = Plan::of(DemoOptions {
            records: 100,
            tasks: 7,
            seconds: 1,
        });
        let path = Path::new("/tmp/arrived");
        let configuration = configuration(plan, &broker, path).unwrap();
        let connector = &configuration.connectors[0];
        assert_eq!((connector.name.as_str(), connector.tasks_max), ("demo", 7));
        assert_eq!(connector.share.group_id, GROUP);
        assert!(configuration.notes.is_empty(), "{:?}", configuration.notes);
    }
}
