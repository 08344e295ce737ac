//! Pushes metrics now and then, and tells when it cannot.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::points::Points;
use super::{Look, Pushing};
use crate::config::metrics::MetricsConfig;
use crate::telemetry::otlp::{Failing, MetricExporter, whole};

pub(super) struct OtlpPush {
    look: Arc<OnceLock<Look>>,
    stop: CancellationToken,
    /// Ends that pushes are tried again.
    closing: CancellationToken,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl OtlpPush {
    /// Needs a runtime.
    pub(super) fn start(config: &MetricsConfig) -> Result<Self, String> {
        let pusher = Pusher {
            exporter: MetricExporter::new(&config.otlp)?,
            points: Points::new(config.temporality, SystemTime::now()),
            failing: Failing::default(),
        };
        let closing = pusher.exporter.closing();
        tracing::info!(interval = ?config.interval, "metrics are pushed");
        let (look, stop) = (Arc::default(), CancellationToken::new());
        let running = pusher.run(config.interval, Arc::clone(&look), stop.clone());
        Ok(Self {
            look,
            stop,
            closing,
            running: Mutex::new(Some(tokio::spawn(running))),
        })
    }
}

impl Pushing for OtlpPush {
    fn observe(&self, look: Look) {
        // It is one worker, all its life.
        let _ = self.look.set(look);
    }

    fn shut_down(&self, within: Duration) -> BoxFuture<'_, ()> {
        self.stop.cancel();
        self.closing.cancel();
        let running = self.running.lock().take();
        Box::pin(async move {
            if let Some(mut running) = running
                && tokio::time::timeout(within, &mut running).await.is_err()
            {
                running.abort();
            }
        })
    }
}

struct Pusher {
    exporter: MetricExporter,
    points: Points,
    failing: Failing,
}

impl Pusher {
    /// Until it is told to stop: then it pushes once more.
    async fn run(mut self, interval: Duration, look: Arc<OnceLock<Look>>, stop: CancellationToken) {
        let mut due = interval_at(Instant::now() + interval, interval);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_last = tokio::select! {
                () = stop.cancelled() => true,
                _ = due.tick() => false,
            };
            if let Some(look) = look.get() {
                let (metrics, next) = self.points.collect(&look(), SystemTime::now());
                self.push(metrics, next).await;
            }
            if is_last {
                return;
            }
        }
    }

    async fn push(&mut self, metrics: Vec<Metric>, next: Points) {
        let exported = self.exporter.export(metrics).await;
        let is_taken = exported.is_ok();
        let exported = exported.and_then(whole);
        if self.failing.changes(&exported) {
            match &exported {
                Err(error) => tracing::warn!(%error, "metrics cannot be pushed, trying on"),
                Ok(()) => tracing::info!("metrics are pushed again"),
            }
        }
        // What was refused would be refused again.
        if is_taken {
            self.points = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sluice_test_support::collector::Collector;
    use sluice_test_support::wait::eventually;
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::metrics::Temporality;
    use crate::config::otlp::{OtlpConfig, Protocol};
    use crate::telemetry::sight::WorkerSight;

    const MINUTE: Duration = Duration::from_secs(60);

    fn config(endpoint: String, interval: Duration) -> MetricsConfig {
        MetricsConfig {
            otlp: OtlpConfig {
                protocol: Protocol::Grpc,
                endpoint,
                headers: Vec::new(),
                timeout: MINUTE,
                is_packed: false,
                certificate: None,
                client: None,
                service_name: "sluice".to_owned(),
                attributes: Vec::new(),
            },
            interval,
            temporality: Temporality::Cumulative,
        }
    }

    #[tokio::test]
    async fn each_push_is_of_one_look() {
        let collector = Collector::start().await.unwrap();
        let config = config(collector.url(), Duration::from_millis(5));
        let push = OtlpPush::start(&config).unwrap();
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        push.observe(Box::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            WorkerSight::default()
        }));
        let pushed = async || match collector.pushes() {
            0..3 => Err(anyhow::anyhow!("{} pushes", collector.pushes())),
            _ => Ok(()),
        };
        eventually("it pushes on", MINUTE, pushed).await.unwrap();
        push.shut_down(MINUTE).await;
        assert_eq!(collector.pushes(), looks.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn what_was_counted_last_is_pushed_at_the_end() {
        let collector = Collector::start().await.unwrap();
        let push = OtlpPush::start(&config(collector.url(), 60 * MINUTE)).unwrap();
        push.observe(Box::new(WorkerSight::default));
        push.shut_down(MINUTE).await;
        assert_eq!(collector.pushes(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_does_not_answer_holds_the_end_up_no_longer_than_it_may() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = format!("http://{}", silent.local_addr().unwrap());
        let push = OtlpPush::start(&config(silent, MINUTE)).unwrap();
        push.observe(Box::new(WorkerSight::default));
        let began = Instant::now();
        let within = Duration::from_secs(2);
        push.shut_down(within).await;
        let took = began.elapsed();
        assert!(took >= within && took < MINUTE, "{took:?}");
    }
}
