//! Sends the records of a put, and reports each as its answer comes.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sluice_actors::chunk::Chunk;
use sluice_actors::outcome::Cause;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, SinkTraits, TaskContext};
use sluice_actors::report::Report;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::sinks::http::config::{HttpConfig, RequestSettings};
use crate::sinks::http::exchange::{Exchange, One, Signer, Verdict};
use crate::sinks::http::pause::Pause;
use crate::sinks::http::put_end::PutEnd;
use crate::sinks::http::request::{Parcel, Unfit};

/// After so long a put begins no more requests, and gives back the records
/// that it has not come to. Else a slow endpoint would make the put time out,
/// and burn attempts of records that were never tried.
const PUT_TIME: Duration = Duration::from_secs(60);

/// Makes HTTP sinks that share a client, and with it the connections.
pub struct HttpFactory {
    shared: Result<Arc<Shared>, Cause>,
    idempotent: bool,
    in_flight: usize,
    /// Where the client lives: not on the threads of the tasks, of which one
    /// may end while its connections serve others.
    runtime: Option<Handle>,
}

/// What all tasks of a connector have in common.
struct Shared {
    request: RequestSettings,
    exchange: Exchange,
    pause: Pause,
}

impl HttpFactory {
    #[must_use]
    pub fn new(config: HttpConfig) -> Self {
        let in_flight = config.in_flight;
        let shared = Shared::new(config);
        let keyed = |shared: &Arc<Shared>| shared.request.idempotency_key.is_some();
        Self {
            idempotent: shared.as_ref().is_ok_and(keyed),
            shared,
            in_flight,
            runtime: Handle::try_current().ok(),
        }
    }
}

impl Shared {
    fn new(config: HttpConfig) -> Result<Arc<Self>, Cause> {
        let (Some(request), Some(client)) = (config.request, config.client) else {
            return Err("the settings of this sink are faulty".into());
        };
        let request_timeout = client.request_timeout;
        let client = client
            .build()
            .map_err(|error| format!("no HTTP client can be made: {error}"))?;
        let exchange = Exchange {
            client,
            signer: Signer::from(config.authorization),
            settings: config.answer,
            origin: request.template.origin(),
            has_fixed_address: request.template.is_fixed(),
            request_timeout,
        };
        Ok(Arc::new(Self {
            request,
            exchange,
            pause: Pause::default(),
        }))
    }
}

impl SinkFactory for HttpFactory {
    fn traits(&self) -> SinkTraits {
        SinkTraits {
            buffers: false,
            idempotent: self.idempotent,
            blocking: false,
        }
    }

    fn create(&self, _context: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
        let shared = self
            .shared
            .as_ref()
            .map_err(|cause| SinkError::Fatal(cause.clone()))?;
        Ok(Box::new(HttpSink {
            shared: Arc::clone(shared),
            in_flight: self.in_flight,
            runtime: self.runtime.clone(),
        }))
    }
}

struct HttpSink {
    shared: Arc<Shared>,
    in_flight: usize,
    runtime: Option<Handle>,
}

#[async_trait]
impl Sink for HttpSink {
    /// An endpoint shows with the first record whether it is there.
    async fn open(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError> {
        let began = Instant::now();
        let plan = self.shared.request.plan(&chunk);
        plan.ignored
            .iter()
            .for_each(|place| report.delivered(*place));
        reject(&plan.unfit, &report);
        let mut parcels = plan.parcels.into_iter();
        let mut end = PutEnd::default();
        // Dropped with the put, it ends the requests that are under way.
        let mut running = JoinSet::new();
        loop {
            while running.len() < self.in_flight && !end.is_over {
                let Some(parcel) = parcels.next() else {
                    break;
                };
                match self.may_begin(began) {
                    Ok(()) => self.begin(&mut running, parcel, &chunk, &report),
                    error => end.answered(error),
                }
            }
            match running.join_next().await {
                None => return end.result(),
                Some(ended) => end.answered(ended.unwrap_or_else(|error| Err(broken_off(error)))),
            }
        }
    }
}

impl HttpSink {
    fn may_begin(&self, began: Instant) -> Result<(), SinkError> {
        let now = Instant::now();
        if now - began > PUT_TIME {
            let cause = format!(
                "{} is slow, records wait for their turn",
                self.shared.exchange.origin
            );
            return Err(SinkError::UnavailableFor(cause.into(), Duration::ZERO));
        }
        self.shared.pause.check(now)
    }

    fn begin(
        &self,
        running: &mut JoinSet<Result<(), SinkError>>,
        parcel: Parcel,
        chunk: &Chunk,
        report: &Report,
    ) {
        let (shared, chunk, report) = (Arc::clone(&self.shared), chunk.clone(), report.clone());
        let delivery = async move { shared.deliver(parcel, &chunk, &report).await };
        match &self.runtime {
            Some(runtime) => running.spawn_on(delivery, runtime),
            None => running.spawn(delivery),
        };
    }
}

impl Shared {
    /// Sends one request, and reports what is known of its records; the error
    /// is that of the others.
    async fn deliver(
        &self,
        mut parcel: Parcel,
        chunk: &Chunk,
        report: &Report,
    ) -> Result<(), SinkError> {
        let mut unfit = Vec::new();
        let request = self.request.make(&mut parcel, chunk, &mut unfit);
        reject(&unfit, report);
        let Some(request) = request else {
            return Ok(());
        };
        let places = &parcel.places;
        match self.exchange.send(request, places.len()).await {
            Verdict::Delivered => places.iter().for_each(|place| report.delivered(*place)),
            Verdict::Each(results) => {
                for (place, one) in places.iter().zip(results) {
                    match one {
                        One::Delivered => report.delivered(*place),
                        One::Retry(cause) => report.retry(*place, cause),
                        One::Reject(cause) => report.reject(*place, cause),
                    }
                }
            }
            Verdict::Retry(cause, wait) => {
                if let Some(wait) = wait {
                    self.pause.begin(Instant::now() + wait, cause.clone());
                }
                places
                    .iter()
                    .for_each(|place| report.retry(*place, cause.clone()));
            }
            Verdict::Reject(cause) => match places[..] {
                [place] => report.reject(place, cause),
                _ => return Err(SinkError::RejectedOne(cause)),
            },
            Verdict::Unavailable(cause, None) => return Err(SinkError::Unavailable(cause)),
            Verdict::Unavailable(cause, Some(wait)) => {
                self.pause.begin(Instant::now() + wait, cause.clone());
                return Err(SinkError::UnavailableFor(cause, wait));
            }
        }
        Ok(())
    }
}

fn reject(unfit: &[Unfit], report: &Report) {
    for Unfit { place, cause } in unfit {
        report.reject(*place, cause.as_str());
    }
}

/// A panic goes on in the task that waits; what is stopping comes again.
fn broken_off(error: JoinError) -> SinkError {
    match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => SinkError::Retry("the worker is stopping".into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::config::definition::{Faults, Properties, Reader};
    use crate::sinks::http::KEYS;

    fn sink() -> HttpSink {
        let url = ("http.url".to_owned(), "http://slow/in".to_owned());
        let (properties, mut faults) = (Properties::from([url]), Faults::default());
        let config = HttpConfig::read(&mut Reader::new(&properties, "", KEYS, &mut faults));
        HttpSink {
            shared: Shared::new(config).unwrap(),
            in_flight: 1,
            runtime: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_put_that_takes_long_gives_back_what_it_has_not_come_to() {
        let (sink, began) = (sink(), Instant::now());
        advance(PUT_TIME).await;
        assert_eq!(sink.may_begin(began), Ok(()));
        advance(Duration::from_millis(1)).await;
        let Err(SinkError::UnavailableFor(cause, wait)) = sink.may_begin(began) else {
            panic!("goes on");
        };
        assert!(cause.contains("http://slow is slow"), "{cause}");
        assert_eq!(wait, Duration::ZERO, "only until its next turn");
    }
}
