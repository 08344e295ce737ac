//! Our own topic of dead letters.

use krafka::admin::{CreateTopicsOptions, DescribeTopicsOptions, NewTopic};
use krafka::error::{ErrorCode, KrafkaError};

use super::client::Admin;
use super::error::{AdminError, Attempt, code};

impl Admin {
    /// Creates our own topic of dead letters, if it is not there: with one
    /// partition, as Connect does.
    ///
    /// # Errors
    /// Missing rights, and more replicas than brokers.
    pub async fn create_dead_letter_topic(
        &self,
        topic: &str,
        replication_factor: i16,
    ) -> Result<(), AdminError> {
        if self.has_topic(topic).await? {
            return Ok(());
        }
        let attempt = Attempt {
            doing: "create the partition",
            right: "CREATE",
            resource: format!("topic {topic}"),
        };
        let created = self.create_topic(topic, replication_factor).await;
        match created {
            Ok(()) => {
                tracing::info!(topic, replication_factor, "dead-letter topic created");
                Ok(())
            }
            // Another worker was quicker.
            Err(error) if code(&error) == Some(ErrorCode::TopicAlreadyExists) => Ok(()),
            Err(error) if code(&error) == Some(ErrorCode::InvalidReplicationFactor) => {
                Err(AdminError::TooFewBrokers {
                    topic: topic.to_owned(),
                    replication_factor,
                })
            }
            Err(error) => Err(attempt.failed(error)),
        }
    }

    async fn create_topic(&self, topic: &str, replicas: i16) -> Result<(), KrafkaError> {
        let topic = NewTopic::new(topic, 1, replicas)?;
        let options = CreateTopicsOptions::default();
        let created = self.client.create_topics([topic], options).await?;
        created.into_values().collect()
    }

    async fn has_topic(&self, topic: &str) -> Result<bool, AdminError> {
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
            Ok(_) => Ok(true),
            Err(error) if code(&error) == Some(ErrorCode::UnknownTopicOrPartition) => Ok(false),
            Err(error) => Err(attempt.failed(error)),
        }
    }
}
