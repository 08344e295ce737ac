//! The producers that all tasks of a connector share.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::KafkaError;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use sluice_actors::ports::sink::SinkError;

use crate::config::producer::ProducerConfig;
use crate::kafka::producer::handle::Handle;
use crate::kafka::producer::receipt::Receipt;

/// How long a broker may take to answer when it is asked apart from records.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Makes producers when they are needed, and others for those that died.
pub(crate) struct Producers<R: Receipt> {
    config: ProducerConfig,
    together: Mutex<Option<Arc<Handle<R>>>>,
    alone: Mutex<Option<Arc<Handle<R>>>>,
}

impl<R: Receipt> Producers<R> {
    pub(crate) fn new(config: ProducerConfig) -> Self {
        Self {
            config,
            together: Mutex::default(),
            alone: Mutex::default(),
        }
    }

    pub(crate) const fn config(&self) -> &ProducerConfig {
        &self.config
    }

    /// The one for all records.
    pub(crate) async fn together(&self) -> Result<Arc<Handle<R>>, SinkError> {
        self.living(&self.together, false).await
    }

    /// The one that sends each record by itself, for those whose batch was
    /// refused.
    pub(crate) async fn alone(&self) -> Result<Arc<Handle<R>>, SinkError> {
        self.living(&self.alone, true).await
    }

    /// The one for all records, after it has looked at a topic again.
    pub(crate) async fn together_after_look_up(
        &self,
        topic: String,
    ) -> Result<Arc<Handle<R>>, SinkError> {
        let handle = self.together().await?;
        let looking = Arc::clone(&handle);
        // A look that fails shows in the put that follows.
        let _ = spawn_blocking(move || looking.look_up(&topic, ANSWER_WITHIN)).await;
        Ok(handle)
    }

    async fn living(
        &self,
        slot: &Mutex<Option<Arc<Handle<R>>>>,
        alone: bool,
    ) -> Result<Arc<Handle<R>>, SinkError> {
        let mut slot = slot.lock().await;
        if let Some(handle) = slot.as_ref().filter(|handle| !handle.is_dead()) {
            return Ok(Arc::clone(handle));
        }
        let handle = self.start(alone).await?;
        *slot = Some(Arc::clone(&handle));
        Ok(handle)
    }

    async fn start(&self, alone: bool) -> Result<Arc<Handle<R>>, SinkError> {
        let config = self.config.clone();
        let started = spawn_blocking(move || {
            let mut handle = Handle::start(&config, alone)?;
            let connected = handle.connect(ANSWER_WITHIN);
            Ok((handle, connected))
        });
        match started.await {
            Ok(Ok((handle, true))) => Ok(Arc::new(handle)),
            Ok(Ok((handle, false))) => Err(self.unreachable(&handle)),
            Ok(Err(error)) => Err(SinkError::Fatal(refused(&error).into())),
            Err(_) => Err(SinkError::Retry("the worker is stopping".into())),
        }
    }

    fn unreachable(&self, handle: &Handle<R>) -> SinkError {
        let servers = self.config.client.bootstrap_servers.join(",");
        let trouble = handle
            .trouble()
            .unwrap_or_else(|| "no broker answered".into());
        SinkError::Unavailable(
            format!("cannot reach producer.override.bootstrap.servers {servers}: {trouble}").into(),
        )
    }
}

/// Without the value, which may be a secret.
fn refused(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, description, name, _) => {
            format!("producer setting {name} is not taken: {description}")
        }
        error => format!("the producer does not start: {error}"),
    }
}
