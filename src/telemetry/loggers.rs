//! The loggers of this worker, whose levels may be changed while it runs: the
//! filter in front of the log, and what REST sees of it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

use super::levels::{Levels, ROOT, Set, is_below};
use crate::sinks::log;

/// What lines about a connector name it by.
const CONNECTOR: &str = "connector";
/// What comes by the crate `log`, under this name until it is printed.
const BRIDGE: &str = "log";

/// See the module. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Loggers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    levels: RwLock<Levels>,
    /// Modules that have logged, or would have if their level let them, and
    /// those that they are in.
    met: Mutex<BTreeSet<&'static str>>,
}

impl Loggers {
    #[must_use]
    pub fn new(levels: Levels) -> Self {
        Self(Arc::new(Shared {
            levels: RwLock::new(levels),
            met: Mutex::default(),
        }))
    }

    /// The root, what was set, and the modules that were met; in order.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::from([ROOT.to_owned()]);
        names.extend(self.0.levels.read().named().map(str::to_owned));
        names.extend(self.0.met.lock().iter().map(|module| (*module).to_owned()));
        names
    }

    /// What goes for a logger, known or not.
    #[must_use]
    pub fn level(&self, logger: &str) -> Set {
        self.0.levels.read().of_module(logger)
    }

    /// Whether there is such a logger, or one below it.
    #[must_use]
    pub fn has(&self, logger: &str) -> bool {
        self.names().iter().any(|name| is_below(name, logger))
    }

    /// Sets a logger and those below it; tells which ones that were.
    pub fn set(&self, logger: &str, level: LevelFilter) -> BTreeSet<String> {
        let mut names = self.names();
        names.retain(|name| logger == ROOT || is_below(name, logger));
        names.insert(logger.to_owned());
        let most = {
            let mut levels = self.0.levels.write();
            levels.set(logger, level, SystemTime::now());
            levels.most()
        };
        // Whether a line is logged at all is remembered where it is made.
        tracing::callsite::rebuild_interest_cache();
        ::log::set_max_level(of_log_crate(most));
        names
    }

    /// By what the metadata tells: a line about a connector may still be of one
    /// that says less.
    fn may_log(&self, metadata: &Metadata<'_>) -> bool {
        let (level, module) = (metadata.level(), metadata.target());
        if module == log::TARGET {
            // These lines are deliveries.
            return *level <= Level::INFO;
        }
        let levels = self.0.levels.read();
        let of_connectors = levels.of_connectors().filter(|_| is_about_one(metadata));
        *level
            <= levels
                .of_module(module)
                .level
                .max(of_connectors.unwrap_or(LevelFilter::OFF))
    }

    fn logs(&self, event: &Event<'_>) -> bool {
        let metadata = event.metadata();
        if !is_about_one(metadata) || metadata.target() == log::TARGET {
            return true;
        }
        let levels = self.0.levels.read();
        if levels.of_connectors().is_none() {
            return true;
        }
        let mut connector = Connector(String::new());
        event.record(&mut connector);
        let of_connector = levels.of_connector(&connector.0);
        let set = of_connector.unwrap_or_else(|| levels.of_module(metadata.target()));
        *metadata.level() <= set.level
    }
}

impl<S> Filter<S> for Loggers {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.may_log(metadata)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.logs(event)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.target() != BRIDGE {
            self.0
                .met
                .lock()
                .extend(with_those_above(metadata.target()));
        }
        match self.may_log(metadata) {
            // What comes by the bridge has its module in each line.
            _ if metadata.target() == BRIDGE => Interest::sometimes(),
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // The log sink's lines are printed at every level.
        Some(self.0.levels.read().most().max(LevelFilter::INFO))
    }
}

fn with_those_above(module: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(module), |module| Some(module.rsplit_once("::")?.0))
}

fn is_about_one(metadata: &Metadata<'_>) -> bool {
    metadata.fields().field(CONNECTOR).is_some()
}

fn of_log_crate(level: LevelFilter) -> ::log::LevelFilter {
    match level.into_level() {
        None => ::log::LevelFilter::Off,
        Some(Level::ERROR) => ::log::LevelFilter::Error,
        Some(Level::WARN) => ::log::LevelFilter::Warn,
        Some(Level::INFO) => ::log::LevelFilter::Info,
        Some(Level::DEBUG) => ::log::LevelFilter::Debug,
        Some(Level::TRACE) => ::log::LevelFilter::Trace,
    }
}

/// Takes the name of the connector out of a line.
struct Connector(String);

impl Visit for Connector {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == CONNECTOR {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == CONNECTOR {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{Layer, registry};

    use super::*;

    /// Notes the lines that come through.
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Heard {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            struct Message(String);
            impl Visit for Message {
                fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                    if field.name() == "message" {
                        self.0 = format!("{value:?}");
                    }
                }
            }
            let mut message = Message(String::new());
            event.record(&mut message);
            self.0.lock().push(message.0);
        }
    }

    impl Heard {
        fn take(&self) -> Vec<String> {
            std::mem::take(&mut *self.0.lock())
        }
    }

    fn say() {
        tracing::debug!(target: "sluice::met", "quiet");
        tracing::info!(target: "sluice::met", "loud");
        for connector in ["orders", "audit"] {
            tracing::debug!(target: "sluice::met", %connector, "{connector} quiet");
            tracing::info!(target: "sluice::met", connector, "{connector} loud");
        }
    }

    /// One test, since all threads of a process share what is remembered at
    /// the lines.
    #[test]
    fn levels_change_while_lines_are_logged_by_module_and_by_connector() {
        let loggers = Loggers::new(Levels::new(LevelFilter::INFO, &[]));
        let heard = Heard::default();
        let subscriber = registry().with(heard.clone().with_filter(loggers.clone()));
        let loud = ["loud", "orders loud", "audit loud"];
        tracing::subscriber::with_default(subscriber, || {
            say();
            assert_eq!(heard.take(), loud);
            let names = loggers.names();
            assert!(names.contains("sluice") && names.contains("sluice::met"));
            assert!(!loggers.has("sluice::m"));

            let affected = loggers.set("sluice::met", LevelFilter::DEBUG);
            assert_eq!(affected, ["sluice::met".to_owned()].into());
            say();
            assert_eq!(heard.take().len(), 6);

            loggers.set("sluice", LevelFilter::ERROR);
            say();
            assert_eq!(heard.take(), [""; 0]);

            loggers.set("sluice", LevelFilter::INFO);
            loggers.set("connector.orders", LevelFilter::DEBUG);
            say();
            let told = ["loud", "orders quiet", "orders loud", "audit loud"];
            assert_eq!(heard.take(), told);

            loggers.set("connector.orders", LevelFilter::OFF);
            say();
            assert_eq!(heard.take(), ["loud", "audit loud"]);
        });
    }

    #[test]
    fn the_log_sinks_records_are_printed_at_every_level() {
        for level in [LevelFilter::OFF, LevelFilter::ERROR, LevelFilter::TRACE] {
            let loggers = Loggers::new(Levels::new(level, &[]));
            loggers
                .0
                .levels
                .write()
                .set("connector.orders", level, SystemTime::now());
            let heard = Heard::default();
            let subscriber = registry().with(heard.clone().with_filter(loggers));
            tracing::subscriber::with_default(subscriber, || {
                tracing::info!(target: log::TARGET, connector = "orders", "a record");
                tracing::debug!(target: log::TARGET, "no record");
            });
            assert_eq!(heard.take(), ["a record"], "{level}");
        }
    }
}
