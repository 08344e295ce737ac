//! What tests ask of a cluster as its administrator.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use krafka::{
    Kafka,
    admin::{
        AdminClient, ConfigOp, ConfigResource, CreateTopicsOptions, DeleteTopicsOptions,
        DescribeClusterOptions, DescribeConfigsOptions, DescribeShareGroupOffsetsOptions,
        DescribeTopicsOptions, IncrementalAlterConfigsOptions, ListConsumerGroupsOptions,
        ListOffsetsOptions, NewTopic, OffsetSpec, TopicDescription, TopicPartition,
    },
};

use crate::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A name that no other test of this process uses, for a topic or a group.
#[must_use]
pub fn unique_name(stem: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    format!("{stem}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A group as the cluster lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupState {
    /// `classic`, `consumer`, `share` or `streams`.
    pub group_type: String,
    /// `Stable`, `Empty`, ...
    pub state: String,
}

/// An administration client; it lives in the runtime that made it.
pub struct Admin {
    client: AdminClient,
}

impl Admin {
    /// Connects over PLAINTEXT.
    ///
    /// # Errors
    /// If no broker answers.
    pub async fn connect(bootstrap_servers: &str) -> Result<Self> {
        let kafka = Kafka::builder(bootstrap_servers)
            .connect_timeout(Duration::from_secs(5))
            .connect()
            .await
            .with_context(|| format!("no Kafka at {bootstrap_servers}"))?;
        let client = kafka.admin().default_api_timeout(TIMEOUT);
        Ok(Self { client })
    }

    /// krafka's own client, for calls that have no short form here.
    #[must_use]
    pub fn client(&self) -> &AdminClient {
        &self.client
    }

    /// The ids of the brokers that take part.
    ///
    /// # Errors
    /// If no broker answers.
    pub async fn live_nodes(&self) -> Result<Vec<i32>> {
        let options = DescribeClusterOptions::default().timeout(Duration::from_secs(5));
        let cluster = self.client.describe_cluster(options).await?;
        let brokers = cluster.brokers.into_iter();
        Ok(brokers
            .filter(|broker| !broker.is_fenced)
            .map(|broker| broker.id)
            .collect())
    }

    /// Creates a topic with one replica and waits until it has its leaders.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn create_topic(&self, name: &str, partitions: i32) -> Result<()> {
        self.create_topic_with(name, partitions, 1, &[]).await
    }

    /// The same with replicas and topic settings.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn create_topic_with(
        &self,
        name: &str,
        partitions: i32,
        replicas: i16,
        configs: &[(&str, &str)],
    ) -> Result<()> {
        let mut topic = NewTopic::new(name, partitions, replicas)?;
        for (key, value) in configs {
            topic = topic.with_config(*key, *value);
        }
        let results = self
            .client
            .create_topics([topic], CreateTopicsOptions::default())
            .await?;
        each(results).with_context(|| format!("cannot create topic {name}"))?;
        eventually("the topic has its leaders", TIMEOUT, async || {
            let topic = self.describe_topic(name).await?;
            match topic.partitions.iter().find(|it| it.leader.is_none()) {
                None => Ok(()),
                Some(it) => bail!("{name}-{} has no leader", it.partition),
            }
        })
        .await
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn delete_topic(&self, name: &str) -> Result<()> {
        let results = self
            .client
            .delete_topics([name], DeleteTopicsOptions::default())
            .await?;
        each(results).with_context(|| format!("cannot delete topic {name}"))
    }

    /// Id, partitions, leaders and replicas of a topic.
    ///
    /// # Errors
    /// If there is no such topic.
    pub async fn describe_topic(&self, name: &str) -> Result<TopicDescription> {
        let mut topics = self
            .client
            .describe_topics([name], DescribeTopicsOptions::default())
            .await?;
        let topic = topics.remove(name).context("the broker left it out");
        topic
            .and_then(|topic| Ok(topic?))
            .with_context(|| format!("cannot describe topic {name}"))
    }

    /// Sets settings of a topic.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn alter_topic(&self, name: &str, configs: &[(&str, &str)]) -> Result<()> {
        self.alter(ConfigResource::topic(name), configs).await
    }

    /// A setting of a topic, whoever has set it.
    ///
    /// # Errors
    /// If there is no such topic or setting.
    pub async fn topic_setting(&self, name: &str, key: &str) -> Result<String> {
        let resource = ConfigResource::topic(name);
        let options = DescribeConfigsOptions::default().config_names(vec![key.to_owned()]);
        let answers = self.client.describe_configs([resource], options).await?;
        for (_, entries) in answers {
            let mut entries = entries?.into_iter();
            if let Some(value) = entries.find(|it| it.name == key).and_then(|it| it.value) {
                return Ok(value);
            }
        }
        bail!("topic {name} has no {key}")
    }

    /// Sets settings of a group, `share.record.lock.duration.ms` for one. The
    /// group need not exist.
    ///
    /// # Errors
    /// If the broker refuses.
    pub async fn alter_group(&self, name: &str, configs: &[(&str, &str)]) -> Result<()> {
        self.alter(ConfigResource::group(name), configs).await
    }

    async fn alter(&self, resource: ConfigResource, configs: &[(&str, &str)]) -> Result<()> {
        let name = resource.name.clone();
        let changes = configs
            .iter()
            .map(|(key, value)| ConfigOp::set(*key, *value))
            .collect();
        let options = IncrementalAlterConfigsOptions::default();
        let results = self
            .client
            .incremental_alter_configs([(resource, changes)], options)
            .await?;
        each(results).with_context(|| format!("cannot set {configs:?} on {name}"))
    }

    /// The end offset of each partition.
    ///
    /// # Errors
    /// If there is no such topic.
    pub async fn end_offsets(&self, topic: &str) -> Result<BTreeMap<i32, i64>> {
        self.offsets(topic, OffsetSpec::Latest).await
    }

    /// The first offset of each partition that is not deleted.
    ///
    /// # Errors
    /// If there is no such topic.
    pub async fn start_offsets(&self, topic: &str) -> Result<BTreeMap<i32, i64>> {
        self.offsets(topic, OffsetSpec::Earliest).await
    }

    async fn offsets(&self, topic: &str, spec: OffsetSpec) -> Result<BTreeMap<i32, i64>> {
        let partitions = self.describe_topic(topic).await?.partitions;
        let specs = partitions
            .iter()
            .map(|it| (TopicPartition::new(topic, it.partition), spec));
        let offsets = self
            .client
            .list_offsets(specs, ListOffsetsOptions::default())
            .await?;
        offsets
            .into_iter()
            .map(|(partition, listed)| Ok((partition.partition, listed?.offset)))
            .collect()
    }

    /// The lag of each partition that the share group has state for; `None`
    /// as long as the broker does not know it.
    ///
    /// # Errors
    /// If there is no such share group.
    pub async fn share_group_lag(
        &self,
        group: &str,
    ) -> Result<BTreeMap<(String, i32), Option<i64>>> {
        let offsets = self
            .client
            .describe_share_group_offsets(group, DescribeShareGroupOffsetsOptions::default())
            .await
            .with_context(|| format!("cannot describe the offsets of share group {group}"))?;
        offsets
            .into_iter()
            .map(|(partition, offset)| Ok(((partition.topic, partition.partition), offset?.lag)))
            .collect()
    }

    /// Waits until the share group has state for all of `topic` and nothing of
    /// it is left to settle.
    ///
    /// # Errors
    /// If that does not come true in time; then with the lags.
    pub async fn wait_until_consumed(
        &self,
        group: &str,
        topic: &str,
        timeout: Duration,
    ) -> Result<()> {
        let partitions = self.describe_topic(topic).await?.partitions.len();
        eventually("the share group has no lag", timeout, async || {
            let mut lags = self.share_group_lag(group).await?;
            lags.retain(|(of, _), _| of == topic);
            if lags.len() == partitions && lags.values().all(|lag| *lag == Some(0)) {
                return Ok(());
            }
            bail!("lags {lags:?} over {partitions} partitions of {topic}")
        })
        .await
    }

    /// Type and state of a group, if the cluster has it.
    ///
    /// # Errors
    /// If no broker answers.
    pub async fn group(&self, name: &str) -> Result<Option<GroupState>> {
        let groups = self
            .client
            .list_consumer_groups(ListConsumerGroupsOptions::default())
            .await?;
        for (_, listed) in groups {
            if let Some(group) = listed?.into_iter().find(|group| group.group_id == name) {
                let group_type = group.group_type.map(|it| it.to_string());
                return Ok(Some(GroupState {
                    group_type: group_type.unwrap_or_default(),
                    state: group.state.unwrap_or_default(),
                }));
            }
        }
        Ok(None)
    }
}

fn each<K>(results: impl IntoIterator<Item = (K, krafka::Result<()>)>) -> Result<()> {
    for (_, result) in results {
        result?;
    }
    Ok(())
}
