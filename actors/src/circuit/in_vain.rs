//! An outage that no put has told of as such: all in hand came to nothing. They
//! may be to blame themselves, all of them, so that others are let in after
//! each rest. Pure; the time is passed in.

use tokio::time::Instant;

use crate::outcome::Cause;
use crate::retry::RetryPolicy;

/// The most that are let in after one rest; as many as any window holds.
const MOST_DOUBLINGS: u32 = 16;

/// What there is in a row, while nothing is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vain {
    Records(usize),
    /// That took too long.
    Puts(usize),
}

impl Vain {
    fn told(self, cause: &Cause) -> Cause {
        let what = match self {
            Self::Records(records) => format!("{records} records and more failed in a row"),
            Self::Puts(puts) => {
                format!("{puts} puts in a row took longer than share.delivery.timeout.ms")
            }
        };
        cause.behind(&format!("{what}, none was delivered since"))
    }

    /// How many are let in after so many rests. Where all in hand are tried,
    /// twice as many each time, or those behind hundreds that fail would wait
    /// for hours. Where one probes there is no use in more than one.
    const fn lot(self, rests: u32) -> usize {
        match self {
            Self::Puts(_) => 1,
            Self::Records(_) if rests < MOST_DOUBLINGS => 1 << rests,
            Self::Records(_) => 1 << MOST_DOUBLINGS,
        }
    }
}

/// Records that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InHand {
    pub(crate) open: usize,
    /// Those that were never put, of whatever topic.
    pub(crate) untried: usize,
}

/// What is fetched: records of the connector's own topics, or of the one that
/// it parks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetch {
    OfTopics,
    OfParked,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct InVain {
    pub(super) vain: Vain,
    of_topics: LetIn,
    parked: LetIn,
}

impl InVain {
    /// Lets none in before this.
    pub(super) const fn new(vain: Vain, next_at: Instant) -> Self {
        let none = LetIn {
            limit: 0,
            rests: 0,
            next_at,
        };
        Self {
            vain,
            of_topics: none,
            parked: none,
        }
    }

    pub(super) fn told(&self, cause: &Cause) -> Cause {
        self.vain.told(cause)
    }

    /// How many such records may be open.
    pub(super) fn bound(
        &mut self,
        fetch: Fetch,
        hand: InHand,
        policy: &RetryPolicy,
        now: Instant,
    ) -> usize {
        let let_in = match fetch {
            Fetch::OfTopics => &mut self.of_topics,
            Fetch::OfParked => &mut self.parked,
        };
        let_in.bound(hand, self.vain, policy, now)
    }
}

/// Of one source.
#[derive(Clone, Copy, Debug)]
struct LetIn {
    /// So many may be open.
    limit: usize,
    rests: u32,
    next_at: Instant,
}

impl LetIn {
    /// The next rest begins when those let in before have come, and have been
    /// tried: a topic that was empty for an hour has not saved up for a herd.
    fn bound(&mut self, hand: InHand, vain: Vain, policy: &RetryPolicy, now: Instant) -> usize {
        if hand.open < self.limit || hand.untried > 0 {
            self.next_at = now + policy.delay(self.rests, 1.0);
        } else if self.next_at <= now {
            self.limit = hand.open + vain.lot(self.rests);
            self.rests += 1;
            self.next_at = now + policy.delay(self.rests, 1.0);
        }
        self.limit
    }
}
