//! What a connector is made of: its plugins, by their classes.

use crate::config::connector::{ConnectorConfig, ConverterConfig};
use crate::plugins::{Plugin, PluginType};

/// A transform or predicate of a connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chained {
    pub alias: String,
    pub class: String,
}

/// The plugins of one connector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Make {
    pub sink: String,
    pub key_converter: String,
    pub value_converter: String,
    pub header_converter: String,
    pub transforms: Vec<Chained>,
    /// Those that a transform uses.
    pub predicates: Vec<Chained>,
}

impl Make {
    /// By the full names of classes, whatever the configuration calls them.
    #[must_use]
    pub fn of(config: &ConnectorConfig, plugins: &[Plugin]) -> Self {
        let class = |kind: PluginType, name: &str| {
            let mut plugins = plugins.iter().filter(|plugin| plugin.kind == kind);
            let plugin = plugins.find(|plugin| plugin.is_called(name));
            plugin.map_or(name, |plugin| plugin.class).to_owned()
        };
        let converter =
            |converter: &ConverterConfig| class(PluginType::Converter, &converter.class);
        let transforms = config.transforms.iter().map(|it| Chained {
            alias: it.alias.clone(),
            class: class(PluginType::Transformation, &it.class),
        });
        let used = config.transforms.iter();
        let used = used.filter_map(|transform| transform.predicate.as_ref());
        let mut predicates: Vec<Chained> = Vec::new();
        for predicate in used {
            if predicates.iter().all(|it| it.alias != predicate.alias) {
                predicates.push(Chained {
                    alias: predicate.alias.clone(),
                    class: class(PluginType::Predicate, &predicate.class),
                });
            }
        }
        Self {
            sink: class(PluginType::Sink, &config.class),
            key_converter: converter(&config.key_converter),
            value_converter: converter(&config.value_converter),
            header_converter: class(PluginType::HeaderConverter, &config.header_converter.class),
            transforms: transforms.collect(),
            predicates,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::connector::tests::good;

    #[test]
    fn classes_have_their_full_names_and_each_predicate_is_told_once() {
        let config = good(&[
            ("connector.class", "file"),
            ("key.converter", "string"),
            ("transforms", "a,b"),
            ("transforms.a.type", "RegexRouter"),
            ("transforms.a.regex", "a"),
            ("transforms.a.replacement", "b"),
            ("transforms.a.predicate", "isA"),
            ("transforms.b.type", "RegexRouter"),
            ("transforms.b.regex", "a"),
            ("transforms.b.replacement", "b"),
            ("transforms.b.predicate", "isA"),
            ("predicates", "isA"),
            ("predicates.isA.type", "TopicNameMatches"),
            ("predicates.isA.pattern", "a"),
        ]);
        let make = Make::of(&config, &crate::plugins::all());
        assert_eq!(
            make.key_converter,
            "org.apache.kafka.connect.storage.StringConverter"
        );
        assert_eq!(make.transforms.len(), 2);
        assert_eq!(make.transforms[1].alias, "b");
        let [predicate] = &make.predicates[..] else {
            panic!("{:?}", make.predicates);
        };
        assert_eq!(predicate.alias, "isA");
        assert_eq!(
            predicate.class,
            "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
        );
    }
}
