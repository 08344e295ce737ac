//! What became of one letter that is on its way.

use std::future::Future;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::sink::SinkError;

use crate::kafka::producer::Receipt;

/// The end of a letter's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Written,
    Failed(Cause),
    /// It, or another one of its batch, was refused.
    Suspect,
}

/// Tells the first word about a letter to the one who waits for it.
#[derive(Debug)]
pub(super) struct LetterReceipt(Mutex<Option<oneshot::Sender<Fate>>>);

impl LetterReceipt {
    pub(super) fn new() -> (Self, impl Future<Output = Fate>) {
        let (told, fate) = oneshot::channel();
        let fate = async { fate.await.unwrap_or_else(|_| lost()) };
        (Self(Mutex::new(Some(told))), fate)
    }

    fn tell(&self, fate: Fate) {
        if let Some(told) = self.0.lock().take() {
            // The writer may have been given up meanwhile.
            let _ = told.send(fate);
        }
    }
}

/// The producer ended with the letter on its way.
fn lost() -> Fate {
    Fate::Failed("the producer has ended".into())
}

impl Receipt for LetterReceipt {
    fn delivered(&self) {
        self.tell(Fate::Written);
    }

    fn reject(&self, cause: String) {
        self.tell(Fate::Failed(cause.into()));
    }

    fn retry(&self, cause: String) {
        self.tell(Fate::Failed(cause.into()));
    }

    fn suspect(&self) {
        self.tell(Fate::Suspect);
    }

    fn fail(&self, error: SinkError) {
        self.tell(Fate::Failed(super::cause(error)));
    }

    /// A letter that failed makes its topic doubtful in any case.
    fn denied(&self, _topic: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_word_counts() {
        let (receipt, fate) = LetterReceipt::new();
        receipt.denied("dlq");
        receipt.fail(SinkError::Unavailable("down".into()));
        receipt.delivered();
        assert_eq!(fate.await, Fate::Failed("down".into()));
    }

    #[tokio::test]
    async fn a_receipt_that_is_dropped_is_no_confirmation() {
        let (receipt, fate) = LetterReceipt::new();
        drop(receipt);
        assert_eq!(fate.await, lost());
    }
}
