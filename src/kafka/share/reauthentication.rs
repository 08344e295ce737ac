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

/// A broker takes no credentials sooner after the last ones than in a second.
const BETWEEN: Duration = Duration::from_millis(1100);
/// Measured twice, the same end differs by less.
const SLACK: Duration = Duration::from_secs(1);

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

    /// The last tenth.
    fn lead(&self) -> Duration {
        self.ends_at.saturating_duration_since(self.renew_at)
    }

    /// From then on it must be reckoned with that no fresh ones come in time.
    fn late_at(&self) -> Instant {
        self.renew_at + self.lead() / 2
    }

    fn outlasts(&self, other: &Self) -> bool {
        self.ends_at > other.ends_at + SLACK.min(other.lead())
    }
}

/// What an answer says of the credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granted {
    /// No trouble came or went.
    Fine,
    /// They hold longer, which ends a trouble.
    Recovered,
    /// The broker took fresh ones that end when those before them do.
    NoMoreTime,
}

/// The credentials of a session's connection, and those that follow them.
#[derive(Debug, Default)]
pub(super) struct Reauthentication {
    /// `None` when they hold for ever, or when there is no connection.
    validity: Option<Validity>,
    fresh: Fresh,
    /// How often in a row there were no fresh ones, or none that hold longer.
    failures: u32,
}

#[derive(Debug, Default)]
enum Fresh {
    #[default]
    Unasked,
    /// On their way here.
    Asked,
    AtHand(Arc<AuthConfig>),
    /// On their way to the broker.
    Sent,
    /// There were none; to be asked for again then.
    AskAgain(Instant),
}

impl Reauthentication {
    /// What the broker granted, as each answer has it.
    pub(super) fn granted(&mut self, validity: Option<Validity>, now: Instant) -> Granted {
        let ends_at = |validity: Option<Validity>| validity.map(|validity| validity.ends_at);
        let is_known = ends_at(self.validity) == ends_at(validity);
        if is_known && !matches!(self.fresh, Fresh::Sent) {
            return Granted::Fine;
        }
        if let (Some(old), Some(new)) = (self.validity, validity)
            && !new.outlasts(&old)
        {
            // They are due as before.
            self.validity = Some(Validity {
                renew_at: old.renew_at,
                ..new
            });
            self.failures += 1;
            let pause = wire::backoff(self.failures).max(BETWEEN);
            self.fresh = Fresh::AskAgain(now + pause);
            return Granted::NoMoreTime;
        }
        self.disconnected();
        self.validity = validity;
        match std::mem::take(&mut self.failures) {
            0 => Granted::Fine,
            _ => Granted::Recovered,
        }
    }

    /// The next connection logs in by itself.
    pub(super) fn disconnected(&mut self) {
        self.validity = None;
        self.fresh = Fresh::Unasked;
    }

    /// Whether fresh credentials are to be fetched now, and how long that may
    /// take: until the end, after which the broker still takes them, and on as
    /// long as locks last that cannot be renewed meanwhile.
    pub(super) fn ask(&mut self, now: Instant, lock: Duration) -> Option<Duration> {
        let validity = self.validity?;
        self.ask_at().filter(|at| *at <= now)?;
        self.fresh = Fresh::Asked;
        let left = validity.ends_at.saturating_duration_since(now);
        Some(left + lock / 3)
    }

    fn ask_at(&self) -> Option<Instant> {
        match self.fresh {
            Fresh::Unasked => self.validity.map(|validity| validity.renew_at),
            Fresh::AskAgain(at) => Some(at),
            Fresh::Asked | Fresh::AtHand(_) | Fresh::Sent => None,
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
        match std::mem::replace(&mut self.fresh, Fresh::Sent) {
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
        self.validity.is_some_and(|validity| {
            let is_late = matches!(self.fresh, Fresh::Asked) && now >= validity.late_at();
            (is_late || self.failures > 0) && now + span >= validity.ends_at
        })
    }

    /// Whether there is a trouble, and no mere delay.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
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
        let validity = self.validity.into_iter();
        let moments = validity.flat_map(|validity| [validity.late_at(), validity.ends_at]);
        self.ask_at().into_iter().chain(moments)
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
        credentials.granted(Some(Validity::new(now, now + HOUR)), now);
        credentials
    }

    #[test]
    fn fresh_credentials_are_asked_for_once_in_the_last_tenth() {
        let now = Instant::now();
        let mut credentials = granted(now);
        let due = now + HOUR - TENTH;
        assert_eq!(credentials.until_due(now), Some(HOUR - TENTH));
        assert_eq!(credentials.wake_at().next(), Some(due));
        assert_eq!(credentials.ask(due - Duration::from_millis(1), LOCK), None);
        assert!(credentials.ask(due, LOCK).is_some());
        assert_eq!(credentials.ask(due, LOCK), None);
        assert!(credentials.take_fresh().is_none());
        credentials.fetched(Some(fresh()), due);
        assert_eq!(credentials.ask(due, LOCK), None);
        assert!(credentials.take_fresh().is_some());
        assert!(credentials.take_fresh().is_none(), "sent once");
    }

    #[test]
    fn answers_that_grant_nothing_new_change_nothing() {
        let now = Instant::now();
        let mut credentials = granted(now);
        let due = now + HOUR - TENTH;
        assert!(credentials.ask(due, LOCK).is_some());
        credentials.granted(Some(Validity::new(now, now + HOUR)), due);
        assert_eq!(
            credentials.ask(due, LOCK),
            None,
            "they are on their way already"
        );
        credentials.granted(Some(Validity::new(due, due + HOUR)), due);
        assert_eq!(credentials.ask(due, LOCK), None);
        assert!(
            credentials.ask(due + HOUR - TENTH, LOCK).is_some(),
            "and so on"
        );
    }

    #[test]
    fn credentials_without_an_end_are_never_asked_for() {
        let now = Instant::now();
        let mut credentials = granted(now);
        credentials.granted(None, now);
        assert_eq!(credentials.ask(now + HOUR * 1000, LOCK), None);
        assert!(!credentials.is_over(now + HOUR * 1000));
        assert_eq!(credentials.wake_at().count(), 0);
        assert_eq!(credentials.until_due(now), None);
    }

    #[test]
    fn without_fresh_ones_work_goes_on_until_shortly_before_the_end() {
        let now = Instant::now();
        let mut credentials = granted(now);
        let (due, end) = (now + HOUR - TENTH, now + HOUR);
        assert!(credentials.ask(due, LOCK).is_some());
        credentials.fetched(None, due);
        assert_eq!(credentials.ask(due, LOCK), None, "with back-off");
        let again = credentials.wake_at().next().unwrap();
        assert!(due < again && again < due + LOCK);
        assert!(!credentials.is_draining(again, LOCK));
        assert!(credentials.is_draining(end - LOCK, LOCK));
        assert!(!credentials.is_over(end - LOCK));
        assert!(credentials.is_over(end));
        assert!(credentials.ask(again, LOCK).is_some());
        credentials.fetched(Some(fresh()), again);
        assert!(credentials.take_fresh().is_some());
        let next = Some(Validity::new(again, again + HOUR));
        assert_eq!(credentials.granted(next, again), Granted::Recovered);
        assert!(!credentials.is_draining(end, LOCK));
    }

    #[test]
    fn fresh_ones_that_end_when_the_old_ones_do_are_none() {
        let now = Instant::now();
        let mut credentials = granted(now);
        let (due, end) = (now + HOUR - TENTH, now + HOUR);
        assert!(credentials.ask(due, LOCK).is_some());
        credentials.fetched(Some(fresh()), due);
        assert!(credentials.take_fresh().is_some());
        let same = Some(Validity::new(due, end + SLACK));
        assert_eq!(credentials.granted(same, due), Granted::NoMoreTime);
        assert_eq!(credentials.granted(same, due), Granted::Fine, "told once");
        assert_eq!(credentials.until_due(due), Some(Duration::ZERO));
        assert_eq!(credentials.ask(due + SLACK, LOCK), None, "with back-off");
        let again = due + LOCK;
        assert!(credentials.ask(again, LOCK).is_some());
        assert!(credentials.is_draining(end, LOCK));
        credentials.fetched(Some(fresh()), again);
        assert!(credentials.take_fresh().is_some());
        let longer = Some(Validity::new(again, again + HOUR));
        assert_eq!(credentials.granted(longer, again), Granted::Recovered);
    }

    #[test]
    fn a_fetch_may_take_as_long_as_the_old_ones_hold_and_locks_last() {
        let now = Instant::now();
        let mut credentials = granted(now);
        let due = now + HOUR - TENTH;
        assert_eq!(credentials.ask(due, LOCK), Some(TENTH + LOCK / 3));
        let mut overslept = granted(now);
        assert_eq!(overslept.ask(now + HOUR * 2, LOCK), Some(LOCK / 3));
    }

    #[test]
    fn credentials_for_a_lost_connection_are_not_sent_on_the_next_one() {
        let now = Instant::now();
        let mut credentials = granted(now);
        assert!(credentials.ask(now + HOUR, LOCK).is_some());
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
        assert!(credentials.ask(woken, LOCK).is_some());
        assert!(credentials.is_late(woken) && !credentials.is_over(woken));
        assert!(credentials.fetched(Some(fresh()), woken));
        assert!(!credentials.is_late(woken));
    }
}
