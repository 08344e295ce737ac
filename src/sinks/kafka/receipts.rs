//! The records of one put that are on their way, and what became of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::sink::SinkError;
use sluice_actors::report::Report;

use crate::kafka::producer::Receipt;

/// Shared by a put and the producer's thread, which may tell the last of it
/// long after the put was given up.
#[derive(Debug)]
pub(super) struct Receipts {
    report: Report,
    open: AtomicUsize,
    all_told: Notify,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// Records of a batch that was refused: one of them, or all.
    suspects: Vec<usize>,
    denied_topic: Option<String>,
    error: Option<SinkError>,
}

impl Receipts {
    pub(super) fn new(report: Report) -> Arc<Self> {
        Arc::new(Self {
            report,
            open: AtomicUsize::new(0),
            all_told: Notify::new(),
            told: Mutex::default(),
        })
    }

    /// One for a record that is about to be sent.
    pub(super) fn receipt(self: &Arc<Self>, place: usize) -> Box<PutReceipt> {
        self.open.fetch_add(1, Ordering::AcqRel);
        Box::new(PutReceipt {
            receipts: Arc::clone(self),
            place,
            is_told: AtomicBool::new(false),
        })
    }

    pub(super) fn reject(&self, place: usize, cause: impl Into<Cause>) {
        self.report.reject(place, cause);
    }

    /// Notes what the put ends with. The worst counts, of the like the first.
    pub(super) fn fail(&self, error: SinkError) {
        let mut told = self.told.lock();
        let is_worse = match (&told.error, &error) {
            (None, _) => true,
            (Some(SinkError::Fatal(_)), _) => false,
            (Some(_), SinkError::Fatal(_)) => true,
            _ => false,
        };
        if is_worse {
            told.error = Some(error);
        }
    }

    /// Waits until every receipt has come back.
    pub(super) async fn all_told(&self) {
        loop {
            let told = self.all_told.notified();
            if self.is_settled() {
                return;
            }
            told.await;
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    pub(super) fn take_suspects(&self) -> Vec<usize> {
        std::mem::take(&mut self.told.lock().suspects)
    }

    /// A topic that the broker did not let us write to.
    pub(super) fn take_denied_topic(&self) -> Option<String> {
        self.told.lock().denied_topic.take()
    }

    /// What holds for records without an outcome.
    pub(super) fn result(&self) -> Result<(), SinkError> {
        self.told.lock().error.clone().map_or(Ok(()), Err)
    }
}

/// Travels with one record through the producer.
#[derive(Debug)]
pub(super) struct PutReceipt {
    receipts: Arc<Receipts>,
    place: usize,
    /// Whether anything was said of the record.
    is_told: AtomicBool,
}

impl Receipt for PutReceipt {
    fn delivered(&self) {
        self.tell().report.delivered(self.place);
    }

    fn reject(&self, cause: String) {
        self.tell().report.reject(self.place, cause);
    }

    fn retry(&self, cause: String) {
        self.tell().report.retry(self.place, cause);
    }

    fn suspect(&self) {
        self.tell().told.lock().suspects.push(self.place);
    }

    fn fail(&self, error: SinkError) {
        self.tell().fail(error);
    }

    fn denied(&self, topic: &str) {
        self.receipts.told.lock().denied_topic = Some(topic.to_owned());
    }
}

impl PutReceipt {
    fn tell(&self) -> &Receipts {
        self.is_told.store(true, Ordering::Release);
        &self.receipts
    }
}

/// However a receipt ends, its record is on its way no more. One that ends
/// without a word may or may not have arrived: silence would count as delivered.
impl Drop for PutReceipt {
    fn drop(&mut self) {
        if !self.is_told.load(Ordering::Acquire) {
            self.receipts.report.retry(self.place, "no delivery report");
        }
        if self.receipts.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.receipts.all_told.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use sluice_actors::outcome::Outcome;

    use super::*;

    #[test]
    fn a_receipt_that_ends_without_a_word_delivers_nothing() {
        let report = Report::new(6);
        let receipts = Receipts::new(report.clone());
        drop(receipts.receipt(0));
        receipts.receipt(1).delivered();
        receipts.receipt(2).reject("too large".to_owned());
        receipts.receipt(3).retry("timed out".to_owned());
        receipts.receipt(4).suspect();
        let denied = receipts.receipt(5);
        denied.denied("orders");
        denied.fail(SinkError::Unavailable("denied".into()));
        drop(denied);
        assert!(receipts.is_settled());
        let calls = report.every_call();
        let places: Vec<usize> = calls.iter().map(|(place, _)| *place).collect();
        assert_eq!(
            places,
            [0, 1, 2, 3],
            "each once; what is open is told by others"
        );
        assert_eq!(calls[0].1, Outcome::Retry("no delivery report".into()));
        assert_eq!(calls[1].1, Outcome::Delivered);
    }

    #[test]
    fn a_put_is_over_when_the_last_receipt_is_back_however_it_ended() {
        let receipts = Receipts::new(Report::new(2));
        let (one, other) = (receipts.receipt(0), receipts.receipt(1));
        assert!(receipts.all_told().now_or_never().is_none());
        one.delivered();
        drop(one);
        assert!(receipts.all_told().now_or_never().is_none());
        drop(other);
        assert!(receipts.all_told().now_or_never().is_some());
    }

    #[test]
    fn the_worst_error_counts() {
        let receipts = Receipts::new(Report::new(1));
        assert_eq!(receipts.result(), Ok(()));
        let (first, worst) = (
            SinkError::Unavailable("first".into()),
            SinkError::Fatal("worst".into()),
        );
        receipts.fail(first.clone());
        receipts.fail(SinkError::Unavailable("second".into()));
        assert_eq!(receipts.result(), Err(first.clone()));
        receipts.fail(worst.clone());
        receipts.fail(first);
        assert_eq!(receipts.result(), Err(worst));
    }
}
