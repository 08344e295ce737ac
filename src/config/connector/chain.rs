//! A connector's transforms and predicates: lists of names, and below each
//! name the keys of its plugin.

use super::reading::Reading;
use crate::config::definition::{Reader, list_items};
use crate::config::known_keys::{BUILT_IN, KnownKeys};
use crate::transforms::aliased::{Aliased, NEGATE, PREDICATE, TYPE, VERSION};

/// One transform of the chain. Its own keys are among the connector's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformConfig {
    pub alias: String,
    pub class: String,
    pub predicate: Option<PredicateConfig>,
}

/// When a transform is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredicateConfig {
    pub alias: String,
    pub class: String,
    /// For the records for which the predicate does not hold.
    pub negate: bool,
}

impl Reading<'_> {
    fn aliases(&self, kind: Aliased) -> impl Iterator<Item = &str> {
        list_items(self.class(kind.list_key()))
    }

    fn aliased_class(&self, kind: Aliased, alias: &str) -> &str {
        self.class(&format!("{}{TYPE}", kind.prefix(alias)))
    }

    /// Takes in the keys of all that is listed.
    pub(super) fn know_aliased(&self, mut known: KnownKeys) -> KnownKeys {
        for kind in Aliased::ALL {
            for alias in self.aliases(kind) {
                let prefix = kind.prefix(alias);
                let class = self.aliased_class(kind, alias);
                let keys = (self.plugins.aliased_keys)(kind, class);
                known = known
                    .with(prefix.clone(), kind.keys())
                    .with(prefix, keys.unwrap_or_default());
            }
        }
        known
    }

    /// Says what there is to say of a key of a transform or predicate, and
    /// whether nobody else need judge it.
    pub(super) fn judge_aliased(&mut self, key: &str) -> bool {
        for kind in Aliased::ALL {
            let list = kind.list_key();
            let rest = key
                .strip_prefix(list)
                .and_then(|rest| rest.strip_prefix('.'));
            let Some(rest) = rest else { continue };
            let listed = self.aliases(kind).find_map(|alias| {
                let name = rest.strip_prefix(alias)?.strip_prefix('.')?;
                Some((alias.to_owned(), name))
            });
            let Some((alias, name)) = listed else {
                let alias = rest.split('.').next().unwrap_or_default();
                let message = format!("{alias:?} is not in {list}; add it there or remove the key");
                self.faults.add(key, message);
                return true;
            };
            if name == VERSION {
                self.notes.no_effect(key, BUILT_IN);
                return true;
            }
            // Without a plugin its class is fault enough.
            let class = self.aliased_class(kind, &alias);
            let is_own = kind.keys().iter().any(|it| it.name == name);
            return !is_own && (self.plugins.aliased_keys)(kind, class).is_none();
        }
        false
    }

    /// The chain in its order. Predicates that no transform uses are checked
    /// as well.
    pub(super) fn transforms(&mut self) -> Vec<TransformConfig> {
        let predicates = self.check_aliased(Aliased::Predicate);
        let transforms = self.check_aliased(Aliased::Transform);
        let with_predicate = |(alias, class): (String, String)| {
            let predicate = self.predicate_of(&alias, &predicates);
            TransformConfig {
                alias,
                class,
                predicate,
            }
        };
        transforms.into_iter().map(with_predicate).collect()
    }

    /// The aliases of a list with their classes. The plugins look at their own
    /// values.
    fn check_aliased(&mut self, kind: Aliased) -> Vec<(String, String)> {
        let mut checked: Vec<(String, String)> = Vec::new();
        let aliases: Vec<_> = self.aliases(kind).map(str::to_owned).collect();
        for alias in aliases {
            if checked.iter().any(|(it, _)| *it == alias) {
                let message = format!(
                    "has {alias:?} twice; give each {} its own name",
                    kind.name()
                );
                self.faults.add(kind.list_key(), message);
                continue;
            }
            let properties = self.settings.properties();
            let prefix = kind.prefix(&alias);
            let class =
                Reader::new(properties, &prefix, kind.keys(), &mut self.faults).optional_text(TYPE);
            if let Some(class) = &class {
                let faults = &mut self.faults;
                (self.plugins.check_aliased)(kind, &alias, class, properties, faults);
            }
            checked.push((alias, class.unwrap_or_default()));
        }
        checked
    }

    fn predicate_of(
        &mut self,
        transform: &str,
        predicates: &[(String, String)],
    ) -> Option<PredicateConfig> {
        let kind = Aliased::Transform;
        let prefix = kind.prefix(transform);
        let properties = self.settings.properties();
        let mut reader = Reader::new(properties, &prefix, kind.keys(), &mut self.faults);
        let negate = reader.boolean(NEGATE);
        let named = reader.optional_text(PREDICATE).filter(|it| !it.is_empty());
        let Some(named) = named else {
            if negate {
                reader.fault(NEGATE, format!("has no effect without {prefix}{PREDICATE}"));
            }
            return None;
        };
        let Some((alias, class)) = predicates.iter().find(|(alias, _)| *alias == named) else {
            let list = Aliased::Predicate.list_key();
            let message = format!(
                "there is no predicate {named:?}; add it to {list}, and give it a {list}.{named}.{TYPE}"
            );
            reader.fault(PREDICATE, message);
            return None;
        };
        Some(PredicateConfig {
            alias: alias.clone(),
            class: class.clone(),
            negate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::connector::tests::{faults, good, read};

    const CHAIN: &[(&str, &str)] = &[
        ("transforms", "Route, again"),
        ("transforms.Route.type", "RegexRouter"),
        ("transforms.Route.regex", "a"),
        ("transforms.Route.replacement", "b"),
        ("transforms.Route.predicate", "isA"),
        ("transforms.Route.negate", "true"),
        ("transforms.again.type", "x.RegexRouter"),
        ("transforms.again.regex", "a"),
        ("transforms.again.replacement", "b"),
        ("predicates", "isA"),
        ("predicates.isA.type", "TopicNameMatches"),
        ("predicates.isA.pattern", "a"),
    ];

    /// The chain with other values.
    fn chain(others: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        let is_other = |key: &str| others.iter().any(|(it, _)| *it == key);
        let kept = CHAIN.iter().filter(|(key, _)| !is_other(key));
        kept.chain(others).copied().collect()
    }

    #[test]
    fn transforms_keep_their_order_and_the_case_of_their_names() {
        let [route, again] = good(CHAIN).transforms.try_into().unwrap();
        let predicate = PredicateConfig {
            alias: "isA".into(),
            class: "TopicNameMatches".into(),
            negate: true,
        };
        assert_eq!((&*route.alias, &*route.class), ("Route", "RegexRouter"));
        assert_eq!(route.predicate, Some(predicate));
        assert_eq!((&*again.alias, &*again.class), ("again", "x.RegexRouter"));
        assert_eq!(again.predicate, None);
        assert!(good(&[("transforms", "")]).transforms.is_empty());
    }

    #[test]
    fn keys_belong_to_a_name_that_is_listed() {
        assert_eq!(
            faults(&chain(&[
                ("transforms.b.type", "RegexRouter"),
                ("predicates.is.type", "TopicNameMatches"),
                ("transforms.Route.regexp", "a"),
                ("predicates.isA.patern", "a"),
            ])),
            "predicates.is.type: \"is\" is not in predicates; add it there or remove the key\n\
             predicates.isA.patern: is not a known key; did you mean predicates.isA.pattern?\n\
             transforms.Route.regexp: is not a known key; did you mean transforms.Route.regex?\n\
             transforms.b.type: \"b\" is not in transforms; add it there or remove the key"
        );
    }

    #[test]
    fn a_predicate_must_be_there() {
        assert_eq!(
            faults(&chain(&[("transforms.Route.predicate", "isB")])),
            "transforms.Route.predicate: there is no predicate \"isB\"; add it to predicates, and \
             give it a predicates.isB.type"
        );
        assert_eq!(
            faults(&chain(&[("transforms.again.negate", "true")])),
            "transforms.again.negate: has no effect without transforms.again.predicate"
        );
    }

    #[test]
    fn every_name_has_a_type_and_is_there_once() {
        assert_eq!(
            faults(&[
                ("transforms", "a,b,a"),
                ("transforms.b.type", "RegexRooter"),
                ("transforms.b.any", "x"),
                ("predicates", "p"),
            ]),
            "predicates.p.type: is required and not set\n\
             transforms.a.type: is required and not set\n\
             transforms.b.type: \"RegexRooter\" is no transform\n\
             transforms: has \"a\" twice; give each transform its own name"
        );
    }

    #[test]
    fn plugins_find_their_own_faults() {
        assert_eq!(
            faults(&[("transforms", "a"), ("transforms.a.type", "RegexRouter")]),
            "transforms.a.regex: is required and not set\n\
             transforms.a.replacement: is required and not set"
        );
    }

    #[test]
    fn a_version_is_taken_with_a_note() {
        let connector = read(&chain(&[("transforms.Route.plugin.version", "4.4.0")]));
        assert_eq!(connector.faults.to_string(), "");
        let notes: Vec<_> = connector.notes.iter().map(ToString::to_string).collect();
        assert_eq!(
            notes,
            ["transforms.Route.plugin.version: has no effect here, because plugins are built in"]
        );
    }
}
