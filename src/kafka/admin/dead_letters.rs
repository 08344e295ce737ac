//! Whether the brokers' dead letters would arrive: they archive a rejected
//! record also when its letter cannot be written, so it is checked before joining.
//! Decisions are pure functions; the calls are below them.

use krafka::admin::{ConfigResource, DescribeConfigsOptions, DescribeFeaturesOptions};
use krafka::error::{ErrorCode, KrafkaError};

use super::client::Admin;
use super::error::{AdminError, Attempt, code};
use super::group_settings::{Change, Entries};

/// The group's settings; the first is Connect's name as well.
pub(super) const TOPIC_NAME: &str = "errors.deadletterqueue.topic.name";
pub(super) const COPY_RECORD: &str = "errors.deadletterqueue.copy.record.enable";
/// The topic's.
const FOR_GROUPS: &str = "errors.deadletterqueue.group.enable";
/// The brokers'.
const PREFIX: &str = "errors.deadletterqueue.topic.name.prefix";
const AUTO_CREATE: &str = "errors.deadletterqueue.auto.create.topics.enable";

const SHARE_VERSION: &str = "share.version";
/// From this level on brokers write dead letters.
const WITH_DEAD_LETTERS: i16 = 2;

/// What a broker's own settings say: that of the partition that a record is of
/// writes its letter, so that all of them count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rules {
    broker: i32,
    prefix: String,
    auto_create: bool,
}

impl Rules {
    fn read(broker: i32, told: Vec<(String, String)>) -> Self {
        let mut rules = Self {
            broker,
            ..Self::default()
        };
        for (key, value) in told {
            match key.as_str() {
                PREFIX => rules.prefix = value,
                AUTO_CREATE => rules.auto_create = value == "true",
                _ => {}
            }
        }
        rules
    }
}

/// What the cluster says about a topic of the brokers' dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ground {
    /// The finalized level; 0 if there is none.
    share_version: i16,
    /// Of each broker.
    rules: Vec<Rules>,
    /// Whether the topic takes letters of groups; `None` if it is not there.
    for_groups: Option<bool>,
}

/// What is in the way of letters to this topic, and what to do.
fn obstacle(topic: &str, ground: &Ground, servers: &str) -> Option<String> {
    let Ground {
        share_version,
        rules,
        for_groups,
    } = ground;
    if *share_version < WITH_DEAD_LETTERS {
        return Some(format!(
            "the cluster's {SHARE_VERSION} is {share_version}, and brokers write dead letters from \
             {WITH_DEAD_LETTERS} on (Kafka 4.4); raise it with `kafka-features.sh \
             --bootstrap-server {servers} upgrade --feature {SHARE_VERSION}={WITH_DEAD_LETTERS}`"
        ));
    }
    if let Some(Rules { broker, prefix, .. }) =
        rules.iter().find(|rules| !topic.starts_with(&rules.prefix))
    {
        return Some(format!(
            "broker {broker} writes dead letters only to topics whose names begin with {prefix} \
             ({PREFIX}); {}",
            prefix_remedy(topic, rules)
        ));
    }
    let creates_none = rules.iter().find(|rules| !rules.auto_create);
    match (for_groups, creates_none) {
        (None, Some(Rules { broker, .. })) => Some(format!(
            "the topic is not there, and broker {broker} does not create it \
             ({AUTO_CREATE}=false); create it with `kafka-topics.sh --bootstrap-server {servers} \
             --create --topic {topic} --config {FOR_GROUPS}=true`"
        )),
        (Some(false), _) => Some(format!(
            "the topic takes no dead letters of groups; allow it with `kafka-configs.sh \
             --bootstrap-server {servers} --alter --entity-type topics --entity-name {topic} \
             --add-config {FOR_GROUPS}=true`"
        )),
        (None | Some(true), _) => None,
    }
}

/// A name that all brokers write to, if there is one.
fn prefix_remedy(topic: &str, rules: &[Rules]) -> String {
    let prefixes = || rules.iter().map(|rules| rules.prefix.as_str());
    let longest = prefixes().max_by_key(|prefix| prefix.len());
    let longest = longest.unwrap_or_default();
    match prefixes().all(|prefix| longest.starts_with(prefix)) {
        true => format!("take {longest}{topic}"),
        false => "set the same prefix on all brokers".to_owned(),
    }
}

/// The brokers' dead letters of a group, as the start has left them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerLetters {
    pub topic: String,
    /// Whether they have key and value; not if an operator had switched that off
    /// on the group before.
    pub with_contents: bool,
}

impl BrokerLetters {
    /// What the operator should know.
    #[must_use]
    pub fn warning(&self, group: &str) -> Option<String> {
        let topic = &self.topic;
        (!self.with_contents).then(|| {
            format!(
                "{COPY_RECORD}=false is set on share group {group} already and is kept: dead \
                 letters in {topic} have neither key nor value"
            )
        })
    }

    /// Which setting of the group is not as it was left, and what stands there.
    fn changed(&self, entries: &Entries) -> Option<(&'static str, String)> {
        let wanted = [
            (TOPIC_NAME, Some(&*self.topic)),
            (COPY_RECORD, self.with_contents.then_some("true")),
        ];
        wanted.into_iter().find_map(|(key, wanted)| {
            let entry = entries.get(key);
            let found = entry.map_or("", |entry| &entry.value);
            let found = if found.is_empty() { "unset" } else { found };
            (wanted? != found).then(|| (key, found.to_owned()))
        })
    }
}

/// What to set on the group for these letters. An operator's other topic stays
/// his, and the connector does not start.
fn plan(topic: &str, entries: &Entries) -> Result<(BrokerLetters, Vec<Change>), String> {
    let set = |key, value: &str| Change {
        key,
        value: value.to_owned(),
        asked: true,
    };
    let mut letters = BrokerLetters {
        topic: topic.to_owned(),
        with_contents: true,
    };
    let mut changes = Vec::new();
    match entries.get(TOPIC_NAME) {
        Some(entry) if entry.value == topic => {}
        Some(entry) if entry.of_group && !entry.value.is_empty() => {
            return Err(entry.value.clone());
        }
        _ => changes.push(set(TOPIC_NAME, topic)),
    }
    match entries.get(COPY_RECORD) {
        Some(entry) if entry.value == "true" => {}
        Some(entry) if entry.of_group => letters.with_contents = false,
        _ => changes.push(set(COPY_RECORD, "true")),
    }
    Ok((letters, changes))
}

impl Admin {
    /// Makes a share group's rejected records go to the brokers' dead-letter
    /// topic, never over what an operator has set.
    ///
    /// # Errors
    /// Whatever would keep a letter from arriving.
    pub async fn prepare_broker_dead_letters(
        &self,
        group: &str,
        topic: &str,
    ) -> Result<BrokerLetters, AdminError> {
        self.check_ground(topic).await??;
        let entries = self.group_entries(group).await?;
        let planned = plan(topic, &entries).map_err(|theirs| AdminError::OtherDeadLetters {
            group: group.to_owned(),
            ours: topic.to_owned(),
            theirs,
        });
        let (letters, changes) = planned?;
        for change in &changes {
            self.set(group, change).await.map_err(|error| {
                let attempt = Attempt {
                    doing: "set errors.deadletterqueue.* among the settings",
                    right: "ALTER_CONFIGS",
                    resource: format!("group {group}"),
                };
                attempt.failed(error)
            })?;
        }
        if !changes.is_empty() {
            self.shown(group, &changes).await?;
        }
        Ok(letters)
    }

    /// Whether a group's letters still arrive as they were prepared; nothing is
    /// set.
    ///
    /// # Errors
    /// The outer one: it cannot be seen. The inner one is what is in the way.
    pub async fn check_broker_dead_letters(
        &self,
        group: &str,
        letters: &BrokerLetters,
    ) -> Result<Result<(), AdminError>, AdminError> {
        if let Err(obstacle) = self.check_ground(&letters.topic).await? {
            return Ok(Err(obstacle));
        }
        let entries = self.group_entries(group).await?;
        let changed = letters.changed(&entries);
        let (group, topic) = (group.to_owned(), letters.topic.clone());
        let servers = self.bootstrap_servers.clone();
        Ok(match changed {
            None => Ok(()),
            Some((COPY_RECORD, found)) => Err(AdminError::LettersWithoutContents {
                group,
                topic,
                found,
                servers,
            }),
            Some((_, theirs)) => Err(AdminError::DeadLettersTakenAway {
                group,
                topic,
                theirs,
                servers,
            }),
        })
    }

    async fn check_ground(&self, topic: &str) -> Result<Result<(), AdminError>, AdminError> {
        let ground = self.ground(topic).await?;
        let obstacle = obstacle(topic, &ground, &self.bootstrap_servers);
        let topic = topic.to_owned();
        Ok(match obstacle {
            None => Ok(()),
            Some(obstacle) => Err(AdminError::NoDeadLetters { topic, obstacle }),
        })
    }

    async fn ground(&self, topic: &str) -> Result<Ground, AdminError> {
        let share_version = self.share_version().await?;
        if share_version < WITH_DEAD_LETTERS {
            // Older brokers know none of the rest.
            return Ok(Ground {
                share_version,
                rules: Vec::new(),
                for_groups: None,
            });
        }
        Ok(Ground {
            share_version,
            rules: self.brokers_rules().await?,
            for_groups: self.takes_letters_of_groups(topic).await?,
        })
    }

    async fn share_version(&self) -> Result<i16, AdminError> {
        let attempt = Attempt {
            doing: "read the features",
            right: "DESCRIBE",
            resource: "the cluster".to_owned(),
        };
        let features = self
            .client
            .describe_features(DescribeFeaturesOptions::default())
            .await
            .map_err(|error| attempt.failed(error))?;
        let mut finalized = features.finalized.iter();
        let level = finalized.find(|feature| feature.name == SHARE_VERSION);
        Ok(level.map_or(0, |feature| feature.max_version_level))
    }

    async fn brokers_rules(&self) -> Result<Vec<Rules>, AdminError> {
        let attempt = Attempt {
            doing: "read the settings",
            right: "DESCRIBE_CONFIGS",
            resource: "the cluster".to_owned(),
        };
        let cluster = self.describe_cluster(&attempt).await?;
        let mut rules = Vec::new();
        for broker in cluster.brokers {
            let resource = ConfigResource::broker(broker.id);
            let told = self.settings(resource, &[PREFIX, AUTO_CREATE]).await;
            let told = told.map_err(|error| attempt.failed(error))?;
            rules.push(Rules::read(broker.id, told));
        }
        Ok(rules)
    }

    async fn takes_letters_of_groups(&self, topic: &str) -> Result<Option<bool>, AdminError> {
        let attempt = Attempt {
            doing: "read the settings",
            right: "DESCRIBE_CONFIGS",
            resource: format!("topic {topic}"),
        };
        let resource = ConfigResource::topic(topic);
        match self.settings(resource, &[FOR_GROUPS]).await {
            Ok(told) => {
                let is_on = |(key, value): &(String, String)| key == FOR_GROUPS && value == "true";
                Ok(Some(told.iter().any(is_on)))
            }
            Err(error) if code(&error) == Some(ErrorCode::UnknownTopicOrPartition) => Ok(None),
            Err(error) => Err(attempt.failed(error)),
        }
    }

    pub(super) async fn settings(
        &self,
        resource: ConfigResource,
        keys: &[&str],
    ) -> Result<Vec<(String, String)>, KrafkaError> {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let options = DescribeConfigsOptions::default().config_names(keys);
        let mut answers = self
            .client
            .describe_configs([resource.clone()], options)
            .await?;
        let entries = answers
            .remove(&resource)
            .unwrap_or_else(|| Ok(Vec::new()))?;
        let told = entries.into_iter();
        Ok(told
            .filter_map(|entry| Some((entry.name, entry.value?)))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::group_settings::Entry;
    use super::*;

    fn rules(broker: i32, prefix: &str, auto_create: &str) -> Rules {
        let told = [(PREFIX, prefix), (AUTO_CREATE, auto_create), ("other", "x")];
        let told = told.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Rules::read(broker, told.into())
    }

    fn ground() -> Ground {
        Ground {
            share_version: 2,
            rules: vec![rules(1, "dlq.", "false"), rules(2, "dlq.", "false")],
            for_groups: Some(true),
        }
    }

    fn obstacle_of(topic: &str, ground: &Ground) -> String {
        obstacle(topic, ground, "kafka:9092").unwrap_or_default()
    }

    fn entries(listed: &[(&str, &str, bool)]) -> Entries {
        let entry = |(key, value, of_group): &(&str, &str, bool)| {
            let value = (*value).to_owned();
            let of_group = *of_group;
            ((*key).to_owned(), Entry { value, of_group })
        };
        listed.iter().map(entry).collect()
    }

    fn set(changes: &[Change]) -> Vec<(&str, &str)> {
        let changes = changes.iter();
        changes
            .map(|change| (change.key, change.value.as_str()))
            .collect()
    }

    #[test]
    fn a_topic_that_takes_letters_is_in_nobodys_way() {
        assert_eq!(obstacle_of("dlq.orders", &ground()), "");
        let to_be_created = Ground {
            rules: vec![rules(1, "dlq.", "true"), rules(2, "", "true")],
            for_groups: None,
            ..ground()
        };
        assert_eq!(obstacle_of("dlq.orders", &to_be_created), "");
    }

    #[test]
    fn each_broker_has_its_own_prefix_and_the_one_that_is_in_the_way_is_named() {
        let text_with = |prefix| {
            let ground = Ground {
                rules: vec![rules(1, "dlq.", "false"), rules(2, prefix, "false")],
                ..ground()
            };
            obstacle_of("dlq.orders", &ground)
        };
        assert_eq!(text_with(""), "", "any name");
        let text = text_with("dlq.eu.");
        assert!(
            text.starts_with("broker 2 writes dead letters only"),
            "{text}"
        );
        assert!(text.ends_with("take dlq.eu.dlq.orders"), "{text}");
        let text = text_with("dead.");
        assert!(
            text.ends_with("set the same prefix on all brokers"),
            "{text}"
        );
    }

    #[test]
    fn a_topic_that_one_broker_would_not_create_must_be_there() {
        let text_for = |for_groups| {
            let ground = Ground {
                rules: vec![rules(1, "dlq.", "true"), rules(2, "dlq.", "false")],
                for_groups,
                ..ground()
            };
            obstacle_of("dlq.orders", &ground)
        };
        let text = text_for(None);
        assert!(text.contains("broker 2 does not create it"), "{text}");
        assert_eq!(text_for(Some(true)), "");
    }

    #[test]
    fn whatever_would_keep_letters_away_is_told_with_its_remedy() {
        let old = Ground {
            share_version: 1,
            ..ground()
        };
        let text = obstacle_of("dlq.orders", &old);
        assert!(
            text.contains("upgrade --feature share.version=2`"),
            "{text}"
        );
        let text = obstacle_of("orders-dead", &ground());
        assert!(text.contains("take dlq.orders-dead"), "{text}");
        let missing = Ground {
            for_groups: None,
            ..ground()
        };
        let text = obstacle_of("dlq.orders", &missing);
        assert!(text.contains("kafka-topics.sh"), "{text}");
        let closed = Ground {
            for_groups: Some(false),
            ..ground()
        };
        let text = obstacle_of("dlq.orders", &closed);
        assert!(
            text.contains("--add-config errors.deadletterqueue.group.enable=true`"),
            "{text}"
        );
    }

    fn letters(with_contents: bool) -> BrokerLetters {
        BrokerLetters {
            topic: "dlq.orders".to_owned(),
            with_contents,
        }
    }

    #[test]
    fn a_fresh_group_gets_the_topic_and_letters_with_their_payload() {
        let fresh = entries(&[(TOPIC_NAME, "", false), (COPY_RECORD, "false", false)]);
        let (planned, changes) = plan("dlq.orders", &fresh).unwrap();
        assert_eq!(
            set(&changes),
            [(TOPIC_NAME, "dlq.orders"), (COPY_RECORD, "true")]
        );
        assert_eq!(
            (planned.warning("share-orders"), planned),
            (None, letters(true))
        );
    }

    #[test]
    fn a_topic_that_is_taken_away_or_replaced_is_told_by_what_stands_there() {
        let copies = (COPY_RECORD, "true", true);
        let changed = |value| letters(true).changed(&entries(&[(TOPIC_NAME, value, true), copies]));
        assert_eq!(changed("dlq.orders"), None);
        let to = |found: &str| Some((TOPIC_NAME, found.to_owned()));
        assert_eq!(changed("dlq.theirs"), to("dlq.theirs"));
        assert_eq!(changed(""), to("unset"));
        assert_eq!(letters(true).changed(&Entries::new()), to("unset"));
    }

    #[test]
    fn letters_that_would_lose_their_contents_are_told_but_where_they_had_none() {
        let topic = (TOPIC_NAME, "dlq.orders", true);
        let off = [(COPY_RECORD, "false", true), (COPY_RECORD, "false", false)];
        for copies in off.map(|off| entries(&[topic, off])) {
            let expected = Some((COPY_RECORD, "false".to_owned()));
            assert_eq!(letters(true).changed(&copies), expected);
            assert_eq!(letters(false).changed(&copies), None, "it was so before");
        }
        let back = entries(&[topic, (COPY_RECORD, "true", true)]);
        assert_eq!(letters(true).changed(&back), None);
    }

    #[test]
    fn an_operators_choice_is_never_set_over() {
        let theirs = entries(&[
            (TOPIC_NAME, "dlq.theirs", true),
            (COPY_RECORD, "true", true),
        ]);
        assert_eq!(plan("dlq.orders", &theirs), Err("dlq.theirs".to_owned()));
        let no_copy = entries(&[
            (TOPIC_NAME, "dlq.orders", true),
            (COPY_RECORD, "false", true),
        ]);
        let (planned, changes) = plan("dlq.orders", &no_copy).unwrap();
        assert_eq!((set(&changes), &planned), (vec![], &letters(false)));
        let warning = planned.warning("share-orders").unwrap();
        assert!(warning.contains("neither key nor value"), "{warning}");
    }
}
