//! Exactly-once, Kafka to Kafka: outputs and the fact "this record was
//! processed" in one transaction.

use async_trait::async_trait;

use crate::outcome::Cause;
use crate::record::{RecordId, SinkRecord};

/// What is known about records that a transaction wants to process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody has processed them; they are ours until commit or abort.
    Free,
    /// These were processed by a committed transaction: accept them, and
    /// claim the others anew.
    Done(Vec<RecordId>),
    /// Another transaction has claimed some of them and is neither committed
    /// nor aborted: abort, keep the locks, try again after a back-off.
    Undecided,
}

/// Why a step of a transaction failed. The transaction must be aborted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// May work with the next transaction.
    #[error("{0}")]
    Abortable(Cause),
    /// Whether the commit took hold is not known; the claims tell. Never
    /// committed again blindly.
    #[error("{0}")]
    Unknown(Cause),
    /// The producer is of no use any more.
    #[error("{0}")]
    Fatal(Cause),
}

/// One transaction at a time, for records of one source partition.
///
/// The order is claim, stage, commit; abort is allowed at any time and final.
/// Records are accepted in the share group only after commit has answered, or
/// when a claim says that they are done.
#[async_trait]
pub trait Transaction: Send {
    async fn claim(&mut self, records: &[RecordId]) -> Result<Claim, TransactionError>;
    /// Produces outputs and dead letters; each is confirmed by the commit only.
    async fn stage(
        &mut self,
        outputs: &[SinkRecord],
        dead_letters: &[SinkRecord],
    ) -> Result<(), TransactionError>;
    async fn commit(&mut self) -> Result<(), TransactionError>;
    async fn abort(&mut self) -> Result<(), TransactionError>;
}
