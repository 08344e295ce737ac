//! From files, environment and command line to configurations.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use config::ConfigError;

use super::connector::ConnectorConfig;
use super::definition::{Fault, Faults};
use super::env::{self, Environment};
use super::files;
use super::layers::{Layer, Settings};
use super::notes::Note;
use super::overrides::OVERRIDE;
use super::plugins::Plugins;
use super::producer::PRODUCER_OVERRIDE;
use super::providers::Providers;
use super::worker::{Checked, WorkerConfig};

mod gather;

/// Where to look. Later fields win over earlier ones.
#[derive(Clone, Default)]
pub struct Places {
    pub worker_file: Option<PathBuf>,
    pub connector_files: Vec<PathBuf>,
    pub environment: Environment,
    /// `key=value` for the worker, `CONNECTOR:key=value` for a connector.
    pub set: Vec<String>,
}

/// What the places say, faults included.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub worker: Checked<WorkerConfig>,
    /// In the order of their names.
    pub connectors: Vec<Checked<ConnectorConfig>>,
}

/// Configurations without a fault.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub worker: WorkerConfig,
    pub connectors: Vec<ConnectorConfig>,
    /// What the user should know.
    pub notes: Vec<PlacedNote>,
}

/// A note with its place: a connector, or the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedNote {
    pub connector: Option<String>,
    note: Note,
}

impl fmt::Display for PlacedNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.connector {
            Some(connector) => write!(f, "connector {connector}: {}", self.note),
            None => write!(f, "worker: {}", self.note),
        }
    }
}

impl Loaded {
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.worker.faults.is_empty() && self.connectors.iter().all(|it| it.faults.is_empty())
    }

    /// The configurations, if nothing is wrong with them.
    #[must_use]
    pub fn sound(self) -> Option<Configuration> {
        self.is_sound().then(|| Configuration {
            notes: self.notes(),
            worker: self.worker.config,
            connectors: self.connectors.into_iter().map(|it| it.config).collect(),
        })
    }

    fn notes(&self) -> Vec<PlacedNote> {
        let placed = |connector: Option<&str>, note: &Note| PlacedNote {
            connector: connector.map(str::to_owned),
            note: note.clone(),
        };
        let worker = self.worker.notes.iter().map(|note| placed(None, note));
        let connectors = self.connectors.iter().flat_map(|connector| {
            let (name, notes) = (&*connector.config.name, connector.notes.iter());
            notes.map(move |note| placed(Some(name), note))
        });
        worker.chain(connectors).collect()
    }
}

/// Reads all places and finds all that is wrong with them.
pub fn load(places: &Places, plugins: &Plugins) -> Result<Loaded, ConfigError> {
    let mut faults = Faults::default();
    let mut environment = env::read(&places.environment);
    faults.absorb(std::mem::take(&mut environment.faults));
    let set = gather::command_line(&places.set, &mut faults);
    let file = match &places.worker_file {
        Some(path) => files::read(path, &mut faults),
        None => Some(Layer::default()),
    };
    let is_readable = file.is_some();
    let connectors = gather::connectors(
        &places.connector_files,
        std::mem::take(&mut environment.connectors),
        set.connectors,
        &mut faults,
    );

    let file = file.unwrap_or_default();
    let mut worker = loop {
        let layers = [
            WorkerConfig::defaults(),
            file.clone(),
            environment.worker.clone(),
            set.worker.clone(),
        ];
        let worker = read_worker(Settings::merge(layers)?, &places.environment, plugins);
        if !environment.leave_out_unfit(&worker) {
            break worker;
        }
    };
    worker.notes.extend(environment.notes);
    if !is_readable {
        // What the file would have said is missing everywhere below.
        worker.faults = faults;
        return Ok(Loaded {
            worker,
            connectors: Vec::new(),
        });
    }
    worker.faults.absorb(faults);
    worker.faults.sort();

    let mut read = Vec::new();
    for connector in connectors {
        let mut connector = ConnectorConfig::read(connector.layers(), &worker.config, plugins)?;
        drop_worker_faults(&mut connector.faults, &worker.faults);
        read.push(connector);
    }
    refuse_shared_groups(&mut read);
    for connector in &mut read {
        connector.faults.sort();
    }
    Ok(Loaded {
        worker,
        connectors: read,
    })
}

fn read_worker(
    mut settings: Settings,
    environment: &Environment,
    plugins: &Plugins,
) -> Checked<WorkerConfig> {
    let mut faults = Faults::default();
    let providers = Providers::read(&settings, environment, &mut faults);
    let filled = providers.fill_in(&mut settings);
    let mut worker = WorkerConfig::read(settings, plugins);
    filled.tell(&mut worker.faults);
    worker.faults.absorb(faults);
    worker.config.providers = providers;
    worker
}

/// A connector stands on the worker's settings; what is wrong with those was
/// told there.
fn drop_worker_faults(faults: &mut Faults, worker: &Faults) {
    faults.retain(|fault| {
        let key = [OVERRIDE, PRODUCER_OVERRIDE]
            .iter()
            .find_map(|prefix| fault.key.strip_prefix(prefix))
            .unwrap_or(&fault.key);
        let is_same = |told: &Fault| {
            told.message == fault.message && (told.key == fault.key || told.key == key)
        };
        !worker.iter().any(is_same)
    });
}

/// Two connectors in one share group would take records from each other.
fn refuse_shared_groups(connectors: &mut [Checked<ConnectorConfig>]) {
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for connector in connectors {
        let group = connector.config.share.group_id.clone();
        if let Some(owner) = owners.get(&group) {
            connector.faults.add(
                "share.group.id",
                format!("{group} is the group of connector {owner} too; give each its own"),
            );
        } else {
            owners.insert(group, connector.config.name.clone());
        }
    }
}

#[cfg(test)]
mod tests;
