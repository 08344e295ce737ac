//! What the endpoint is like for a while, to whoever comes.

use std::ops::Range;
use std::time::Duration;

/// How long it takes to answer when it crawls: longer than a lock lasts.
pub const CRAWL: Duration = Duration::from_secs(5);
/// So long its silence is borne, at most; longer than it crawls.
pub const PATIENCE: Duration = Duration::from_secs(6);
/// `Retry-After` of those that it wants later.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// 502 to all: each record fails by itself.
    BadGateway,
    /// 429 to all, with the time to come again.
    Throttles,
    /// It tears connections down in the middle of requests.
    Resets,
    /// It takes nothing and answers never.
    Silent,
    /// Each answer takes longer than a lock lasts; what waited for it is taken.
    Crawls,
}

impl Mood {
    pub const ALL: [Self; 5] = [
        Self::BadGateway,
        Self::Throttles,
        Self::Resets,
        Self::Silent,
        Self::Crawls,
    ];

    /// Whether whatever comes again fails again, for as long as it lasts.
    pub const fn fails_again(self) -> bool {
        matches!(self, Self::BadGateway | Self::Resets)
    }

    /// In milliseconds. A request is waited for that came when it is silent or
    /// crawls, so that few come.
    pub const fn lasts(self) -> Range<u64> {
        match self {
            Self::BadGateway | Self::Throttles | Self::Resets => 1000..3000,
            Self::Silent | Self::Crawls => 300..1000,
        }
    }

    /// So long after it what came meanwhile is done with, or comes again.
    pub const fn aftermath(self) -> Duration {
        match self {
            Self::BadGateway | Self::Resets => Duration::ZERO,
            Self::Throttles => RETRY_AFTER,
            Self::Silent | Self::Crawls => PATIENCE,
        }
    }
}
