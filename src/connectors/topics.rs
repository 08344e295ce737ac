//! `topics.regex`, looked up again by `metadata.max.age.ms`.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::config::connector::ConnectorConfig;
use crate::kafka::admin::{Admin, TopicSelection, TopicWatch};
use crate::kafka::share::ShareSource;

/// Keeps a source's topics up to date, until dropped, if there is a pattern.
pub(super) fn keep(
    config: &ConnectorConfig,
    selection: TopicSelection,
    admin: Arc<Admin>,
    source: Arc<ShareSource>,
    runtime: &Handle,
) -> Option<AbortOnDropHandle<()>> {
    if matches!(selection, TopicSelection::Names(_)) {
        return None;
    }
    let connector = config.name.clone();
    let max_age = config.consumer.client.metadata_max_age;
    let watching = async move {
        let mut watch = TopicWatch::new(max_age, Instant::now(), Default::default());
        loop {
            tokio::time::sleep_until(watch.due_at()).await;
            let resolved = match admin.resolve_topics(&selection).await {
                Ok(resolved) => resolved,
                Err(error) => {
                    tracing::warn!(%connector, %error, "looking up topics.regex failed");
                    watch.postpone(Instant::now());
                    continue;
                }
            };
            let names = resolved.topics.keys().map(|name| Arc::from(name.as_str()));
            let names: Vec<Arc<str>> = names.collect();
            let changes = watch.look(Instant::now(), resolved);
            for topic in changes.added {
                tracing::info!(%connector, topic = %topic.name, "topics.regex found a topic");
            }
            for topic in changes.removed {
                tracing::info!(%connector, topic = %topic.name, "topic is gone");
            }
            source.set_topics(names);
        }
    };
    Some(AbortOnDropHandle::new(runtime.spawn(watching)))
}
