//! What can be done to workers, brokers and sinks.

use std::fmt;
use std::time::Duration;

use super::mood::Mood;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Kill(usize),
    /// SIGTERM: it drains and ends.
    Terminate(usize),
    Start(usize),
    /// SIGSTOP, for longer than the locks last.
    Freeze(usize),
    Thaw(usize),
    /// By REST.
    RestartTask {
        worker: usize,
        task: usize,
    },
    /// The connections of the veteran with all brokers.
    Cut,
    KillNode(usize),
    /// SIGTERM: its leaders move, if there are others.
    StopNode(usize),
    StartNode(usize),
    /// So many records that begin an outage of the sink at whoever gets them.
    Outage(usize),
    /// So many records that fail up to their last attempt.
    WearOut(usize),
    /// Nothing strikes before they are taken: to lose one then would archive it.
    AwaitWorn,
    /// The endpoint is so for a while.
    Endpoint(Mood, Duration),
    /// The file of a file sink is deleted, and cannot be made again.
    TakeFile(usize),
    GiveFileBack(usize),
    /// By the operator, on the group.
    SetLimit(u16),
    SetLock(Duration),
    /// All is whole, and stays so for `STILL`.
    Calm,
}

impl Deed {
    pub const fn is_mending(self) -> bool {
        matches!(
            self,
            Self::Start(_) | Self::Thaw(_) | Self::GiveFileBack(_) | Self::StartNode(_)
        )
    }

    /// Whether it ends that.
    pub fn mends(self, deed: Self) -> bool {
        match (self, deed) {
            (Self::Start(mended), Self::Kill(struck) | Self::Terminate(struck))
            | (Self::Thaw(mended), Self::Freeze(struck))
            | (Self::GiveFileBack(mended), Self::TakeFile(struck))
            | (Self::StartNode(mended), Self::KillNode(struck) | Self::StopNode(struck)) => {
                mended == struck
            }
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: Duration,
    pub deed: Deed,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7.3} s  {:?}", self.at.as_secs_f64(), self.deed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_mends_a_deed_ends_it_and_of_the_same_one() {
        let mending = [
            (Deed::Start(1), Deed::Kill(1), Deed::Kill(0)),
            (Deed::Start(1), Deed::Terminate(1), Deed::Freeze(1)),
            (Deed::Thaw(1), Deed::Freeze(1), Deed::Freeze(2)),
            (Deed::GiveFileBack(1), Deed::TakeFile(1), Deed::Kill(1)),
            (Deed::StartNode(1), Deed::KillNode(1), Deed::Kill(1)),
            (Deed::StartNode(1), Deed::StopNode(1), Deed::StopNode(2)),
        ];
        for (mends, its, other) in mending {
            assert!(mends.is_mending() && mends.mends(its), "{mends:?}");
            assert!(!mends.mends(other) && !its.is_mending(), "{mends:?}");
        }
        assert!(!Deed::Calm.is_mending() && !Deed::SetLimit(10).is_mending());
    }
}
