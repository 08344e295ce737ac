//! Makes sure, before a connector joins, that its dead letters would arrive.

use std::sync::Arc;

use sluice_actors::ports::dead_letter::DeadLetterQueue;

use super::start::{StartError, admin};
use crate::config::connector::{
    ConnectorConfig, DEAD_LETTER_REPLICATION, DEAD_LETTER_TOPIC, DeadLetters, WrittenDeadLetters,
};
use crate::kafka::admin::{Admin, BrokerLetters, OwnTopic};
use crate::kafka::dead_letters::{Context, DeadLetterTopic};

const SERVERS: &str = "producer.override.bootstrap.servers";

/// Who writes a connector's letters; nobody may.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) ours: Option<Arc<dyn DeadLetterQueue>>,
    pub(super) brokers: Option<BrokerLetters>,
}

/// `source` is the admin side of the cluster that is read.
pub(super) async fn prepare(
    config: &ConnectorConfig,
    source: &Admin,
) -> Result<Prepared, StartError> {
    match &config.dead_letters {
        DeadLetters::None => Ok(Prepared::default()),
        DeadLetters::Broker { topic } => {
            let group = &config.share.group_id;
            let letters = source.prepare_broker_dead_letters(group, topic).await?;
            if let Some(warning) = letters.warning(group) {
                tracing::warn!(connector = %config.name, "{warning}");
            }
            Ok(Prepared {
                brokers: Some(letters),
                ..Prepared::default()
            })
        }
        DeadLetters::Sluice(written) => {
            let target = admin(&written.producer.client, SERVERS).await?;
            check_loop(config, written, source, &target).await?;
            let topic = OwnTopic {
                connector: &config.name,
                name: &written.topic,
                replication_factor: written.replication_factor,
                replication_key: DEAD_LETTER_REPLICATION,
            };
            if let Some(warning) = target.create_own_topic(topic).await? {
                tracing::warn!(connector = %config.name, "{warning}");
            }
            let context = Context::of(config);
            Ok(Prepared {
                ours: Some(Arc::new(DeadLetterTopic::new(written, context))),
                ..Prepared::default()
            })
        }
    }
}

/// One cluster may go by several addresses, so that only its id tells whether
/// a topic of that name is read.
async fn check_loop(
    config: &ConnectorConfig,
    written: &WrittenDeadLetters,
    source: &Admin,
    target: &Admin,
) -> Result<(), StartError> {
    let topic = &written.topic;
    if config.topics.contains(topic) && source.cluster_id().await? == target.cluster_id().await? {
        return Err(StartError::Refused(format!(
            "{DEAD_LETTER_TOPIC}: {topic} is read by this connector in the same cluster, so that \
             its dead letters would come round for ever; name another topic"
        )));
    }
    Ok(())
}
