//! What files, environment and command line say about each connector.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::definition::{Faults, list_items};
use crate::config::files;
use crate::config::layers::{COMMAND_LINE, Layer};

const NAME: &str = "name";

/// What `--set` says.
#[derive(Default)]
pub(super) struct CommandLine {
    pub(super) worker: Layer,
    /// By the connector's name.
    pub(super) connectors: BTreeMap<String, Layer>,
}

pub(super) fn command_line(set: &[String], faults: &mut Faults) -> CommandLine {
    let mut found = CommandLine::default();
    for assignment in set {
        let parts = assignment.split_once('=');
        let Some((key, value)) = parts.filter(|(key, _)| !key.is_empty()) else {
            // It may be a secret without its key: not shown.
            faults.add("--set", "is not key=value or CONNECTOR:key=value");
            continue;
        };
        let (layer, key) = match key.split_once(':') {
            Some((name, key)) => (found.connectors.entry(name.to_owned()).or_default(), key),
            None => (&mut found.worker, key),
        };
        layer.put(key, value, COMMAND_LINE);
    }
    found
}

/// What each place says about one connector.
#[derive(Default)]
pub(super) struct ConnectorPlaces {
    file: Layer,
    environment: Layer,
    command_line: Layer,
}

impl ConnectorPlaces {
    /// The layers, the lowest first.
    pub(super) fn layers(self) -> Vec<Layer> {
        let layers = [self.file, self.environment, self.command_line];
        let aliases = aliases(&layers);
        let spelt = |layer: Layer| layer.renamed(|key| spell_alias(key, &aliases));
        layers.into_iter().map(spelt).collect()
    }
}

/// Names of transforms and predicates as the highest layer spells them, each
/// with the key that lists it.
fn aliases(layers: &[Layer]) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for chain in ["transforms", "predicates"] {
        let listed = layers.iter().rev().find_map(|layer| layer.get(chain));
        let names = list_items(listed.unwrap_or_default());
        found.extend(names.map(|name| (chain, name.to_owned())));
    }
    found
}

/// Variables have no case: `transforms.insertsource.type` means the
/// `InsertSource` of the list.
fn spell_alias(key: String, aliases: &[(&str, String)]) -> String {
    let is_spelt = |(chain, alias): &(&str, String)| key.starts_with(&format!("{chain}.{alias}."));
    if aliases.iter().any(is_spelt) {
        return key;
    }
    for (chain, alias) in aliases {
        let rest = key
            .strip_prefix(chain)
            .and_then(|rest| rest.strip_prefix('.'));
        if let Some((name, tail)) = rest.and_then(|rest| rest.split_at_checked(alias.len()))
            && name.eq_ignore_ascii_case(alias)
            && tail.starts_with('.')
        {
            return format!("{chain}.{alias}{tail}");
        }
    }
    key
}

/// All connectors of all places, in the order of their names.
pub(super) fn connectors(
    paths: &[PathBuf],
    environment: BTreeMap<String, Layer>,
    command_line: BTreeMap<String, Layer>,
    faults: &mut Faults,
) -> Vec<ConnectorPlaces> {
    let mut connectors = from_files(paths, faults);
    for (alias, layer) in environment {
        add_variables(&mut connectors, &alias, layer, faults);
    }
    for (name, layer) in command_line {
        match connectors.get_mut(&name) {
            Some(connector) => connector.command_line = layer,
            None => faults.add("--set", format!("there is no connector {name:?}")),
        }
    }
    connectors.into_values().collect()
}

fn from_files(paths: &[PathBuf], faults: &mut Faults) -> BTreeMap<String, ConnectorPlaces> {
    let mut connectors: BTreeMap<String, ConnectorPlaces> = BTreeMap::new();
    for path in paths {
        let Some(layer) = files::read(path, faults) else {
            continue;
        };
        let shown = path.display().to_string();
        let name = layer.get(NAME).unwrap_or_default().trim().to_owned();
        if name.is_empty() {
            faults.add(shown, "has no name; add the key name");
        } else if connectors.contains_key(&name) {
            faults.add(shown, format!("connector {name:?} is in another file too"));
        } else {
            connectors.entry(name).or_default().file = layer;
        }
    }
    connectors
}

/// The connector that the variables name, or whose name is like their alias,
/// or a new one.
fn add_variables(
    connectors: &mut BTreeMap<String, ConnectorPlaces>,
    alias: &str,
    mut layer: Layer,
    faults: &mut Faults,
) {
    let variables = format!("SLUICE_SINK_{}", alias.to_uppercase());
    let named = layer.get(NAME).map(|name| name.trim().to_owned());
    let name = named.unwrap_or_else(|| {
        let alike = connectors.keys().find(|name| plain(name) == alias);
        let name = alike.cloned().unwrap_or_else(|| alias.to_owned());
        layer.put(NAME, name.as_str(), format!("environment {variables}"));
        name
    });
    let connector = connectors.entry(name.clone()).or_default();
    if connector.environment.is_empty() {
        connector.environment = layer;
    } else {
        let message = format!("is connector {name:?}, and so is another alias");
        faults.add(variables, message);
    }
}

/// A name without what an alias cannot hold.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|it| it.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}
