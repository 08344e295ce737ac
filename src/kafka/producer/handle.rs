//! One producer of librdkafka: its delivery reports, its troubles, its end.

use std::error::Error;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::Message as _;
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::sleep;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::sink::SinkError;

use crate::config::producer::ProducerConfig;
use crate::kafka::client_config::TokenSource;
use crate::kafka::producer::receipt::Receipt;
use crate::kafka::producer::verdict::{Verdict, advice, judge};

/// librdkafka does not tell when there is room again.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(2);

pub(crate) type Outgoing<'a, R> = BaseRecord<'a, [u8], [u8], Box<R>>;

/// A producer that any number of tasks may use at once.
pub(crate) struct Handle<R: Receipt> {
    /// `None` only while it is dropped.
    producer: Option<ThreadedProducer<Deliveries<R>>>,
    /// Empty until it has connected.
    cluster_id: String,
    connector: Arc<str>,
}

impl<R: Receipt> Handle<R> {
    /// `alone`: each record travels in a batch of its own, so that a refusal
    /// is about that record.
    pub(super) fn start(config: &ProducerConfig, alone: bool) -> KafkaResult<Self> {
        let connector: Arc<str> = config.connector.as_str().into();
        let tokens = config.client.token_source();
        let context = Deliveries::new(Arc::clone(&connector), alone, tokens);
        let mut config = config.librdkafka();
        if alone {
            config.set("batch.num.messages", "1");
        }
        let producer = config.create_with_context(context)?;
        Ok(Self {
            producer: Some(producer),
            cluster_id: String::new(),
            connector,
        })
    }

    fn deliveries(&self) -> Option<&Deliveries<R>> {
        let producer = self.producer.as_ref()?;
        Some(producer.client().context())
    }

    /// Whether it is of no use any more.
    pub(super) fn is_dead(&self) -> bool {
        self.deliveries()
            .is_none_or(|deliveries| deliveries.dead.load(Ordering::Acquire))
    }

    /// What its connections have to complain about.
    pub(super) fn trouble(&self) -> Option<Cause> {
        self.deliveries()?.trouble()
    }

    /// Waits until a broker has answered. Blocks.
    pub(super) fn connect(&mut self, timeout: Duration) -> bool {
        let producer = self.producer.as_ref();
        let id = producer.and_then(|producer| producer.client().fetch_cluster_id(timeout));
        let is_connected = id.is_some();
        self.cluster_id = id.unwrap_or_default();
        is_connected
    }

    pub(crate) fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Asks about a topic anew: what was denied once is denied without a
    /// question until then. Blocks.
    pub(super) fn look_up(&self, topic: &str, timeout: Duration) {
        if let Some(producer) = &self.producer
            && let Err(error) = producer.client().fetch_metadata(Some(topic), timeout)
        {
            tracing::debug!(connector = %self.connector, topic, %error, "topic cannot be looked up");
        }
    }

    /// Hands a record over, waiting for room. Its receipt tells the rest, also
    /// when it is dropped since there is no producer.
    pub(crate) async fn send(&self, mut outgoing: Outgoing<'_, R>) {
        let Some(producer) = &self.producer else {
            return;
        };
        loop {
            let (error, returned) = match producer.send(outgoing) {
                Ok(()) => return,
                Err(refused) => refused,
            };
            if error.rdkafka_error_code() != Some(Code::QueueFull) {
                let deliveries = producer.client().context();
                return deliveries.refused(&returned.delivery_opaque, &error, returned.topic);
            }
            outgoing = returned;
            sleep(FULL_QUEUE_PAUSE).await;
        }
    }
}

/// Ending a producer waits for its threads.
impl<R: Receipt> Drop for Handle<R> {
    fn drop(&mut self) {
        let producer = self.producer.take();
        let ending = std::thread::Builder::new().name("sluice-producer-end".to_owned());
        if let Err(error) = ending.spawn(move || drop(producer)) {
            tracing::warn!(
                connector = %self.connector, %error, "no thread to end a producer, ended in place"
            );
        }
    }
}

/// Takes what librdkafka reports, on the producer's thread.
struct Deliveries<R> {
    connector: Arc<str>,
    alone: bool,
    tokens: Option<TokenSource>,
    dead: AtomicBool,
    troubled: AtomicBool,
    /// The newest complaint, and whether no broker is left.
    complaint: Mutex<Complaint>,
    receipts: PhantomData<fn(R)>,
}

#[derive(Default)]
struct Complaint {
    reason: String,
    lasts: bool,
}

impl<R: Receipt> Deliveries<R> {
    fn new(connector: Arc<str>, alone: bool, tokens: Option<TokenSource>) -> Self {
        Self {
            connector,
            alone,
            tokens,
            dead: AtomicBool::new(false),
            troubled: AtomicBool::new(false),
            complaint: Mutex::default(),
            receipts: PhantomData,
        }
    }

    fn trouble(&self) -> Option<Cause> {
        let complaint = self.complaint.lock();
        complaint.lasts.then(|| complaint.reason.as_str().into())
    }

    fn all_is_well(&self) {
        if self.troubled.swap(false, Ordering::AcqRel) {
            *self.complaint.lock() = Complaint::default();
            tracing::info!(connector = %self.connector, "producer reaches its brokers again");
        }
    }

    /// A record that the producer did not even take.
    fn refused(&self, receipt: &R, error: &KafkaError, topic: &str) {
        if error.rdkafka_error_code() == Some(Code::MessageSizeTooLarge) {
            let setting = "producer.override.max.request.size";
            return receipt.reject(format!(
                "topic {topic}: the record is larger than {setting}"
            ));
        }
        self.settle(receipt, error, topic);
    }

    /// Says what became of a record that was not delivered.
    fn settle(&self, receipt: &R, error: &KafkaError, topic: &str) {
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        let cause = || format!("topic {topic}: {code}{}", advice(code));
        match judge(code) {
            Verdict::Reject if self.alone => receipt.reject(cause()),
            Verdict::Reject => receipt.suspect(),
            Verdict::Retry => match self.trouble() {
                Some(trouble) => receipt.fail(SinkError::Unavailable(trouble)),
                None => receipt.retry(cause()),
            },
            Verdict::Unavailable => {
                receipt.denied(topic);
                receipt.fail(SinkError::Unavailable(cause().into()));
            }
            Verdict::Fatal => receipt.fail(SinkError::Fatal(cause().into())),
            Verdict::ProducerDied => {
                self.dead.store(true, Ordering::Release);
                receipt.retry(format!("{}; another producer takes over", cause()));
            }
        }
    }
}

impl<R: Receipt> ProducerContext for Deliveries<R> {
    type DeliveryOpaque = Box<R>;

    fn delivery(&self, result: &DeliveryResult<'_>, receipt: Box<R>) {
        match result {
            Ok(_) => {
                self.all_is_well();
                receipt.delivered();
            }
            Err((error, message)) => self.settle(&receipt, error, message.topic()),
        }
    }
}

impl<R: Receipt> ClientContext for Deliveries<R> {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let tokens = self.tokens.as_ref().ok_or("no token was asked for")?;
        let token = tokens.fetch_blocking()?;
        Ok(OAuthToken {
            token: token.text.reveal().to_owned(),
            principal_name: token.principal,
            lifetime_ms: token.expires_ms,
        })
    }

    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(connector = %self.connector, facility, message, "librdkafka");
    }

    /// Comes for each broker that is lost, and then once more when it was the
    /// last one.
    fn error(&self, error: KafkaError, reason: &str) {
        let Some(code) = error.rdkafka_error_code() else {
            return;
        };
        if judge(code) == Verdict::ProducerDied {
            self.dead.store(true, Ordering::Release);
            tracing::warn!(
                connector = %self.connector, error = reason,
                "producer cannot go on, another takes over"
            );
            return;
        }
        let mut complaint = self.complaint.lock();
        if code != Code::AllBrokersDown || complaint.reason.is_empty() {
            reason.clone_into(&mut complaint.reason);
        }
        complaint.lasts |= matches!(code, Code::AllBrokersDown | Code::Authentication);
        let reason = complaint.reason.clone();
        let lasts = complaint.lasts;
        drop(complaint);
        if lasts && !self.troubled.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                connector = %self.connector, error = %reason,
                "producer reaches no broker, trying on"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Notes every word.
    struct Words(Arc<Mutex<Vec<&'static str>>>);

    impl Words {
        fn say(&self, word: &'static str) {
            self.0.lock().push(word);
        }
    }

    impl Receipt for Words {
        fn delivered(&self) {
            self.say("delivered");
        }

        fn reject(&self, _: String) {
            self.say("reject");
        }

        fn retry(&self, _: String) {
            self.say("retry");
        }

        fn suspect(&self) {
            self.say("suspect");
        }

        fn fail(&self, _: SinkError) {
            self.say("fail");
        }

        fn denied(&self, _: &str) {
            self.say("denied");
        }
    }

    impl Drop for Words {
        fn drop(&mut self) {
            self.say("dropped");
        }
    }

    #[tokio::test]
    async fn what_is_handed_to_no_producer_is_not_delivered() {
        let handle = Handle {
            producer: None,
            cluster_id: String::new(),
            connector: "orders".into(),
        };
        let said = Arc::default();
        let receipt = Box::new(Words(Arc::clone(&said)));
        let outgoing = BaseRecord::with_opaque_to("orders", receipt);
        handle.send(outgoing.payload(b"x".as_slice())).await;
        assert_eq!(*said.lock(), ["dropped"]);
    }
}
