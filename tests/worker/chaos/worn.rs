//! Records that fail up to their last attempt, whichever worker tries them.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::connectors::DELIVERY_LIMIT;

/// How often each fails: at all of its deliveries, and once more while it is held
/// on the last one.
const FAILURES: usize = DELIVERY_LIMIT as usize + 1;
/// One that is not tried for so long is gone: the verdict tells where.
const GONE_AFTER: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct Worn {
    tries: HashMap<Bytes, usize>,
    newest: Option<Instant>,
}

impl Worn {
    /// Counts a try of this record, and tells whether it fails.
    pub fn fails(&mut self, record: &Bytes, now: Instant) -> bool {
        self.newest = Some(now);
        let tries = self.tries.entry(record.clone()).or_default();
        *tries += 1;
        *tries <= FAILURES
    }

    /// Whether so many were tried until they failed no more, or were tried and
    /// are gone.
    pub fn is_done(&self, records: usize, now: Instant) -> bool {
        let taken = self.tries.values().filter(|tries| **tries > FAILURES);
        let is_gone = |newest: Instant| now.saturating_duration_since(newest) > GONE_AFTER;
        taken.count() == records || self.newest.is_some_and(is_gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: Bytes = Bytes::from_static(b"a");

    #[test]
    fn each_record_fails_at_its_last_attempt_as_well() {
        let (mut worn, now) = (Worn::default(), Instant::now());
        for record in [RECORD, Bytes::from_static(b"b")] {
            let fails = (0..12).map(|_| worn.fails(&record, now));
            assert_eq!(fails.filter(|fails| *fails).count(), 11);
            assert!(!worn.fails(&record, now));
        }
    }

    #[test]
    fn it_is_over_when_all_were_taken_or_none_comes_any_more() {
        let (mut worn, now) = (Worn::default(), Instant::now());
        let later = now + GONE_AFTER + Duration::from_secs(1);
        assert!(!worn.is_done(1, later), "none came yet");
        while worn.fails(&RECORD, now) {
            assert!(!worn.is_done(1, now));
        }
        assert!(worn.is_done(1, now));
        assert!(!worn.is_done(2, now) && worn.is_done(2, later));
    }
}
