//! Which transforms and predicates there are, and a connector's chain of them.

use std::sync::Arc;

use sluice_actors::ports::transform::Transform;

use super::aliased::{Aliased, PREDICATE_KEYS, TRANSFORM_KEYS};
use super::chain::{Condition, Predicate, Step};
use super::entry::{self, Entries, Entry};
use super::predicates::{has_header_key, record_is_tombstone, topic_name_matches};
use super::{filter, insert_field, regex_router, replace_field};
use crate::config::connector::{PredicateConfig, TransformConfig};
use crate::config::definition::{Faults, Key, Properties};
use crate::config::reference::Table;

static TRANSFORMS: Entries<dyn Transform> = &[
    filter::ENTRIES,
    insert_field::ENTRIES,
    regex_router::ENTRIES,
    replace_field::ENTRIES,
];

static PREDICATES: Entries<dyn Predicate> = &[
    has_header_key::ENTRIES,
    record_is_tombstone::ENTRIES,
    topic_name_matches::ENTRIES,
];

/// Every transform there is.
pub fn transforms() -> impl Iterator<Item = &'static Entry<dyn Transform>> {
    entry::all(TRANSFORMS)
}

/// Every predicate there is.
pub fn predicates() -> impl Iterator<Item = &'static Entry<dyn Predicate>> {
    entry::all(PREDICATES)
}

/// The keys of a plugin, by any of its names.
#[must_use]
pub fn keys(kind: Aliased, class: &str) -> Option<&'static [Key]> {
    match kind {
        Aliased::Transform => entry::find(TRANSFORMS, class).map(|it| it.keys),
        Aliased::Predicate => entry::find(PREDICATES, class).map(|it| it.keys),
    }
}

/// Adds what is wrong with the settings of an alias.
pub fn check(
    kind: Aliased,
    alias: &str,
    class: &str,
    properties: &Properties,
    faults: &mut Faults,
) {
    let named = (kind, alias, class);
    match kind {
        Aliased::Transform => {
            entry::build(TRANSFORMS, named, properties, faults);
        }
        Aliased::Predicate => {
            entry::build(PREDICATES, named, properties, faults);
        }
    }
}

/// Builds a connector's transforms, in their order. What is wrong is added to
/// the faults.
pub fn chain(
    configs: &[TransformConfig],
    properties: &Properties,
    faults: &mut Faults,
) -> Option<Vec<Arc<dyn Transform>>> {
    let before = faults.len();
    let steps = configs.iter().filter_map(|config| {
        let (alias, class) = (config.alias.as_str(), config.class.as_str());
        let named = (Aliased::Transform, alias, class);
        let transform = entry::build(TRANSFORMS, named, properties, faults)?;
        let condition = match &config.predicate {
            Some(predicate) => Some(condition(predicate, properties, faults)?),
            None => None,
        };
        let step = Step {
            alias: alias.to_owned(),
            condition,
            transform,
        };
        Some(Arc::new(step) as Arc<dyn Transform>)
    });
    let steps = steps.collect();
    (faults.len() == before).then_some(steps)
}

fn condition(
    config: &PredicateConfig,
    properties: &Properties,
    faults: &mut Faults,
) -> Option<Condition> {
    let named = (Aliased::Predicate, &*config.alias, &*config.class);
    let predicate = entry::build(PREDICATES, named, properties, faults)?;
    Some(Condition {
        predicate,
        negate: config.negate,
    })
}

/// What the reference says of transforms and predicates.
#[must_use]
pub fn tables() -> Vec<Table> {
    let mut tables = vec![Table {
        title: "Transforms".into(),
        text: "A name in `transforms` is changed by its keys below `transforms.NAME.`, besides \
               these by those of its type. The chain runs in the order of the names, each on what \
               the one before has left."
            .into(),
        keys: TRANSFORM_KEYS,
    }];
    tables.extend(transforms().map(|entry| table(Aliased::Transform, entry)));
    tables.push(Table {
        title: "Predicates".into(),
        text: "A name in `predicates` has its keys below `predicates.NAME.`, besides this one \
               those of its type."
            .into(),
        keys: PREDICATE_KEYS,
    });
    tables.extend(predicates().map(|entry| table(Aliased::Predicate, entry)));
    tables
}

fn table<T: ?Sized>(kind: Aliased, entry: &Entry<T>) -> Table {
    let [simple, class] = entry.names();
    let title = match kind {
        Aliased::Transform => format!("Transform {simple}"),
        Aliased::Predicate => format!("Predicate {simple}"),
    };
    let keys = if entry.keys.is_empty() {
        " It has no keys of its own."
    } else {
        ""
    };
    Table {
        title: title.into(),
        text: format!("{} `type`: `{simple}` or `{class}`.{keys}", entry.doc).into(),
        keys: entry.keys,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_plugin_goes_by_class_and_class_without_package() {
        for entry in transforms() {
            for name in entry.names() {
                assert_eq!(keys(Aliased::Transform, name), Some(entry.keys), "{name}");
                assert_eq!(keys(Aliased::Predicate, name), None, "{name}");
            }
        }
        for entry in predicates() {
            for name in entry.names() {
                assert_eq!(keys(Aliased::Predicate, name), Some(entry.keys), "{name}");
            }
        }
    }

    #[test]
    fn no_two_plugins_share_a_name() {
        let names = transforms().flat_map(Entry::names);
        let names: Vec<_> = names.chain(predicates().flat_map(Entry::names)).collect();
        let unique: BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    /// A key of an alias is read by one table only.
    #[test]
    fn no_plugin_has_a_key_that_all_have() {
        let transforms = transforms().flat_map(|it| it.keys);
        assert!(
            !transforms
                .into_iter()
                .any(|key| TRANSFORM_KEYS.iter().any(|it| it.name == key.name))
        );
        let predicates = predicates().flat_map(|it| it.keys);
        assert!(
            !predicates
                .into_iter()
                .any(|key| PREDICATE_KEYS.iter().any(|it| it.name == key.name))
        );
    }

    #[test]
    fn an_unknown_class_is_refused_with_the_key_and_the_nearest_class() {
        for (kind, wrong, expected) in [
            (
                Aliased::Transform,
                "org.apache.kafka.connect.transforms.InsertFeild$Value",
                "transforms.a.type: \"org.apache.kafka.connect.transforms.InsertFeild$Value\" is \
                 not a transform; the transforms are Filter, InsertField$Key, InsertField$Value, \
                 RegexRouter, ReplaceField$Key, ReplaceField$Value. Did you mean \
                 \"org.apache.kafka.connect.transforms.InsertField$Value\"?",
            ),
            (
                Aliased::Predicate,
                "RecordIsTombstones",
                "predicates.a.type: \"RecordIsTombstones\" is not a predicate; the predicates are \
                 HasHeaderKey, RecordIsTombstone, TopicNameMatches. Did you mean \
                 \"org.apache.kafka.connect.transforms.predicates.RecordIsTombstone\"?",
            ),
        ] {
            let mut faults = Faults::default();
            check(kind, "a", wrong, &Properties::new(), &mut faults);
            assert_eq!(faults.to_string(), expected);
        }
    }

    #[test]
    fn a_faulty_setting_makes_no_chain() {
        let config = TransformConfig {
            alias: "a".into(),
            class: "RegexRouter".into(),
            predicate: None,
        };
        let mut faults = Faults::default();
        assert!(chain(&[config], &Properties::new(), &mut faults).is_none());
        let keys: Vec<_> = faults.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, ["transforms.a.regex", "transforms.a.replacement"]);
    }
}
