//! What the books do with records that cannot be delivered.

use tokio::time::Instant;

use crate::parking::ParkingPolicy;
use crate::retry::RetryPolicy;
use crate::terms::Terms;

/// `errors.tolerance`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tolerance {
    /// The first record that can never be delivered fails the connector.
    #[default]
    None,
    /// Such records are put aside, and the connector runs on.
    All,
}

/// `share.retriable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retriable {
    /// A record that the sink wants again keeps its lock, and is put again.
    #[default]
    Hold,
    /// It goes back at once, as KIP-1302 says, if the gate lets it.
    Release,
}

/// What becomes of a record that the sink wants again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    At(Instant),
    Release,
    PutAside,
    Park,
}

/// The rules of one connector.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub tolerance: Tolerance,
    pub retry: RetryPolicy,
    pub retriable: Retriable,
    pub terms: Terms,
    /// `max.put.records`.
    pub max_put_records: usize,
    pub tasks: usize,
    /// `share.max.in.flight.records`; `None` adapts.
    pub max_in_flight_records: Option<usize>,
    /// `None`: no record is parked.
    pub parking: Option<ParkingPolicy>,
}

impl Policy {
    /// `next_try` is when to put it again by the retry policy, if at all. On
    /// its last attempt a record is never released: past its time it is put
    /// aside, if that is tolerated, and otherwise held and tried on.
    pub(super) fn again(
        &self,
        delivery_count: u16,
        next_try: Option<Instant>,
        now: Instant,
    ) -> Again {
        let may_release = self.terms.gate.may_release(delivery_count);
        match (next_try, self.retriable, self.tolerance) {
            (_, Retriable::Release, _) | (None, Retriable::Hold, _) if may_release => {
                Again::Release
            }
            (Some(at), ..) => Again::At(at),
            (None, _, Tolerance::All) => Again::PutAside,
            (None, _, Tolerance::None) => Again::At(now + self.retry.max_delay),
        }
    }
}
