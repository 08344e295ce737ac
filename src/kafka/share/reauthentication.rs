//! When a session's connection is authenticated anew, in place (KIP-368): the
//! broker closes a connection whose credentials have ended, and what is held
//! over it has used up a delivery attempt.
//!
//! Fresh credentials are fetched beside the session's requests, and sent
//! between two of them: the broker takes no other request while it looks at
//! them.

use std::sync::Arc;
use std::time::Duration;

use krafka::auth::AuthConfig;
use tokio::time::Instant;

use super::wire;

/// How long a connection's credentials hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    /// From then on fresh ones are due.
    renew_at: Instant,
    ends_at: Instant,
}

impl Validity {
    /// The last tenth is left for the renewal.
    pub(super) fn new(granted_at: Instant, ends_at: Instant) -> Self {
        let lifetime = ends_at.saturating_duration_since(granted_at);
        Self {
            renew_at: granted_at + lifetime * 9 / 10,
            ends_at,
        }
    }
}

/// The credentials of a session's connection, and those that follow them.
#[derive(Debug, Default)]
pub(super) struct Reauthentication {
    /// `None` when they hold for ever, or when there is no connection.
    validity: Option<Validity>,
    fresh: Fresh,
    /// How often in a row there were no fresh ones.
    failures: u32,
}

#[derive(Debug, Default)]
enum Fresh {
    #[default]
    Unasked,
    /// On their way here, or to the broker.
    Asked,
    AtHand(Arc<AuthConfig>),
    /// There were none; to be asked for again then.
    AskAgain(Instant),
}

impl Reauthentication {
    /// What the broker granted, as each answer has it; whether that ends a
    /// trouble.
    pub(super) fn granted(&mut self, validity: Option<Validity>) -> bool {
        if self.validity == validity {
            return false;
        }
        self.disconnected();
        self.validity = validity;
        std::mem::take(&mut self.failures) > 0
    }

    /// The next connection logs in by itself.
    pub(super) fn disconnected(&mut self) {
        self.validity = None;
        self.fresh = Fresh::Unasked;
    }

    /// Whether fresh credentials are to be fetched now.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        let asks = self.ask_at().is_some_and(|at| at <= now);
        if asks {
            self.fresh = Fresh::Asked;
        }
        asks
    }

    fn ask_at(&self) -> Option<Instant> {
        match self.fresh {
            Fresh::Unasked => self.validity.map(|validity| validity.renew_at),
            Fresh::AskAgain(at) => Some(at),
            Fresh::Asked | Fresh::AtHand(_) => None,
        }
    }

    /// Fresh credentials, or (`None`) there are none now; whether they were
    /// awaited still, and not for a connection that is gone.
    pub(super) fn fetched(&mut self, fresh: Option<Arc<AuthConfig>>, now: Instant) -> bool {
        if !matches!(self.fresh, Fresh::Asked) {
            return false;
        }
        self.fresh = match fresh {
            Some(fresh) => Fresh::AtHand(fresh),
            None => {
                self.failures += 1;
                Fresh::AskAgain(now + wire::backoff(self.failures))
            }
        };
        true
    }

    /// What to send to the broker before anything else.
    pub(super) fn take_fresh(&mut self) -> Option<Arc<AuthConfig>> {
        match std::mem::replace(&mut self.fresh, Fresh::Asked) {
            Fresh::AtHand(fresh) => Some(fresh),
            other => {
                self.fresh = other;
                None
            }
        }
    }

    /// How long the session may be busy with one request; zero from the time
    /// on that fresh credentials are due.
    pub(super) fn until_due(&self, now: Instant) -> Option<Duration> {
        let validity = self.validity?;
        Some(validity.renew_at.saturating_duration_since(now))
    }

    /// There may be no fresh credentials in time: for so long before the end
    /// nothing new is begun, so that little is open then.
    pub(super) fn is_draining(&self, now: Instant, span: Duration) -> bool {
        let ends_at = self.validity.map(|validity| validity.ends_at);
        self.failures > 0 && ends_at.is_some_and(|end| now + span >= end)
    }

    /// There were no fresh ones until the end: the connection is to be
    /// replaced.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.failures > 0 && self.has_ended(now)
    }

    /// The end came while the first ones are on their way, which the broker
    /// takes even then, but nothing before them.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.failures == 0 && self.has_ended(now) && matches!(self.fresh, Fresh::Asked)
    }

    fn has_ended(&self, now: Instant) -> bool {
        self.validity
            .is_some_and(|validity| validity.ends_at <= now)
    }

    /// When any of this changes.
    pub(super) fn wake_at(&self) -> impl Iterator<Item = Instant> {
        let ends_at = self.validity.map(|validity| validity.ends_at);
        self.ask_at().into_iter().chain(ends_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: Duration = Duration::from_secs(30);
    const HOUR: Duration = Duration::from_secs(3600);
    const TENTH: Duration = Duration::from_secs(360);

    fn fresh() -> Arc<AuthConfig> {
        Arc::new(AuthConfig::sasl_plain("alice", "hush"))
    }

    fn granted(now: Instant) -> Reauthentication {
        let mut credentials = Reauthentication::default();
        credentials.granted(Some(Validity::new(now, now + HOUR)));
        credentials
    }

    #[test]
    fn fresh_credentials_are_asked_for_once_in_the_last_tenth() {
        let now = Instant::now();
        let mut credentials = granted(now);
        let due = now + HOUR - TENTH;
        assert_eq!(credentials.until_due(now), Some(HOUR - TENTH));
        assert_eq!(credentials.wake_at().next(), Some(due));
        assert!(!credentials.ask(due - Duration::from_millis(1)));
        assert!(credentials.ask(due));
        assert!(!credentials.ask(due));
        assert!(credentials.take_fresh().is_none());
        credentials.fetched(Some(fresh()), due);
        assert!(!credentials.ask(due));
        assert!(credentials.take_fresh().is_some());
        assert!(credentials.take_fresh().is_none(), "sent once");
    }

    #[test]
    fn answers_that_grant_nothing_new_change_nothing() {
        let now = Instant::now();
        let mut credentials = granted(now);
        let due = now + HOUR - TENTH;
        assert!(credentials.ask(due));
        credentials.granted(Some(Validity::new(now, now + HOUR)));
        assert!(!credentials.ask(due), "they are on their way already");
        credentials.granted(Some(Validity::new(due, due + HOUR)));
        assert!(!credentials.ask(due));
        assert!(credentials.ask(due + HOUR - TENTH), "and so on");
    }

    #[test]
    fn credentials_without_an_end_are_never_asked_for() {
        let now = Instant::now();
        let mut credentials = granted(now);
        credentials.granted(None);
        assert!(!credentials.ask(now + HOUR * 1000));
        assert!(!credentials.is_over(now + HOUR * 1000));
        assert_eq!(credentials.wake_at().count(), 0);
        assert_eq!(credentials.until_due(now), None);
    }

    #[test]
    fn without_fresh_ones_work_goes_on_until_shortly_before_the_end() {
        let now = Instant::now();
        let mut credentials = granted(now);
        let (due, end) = (now + HOUR - TENTH, now + HOUR);
        assert!(credentials.ask(due));
        credentials.fetched(None, due);
        assert!(!credentials.ask(due), "with back-off");
        let again = credentials.wake_at().next().unwrap();
        assert!(due < again && again < due + LOCK);
        assert!(!credentials.is_draining(again, LOCK));
        assert!(credentials.is_draining(end - LOCK, LOCK));
        assert!(!credentials.is_over(end - LOCK));
        assert!(credentials.is_over(end));
        assert!(credentials.ask(again));
        credentials.fetched(Some(fresh()), again);
        assert!(credentials.take_fresh().is_some());
        let next = Some(Validity::new(again, again + HOUR));
        assert!(credentials.granted(next), "the trouble is over");
        assert!(!credentials.is_draining(end, LOCK));
    }

    #[test]
    fn credentials_for_a_lost_connection_are_not_sent_on_the_next_one() {
        let now = Instant::now();
        let mut credentials = granted(now);
        assert!(credentials.ask(now + HOUR));
        credentials.disconnected();
        assert!(!credentials.fetched(Some(fresh()), now));
        assert!(credentials.take_fresh().is_none());
        assert!(!credentials.is_over(now + HOUR));
    }

    #[test]
    fn after_the_end_nothing_goes_ahead_of_credentials_that_are_on_their_way() {
        let now = Instant::now();
        let mut credentials = granted(now);
        let woken = now + HOUR * 2;
        assert!(credentials.ask(woken));
        assert!(credentials.is_late(woken) && !credentials.is_over(woken));
        assert!(credentials.fetched(Some(fresh()), woken));
        assert!(!credentials.is_late(woken));
    }
}
