//! Topics that the worker writes itself: dead letters, and parked records.

use std::collections::BTreeMap;

use krafka::admin::{
    ConfigResource, CreateTopicsOptions, DeleteRecordsOptions, DescribeTopicsOptions, NewTopic,
    TopicPartition,
};
use krafka::error::{ErrorCode, KrafkaError};

use super::client::Admin;
use super::error::{AdminError, Attempt, code};

/// Settings without which a topic would drop what nobody has read yet.
const KEEPS_ALL: [(&str, &str); 3] = [
    ("cleanup.policy", "delete"),
    ("retention.ms", "-1"),
    ("retention.bytes", "-1"),
];

/// How many replicas must have a record before it counts as written.
const IN_SYNC: &str = "min.insync.replicas";
/// Two of so many: one broker may be away, and no single one has the only copy.
const REPLICAS_FOR_TWO: i16 = 3;
const TWO: &str = "2";

/// A topic that is created if it is not there: with one partition, as Connect
/// does.
#[derive(Clone, Copy, Debug)]
pub struct OwnTopic<'a> {
    /// Whose it is, for the log.
    pub connector: &'a str,
    pub name: &'a str,
    pub replication_factor: i16,
    /// The setting that says how many replicas there are.
    pub replication_key: &'static str,
}

/// Who created a topic.
enum Created {
    Now,
    /// Another was quicker, with settings of its own.
    Meanwhile,
}

impl Admin {
    /// Creates a topic of our own, if it is not there. Returns a warning of one
    /// that is, if it confirms what a single broker has.
    ///
    /// # Errors
    /// Missing rights, and more replicas than brokers.
    pub async fn create_own_topic(
        &self,
        topic: OwnTopic<'_>,
    ) -> Result<Option<String>, AdminError> {
        if !self.has_topic(topic.name).await?
            && let Created::Now = self.create(topic, &[]).await?
        {
            return Ok(None);
        }
        // It takes letters without the right to read its settings.
        let looked_at = self.warn_of_one_in_sync(topic.name).await;
        Ok(looked_at.unwrap_or_else(|error| {
            tracing::debug!(topic = topic.name, %error, "looking at a topic failed");
            None
        }))
    }

    /// The same for a topic that keeps all that is in it, whatever its age; one
    /// that is there already is looked at.
    ///
    /// # Errors
    /// The same, and a topic that would forget records.
    pub async fn create_lasting_topic(
        &self,
        topic: OwnTopic<'_>,
    ) -> Result<Option<String>, AdminError> {
        match self.has_topic(topic.name).await? {
            true => self.look_at_lasting(topic.name).await,
            false => self.create_lasting(topic).await,
        }
    }

    async fn create_lasting(&self, topic: OwnTopic<'_>) -> Result<Option<String>, AdminError> {
        match self.create(topic, &KEEPS_ALL).await? {
            Created::Now => Ok(None),
            Created::Meanwhile => self.look_at_lasting(topic.name).await,
        }
    }

    async fn look_at_lasting(&self, topic: &str) -> Result<Option<String>, AdminError> {
        self.check_that_it_lasts(topic).await?;
        self.warn_of_one_in_sync(topic).await
    }

    async fn warn_of_one_in_sync(&self, topic: &str) -> Result<Option<String>, AdminError> {
        let replicas = self.replicas(topic).await?.unwrap_or_default();
        let told = self.own_settings(topic, &[IN_SYNC]).await?;
        let servers = &self.bootstrap_servers;
        Ok(confirms_one(&told, replicas).then(|| {
            format!(
                "topic {topic} has {replicas} replicas and {IN_SYNC}=1: what is written while \
                 only one of them is in sync is lost with its broker, though it was confirmed; \
                 set it right with `kafka-configs.sh --bootstrap-server {servers} --alter \
                 --entity-type topics --entity-name {topic} --add-config {IN_SYNC}={TWO}`"
            )
        }))
    }

    async fn own_settings(
        &self,
        topic: &str,
        keys: &[&str],
    ) -> Result<Vec<(String, String)>, AdminError> {
        let attempt = Attempt {
            doing: "read the settings",
            right: "DESCRIBE_CONFIGS",
            resource: format!("topic {topic}"),
        };
        let told = self.settings(ConfigResource::topic(topic), keys).await;
        told.map_err(|error| attempt.failed(error))
    }

    async fn check_that_it_lasts(&self, topic: &str) -> Result<(), AdminError> {
        let keys = KEEPS_ALL.map(|(key, _)| key);
        let told = self.own_settings(topic, &keys).await?;
        match forgets(&told) {
            None => Ok(()),
            Some((setting, wanted, value)) => Err(AdminError::TopicForgets {
                topic: topic.to_owned(),
                setting,
                value: value.to_owned(),
                wanted,
                servers: self.bootstrap_servers.clone(),
            }),
        }
    }

    async fn create(
        &self,
        topic: OwnTopic<'_>,
        configs: &[(&str, &str)],
    ) -> Result<Created, AdminError> {
        let OwnTopic {
            connector,
            name,
            replication_factor,
            replication_key,
        } = topic;
        let attempt = Attempt {
            doing: "create the partition",
            right: "CREATE",
            resource: format!("topic {name}"),
        };
        match self.try_create(name, replication_factor, configs).await {
            Ok(()) => {
                tracing::info!(connector, topic = name, replication_factor, "topic created");
                Ok(Created::Now)
            }
            Err(error) if code(&error) == Some(ErrorCode::TopicAlreadyExists) => {
                Ok(Created::Meanwhile)
            }
            Err(error) if code(&error) == Some(ErrorCode::InvalidReplicationFactor) => {
                Err(AdminError::TooFewBrokers {
                    key: replication_key,
                    topic: name.to_owned(),
                    replication_factor,
                })
            }
            Err(error) => Err(attempt.failed(error)),
        }
    }

    async fn try_create(
        &self,
        topic: &str,
        replicas: i16,
        configs: &[(&str, &str)],
    ) -> Result<(), KrafkaError> {
        let mut topic = NewTopic::new(topic, 1, replicas)?;
        let in_sync = (replicas >= REPLICAS_FOR_TWO).then_some((IN_SYNC, TWO));
        topic.configs = configs
            .iter()
            .chain(&in_sync)
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let options = CreateTopicsOptions::default();
        let created = self.client.create_topics([topic], options).await?;
        created.into_values().collect()
    }

    /// Deletes the records below these offsets, by partition.
    ///
    /// # Errors
    /// Missing rights.
    pub async fn delete_below(
        &self,
        topic: &str,
        offsets: &BTreeMap<i32, i64>,
    ) -> Result<(), AdminError> {
        let attempt = Attempt {
            doing: "delete settled records",
            right: "DELETE",
            resource: format!("topic {topic}"),
        };
        let offsets = offsets.iter();
        let below = offsets.map(|(it, offset)| (TopicPartition::new(topic, *it), *offset));
        let options = DeleteRecordsOptions::default();
        let deleted = self.client.delete_records(below, options).await;
        deleted
            .and_then(|answers| answers.into_values().collect::<Result<Vec<_>, _>>())
            .map(drop)
            .map_err(|error| attempt.failed(error))
    }

    /// # Errors
    /// Missing rights.
    pub async fn has_topic(&self, topic: &str) -> Result<bool, AdminError> {
        Ok(self.replicas(topic).await?.is_some())
    }

    /// How many replicas a topic has, if it is there; the fewest of any of its
    /// partitions.
    async fn replicas(&self, topic: &str) -> Result<Option<usize>, AdminError> {
        let attempt = Attempt {
            doing: "read the description",
            // It brings DESCRIBE along, and letters need it.
            right: "WRITE",
            resource: format!("topic {topic}"),
        };
        let options = DescribeTopicsOptions::default();
        let described = self
            .client
            .describe_topics([topic.to_owned()], options)
            .await
            .and_then(|answers| answers.into_values().collect::<Result<Vec<_>, _>>());
        match described {
            Ok(topics) => {
                let partitions = topics.iter().flat_map(|topic| &topic.partitions);
                let fewest = partitions.map(|it| it.replicas.len()).min();
                Ok(Some(fewest.unwrap_or_default()))
            }
            Err(error) if code(&error) == Some(ErrorCode::UnknownTopicOrPartition) => Ok(None),
            Err(error) => Err(attempt.failed(error)),
        }
    }
}

/// A setting that is not as it must be, with the value that it should have and
/// the one that it has.
fn forgets(told: &[(String, String)]) -> Option<(&'static str, &'static str, &str)> {
    KEEPS_ALL.into_iter().find_map(|(key, wanted)| {
        let (_, value) = told.iter().find(|(name, _)| name == key)?;
        (value != wanted).then_some((key, wanted, value.as_str()))
    })
}

/// Whether a record counts as written when one of several replicas has it.
fn confirms_one(told: &[(String, String)], replicas: usize) -> bool {
    let one = |(key, value): &(String, String)| key == IN_SYNC && value == "1";
    replicas > 1 && told.iter().any(one)
}

#[cfg(test)]
mod tests {
    use krafka::Kafka;
    use krafka::testing::FakeBroker;

    use super::*;

    #[tokio::test]
    async fn a_topic_that_another_created_meanwhile_is_looked_at_too() {
        let broker = FakeBroker::start().await.unwrap();
        let servers = broker.bootstrap_servers();
        let kafka = Kafka::builder(servers.clone()).connect().await.unwrap();
        let admin = Admin::new(kafka.admin(), servers);
        let topic = |name| OwnTopic {
            connector: "orders",
            name,
            replication_factor: 1,
            replication_key: "replicas",
        };
        admin.create_lasting(topic("ours")).await.unwrap();
        broker.create_topic("theirs", 1);
        // This broker tells no settings.
        let error = admin.create_lasting(topic("theirs")).await.unwrap_err();
        let wanted = "cannot read the settings of topic theirs";
        assert!(error.to_string().starts_with(wanted), "{error}");
    }

    #[test]
    fn a_topic_that_drops_what_is_old_is_told() {
        let told = |policy: &str, ms: &str| {
            let told = [("cleanup.policy", policy), ("retention.ms", ms)];
            told.map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        assert_eq!(forgets(&told("delete", "-1")), None);
        let week = told("delete", "604800000");
        let expected = ("retention.ms", "-1", "604800000");
        assert_eq!(forgets(&week), Some(expected));
        let compacted = told("compact,delete", "-1");
        assert_eq!(forgets(&compacted).unwrap().0, "cleanup.policy");
    }

    #[test]
    fn only_a_topic_with_several_replicas_can_confirm_too_early() {
        let told = |count: &str| [(IN_SYNC.to_owned(), count.to_owned())];
        assert!(confirms_one(&told("1"), 2));
        assert!(!confirms_one(&told("2"), 3));
        assert!(!confirms_one(&told("1"), 1), "there is no other");
        assert!(!confirms_one(&[], 3), "not told");
    }
}
