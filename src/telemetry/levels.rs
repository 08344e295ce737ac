//! How much is logged of what: a table of loggers, by module and by connector.

use std::collections::BTreeMap;
use std::time::SystemTime;

use tracing::level_filters::LevelFilter;

/// The logger of all that no other one is for.
pub const ROOT: &str = "root";
/// In front of a connector's name: the logger of all that is about it.
const CONNECTOR: &str = "connector.";
/// Those that have a level of their own: it does not come down to them from the
/// root. Kafka's client tells its retries, which the share source does, once
/// each; HTTP's, what the other side says as it hangs up, which may quote a
/// record.
const HUSHED: [&str; 3] = ["krafka", "h2", "hyper_util"];

/// The connector that a logger is for, if it is one's.
#[must_use]
pub fn connector_of(logger: &str) -> Option<&str> {
    logger.strip_prefix(CONNECTOR)
}

/// The logger of a connector.
#[must_use]
pub fn of_connector(connector: &str) -> String {
    format!("{CONNECTOR}{connector}")
}

/// A level, and when it was set at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    pub level: LevelFilter,
    pub modified: Option<SystemTime>,
}

/// The levels that were set, by the names of loggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    root: Set,
    named: BTreeMap<String, Set>,
}

impl Levels {
    /// What the configuration says.
    #[must_use]
    pub fn new(root: LevelFilter, named: &[(String, LevelFilter)]) -> Self {
        let hushed = HUSHED.map(|name| (name.to_owned(), LevelFilter::ERROR));
        let named = hushed.iter().chain(named);
        let fixed = |level: LevelFilter| Set {
            level,
            modified: None,
        };
        Self {
            root: fixed(root),
            named: named
                .map(|(name, level)| (name.clone(), fixed(*level)))
                .collect(),
        }
    }

    /// Sets a logger and those below it, which forget what they were set to.
    pub fn set(&mut self, logger: &str, level: LevelFilter, now: SystemTime) {
        let set = Set {
            level,
            modified: Some(now),
        };
        if logger == ROOT {
            self.root = set;
            self.named.retain(|name, _| HUSHED.contains(&name.as_str()));
        } else {
            self.named.retain(|name, _| !is_below(name, logger));
            self.named.insert(logger.to_owned(), set);
        }
    }

    /// What goes for a module: its own level, or that of the nearest one above.
    #[must_use]
    pub fn of_module(&self, module: &str) -> Set {
        let mut name = module;
        loop {
            if let Some(set) = self.named.get(name) {
                return *set;
            }
            match name.rsplit_once("::") {
                Some((above, _)) => name = above,
                None => return self.root,
            }
        }
    }

    /// What goes for all that is about a connector, if anything was set.
    #[must_use]
    pub fn of_connector(&self, connector: &str) -> Option<Set> {
        self.named.get(&of_connector(connector)).copied()
    }

    /// The level that the most talkative connector was set to.
    #[must_use]
    pub fn of_connectors(&self) -> Option<LevelFilter> {
        let connectors = self.named.range(CONNECTOR.to_owned()..);
        let connectors = connectors.take_while(|(name, _)| name.starts_with(CONNECTOR));
        connectors.map(|(_, set)| set.level).max()
    }

    /// Nothing is logged beyond it.
    #[must_use]
    pub fn most(&self) -> LevelFilter {
        let levels = self.named.values().map(|set| set.level);
        levels.fold(self.root.level, LevelFilter::max)
    }

    /// Loggers that were set, but for the root.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }
}

/// Whether a logger is another one, or belongs to it.
#[must_use]
pub fn is_below(logger: &str, above: &str) -> bool {
    match logger.strip_prefix(above) {
        Some(rest) => rest.is_empty() || rest.starts_with("::"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(named: &[(&str, LevelFilter)]) -> Levels {
        let named: Vec<_> = named
            .iter()
            .map(|(it, level)| ((*it).into(), *level))
            .collect();
        Levels::new(LevelFilter::INFO, &named)
    }

    #[test]
    fn the_nearest_module_above_decides() {
        let levels = levels(&[
            ("sluice::kafka", LevelFilter::DEBUG),
            ("sluice::kafka::share", LevelFilter::WARN),
        ]);
        for (module, level) in [
            ("sluice", LevelFilter::INFO),
            ("sluice::kafka::admin", LevelFilter::DEBUG),
            ("sluice::kafka::share::source", LevelFilter::WARN),
            ("sluice::kafkaesque", LevelFilter::INFO),
            ("krafka::net", LevelFilter::ERROR),
            ("h2::proto", LevelFilter::ERROR),
            ("hyper_util::client", LevelFilter::ERROR),
        ] {
            assert_eq!(levels.of_module(module).level, level, "{module}");
        }
        assert_eq!(levels.most(), LevelFilter::DEBUG);
    }

    #[test]
    fn a_logger_that_is_set_takes_those_below_along_and_nothing_else() {
        let mut levels = levels(&[
            ("sluice::kafka", LevelFilter::DEBUG),
            ("sluice::kafka::share", LevelFilter::TRACE),
            ("sluice::rest", LevelFilter::WARN),
        ]);
        let now = SystemTime::now();
        levels.set("sluice::kafka", LevelFilter::ERROR, now);
        let share = levels.of_module("sluice::kafka::share");
        assert_eq!(
            (share.level, share.modified),
            (LevelFilter::ERROR, Some(now))
        );
        assert_eq!(levels.of_module("sluice::rest").level, LevelFilter::WARN);
        levels.set(ROOT, LevelFilter::DEBUG, now);
        assert_eq!(levels.of_module("sluice::rest").level, LevelFilter::DEBUG);
        assert_eq!(levels.of_module("krafka").level, LevelFilter::ERROR);
        levels.set("krafka", LevelFilter::DEBUG, now);
        assert_eq!(levels.of_module("krafka::net").level, LevelFilter::DEBUG);
    }

    #[test]
    fn a_connector_has_a_level_of_its_own() {
        let mut levels = levels(&[]);
        assert_eq!(levels.of_connectors(), None);
        let now = SystemTime::now();
        levels.set("connector.my.orders", LevelFilter::TRACE, now);
        levels.set("connector.audit", LevelFilter::ERROR, now);
        let of = |name| levels.of_connector(name).map(|set| set.level);
        assert_eq!(of("my.orders"), Some(LevelFilter::TRACE));
        assert_eq!(of("my"), None);
        assert_eq!(levels.of_connectors(), Some(LevelFilter::TRACE));
        assert_eq!(connector_of("connector.my.orders"), Some("my.orders"));
    }
}
