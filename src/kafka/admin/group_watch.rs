//! A share group's settings while its records are open: when to read them
//! again, and what a reading changes. Pure; the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

use super::group_settings::{GroupSettings, Setting};

/// After a reading that failed the next one comes sooner.
const AGAIN_WITHIN: Duration = Duration::from_secs(30);
/// A `metadata.max.age.ms` of 0 must not keep the brokers busy.
const SHORTEST: Duration = Duration::from_millis(100);
/// A broker that is away for a moment is no news.
const FAILURES_TOLD: u32 = 3;

/// When to read next, and whether readings fail.
#[derive(Clone, Debug)]
pub struct Readings {
    max_age: Duration,
    due_at: Instant,
    failures: u32,
}

impl Readings {
    /// `max_age` is `metadata.max.age.ms`; the first reading was at `now`.
    #[must_use]
    pub fn new(max_age: Duration, now: Instant) -> Self {
        let max_age = max_age.max(SHORTEST);
        Self {
            max_age,
            due_at: now + max_age,
            failures: 0,
        }
    }

    #[must_use]
    pub const fn due_at(&self) -> Instant {
        self.due_at
    }

    pub fn succeeded(&mut self, now: Instant) {
        self.failures = 0;
        self.due_at = now + self.max_age;
    }

    /// Returns whether that is to be told: several have failed in a row.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.due_at = now + self.max_age.min(AGAIN_WITHIN);
        self.failures >= FAILURES_TOLD
    }
}

impl<T: PartialEq> Setting<T> {
    /// What cannot be read stays as it was.
    fn take(&mut self, read: Self) {
        if read.known {
            *self = read;
        }
    }
}

impl GroupSettings {
    /// Takes what was read, higher or lower. Returns what is another now.
    pub fn take(&mut self, read: Self) -> Vec<String> {
        let before = self.shown();
        self.lock_duration.take(read.lock_duration);
        self.delivery_limit.take(read.delivery_limit);
        self.max_record_locks.take(read.max_record_locks);
        self.renew_enabled.take(read.renew_enabled);
        self.auto_offset_reset.take(read.auto_offset_reset);
        let pairs = before.into_iter().zip(self.shown());
        let changed = pairs.filter(|((_, old, _), (_, new, _))| old != new);
        changed
            .map(|((key, old, was_known), (_, new, _))| {
                let assumed = if was_known { "" } else { " (assumed)" };
                format!("{key} is {new} now, it was {old}{assumed}")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::group_settings::{
        DELIVERY_LIMIT, Entries, Entry, LOCK_DURATION, MAX_RECORD_LOCKS, RENEW_ENABLE,
    };
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn read(listed: &[(&str, &str)]) -> GroupSettings {
        let entry = |(key, value): &(&str, &str)| {
            let value = (*value).to_owned();
            let of_group = true;
            ((*key).to_owned(), Entry { value, of_group })
        };
        GroupSettings::read(&listed.iter().map(entry).collect::<Entries>())
    }

    #[test]
    fn what_is_lower_is_taken_at_once_and_what_is_higher_too() {
        let mut settings = read(&[(DELIVERY_LIMIT, "10")]);
        for (now, before) in [("3", "10"), ("7", "3")] {
            let told = settings.take(read(&[(DELIVERY_LIMIT, now)]));
            let expected = format!("{DELIVERY_LIMIT} is {now} now, it was {before}");
            assert_eq!(told, [expected]);
            assert_eq!(settings.delivery_limit.value.to_string(), now);
        }
        assert!(settings.take(read(&[(DELIVERY_LIMIT, "7")])).is_empty());
    }

    #[test]
    fn what_cannot_be_read_stays_as_it_was_known() {
        let mut settings = read(&[(DELIVERY_LIMIT, "10"), (RENEW_ENABLE, "true")]);
        assert!(settings.take(read(&[])).is_empty());
        let limit = &settings.delivery_limit;
        assert_eq!((limit.value, limit.known), (10, true));
    }

    #[test]
    fn the_lowest_limit_is_assumed_until_it_can_be_read() {
        let mut settings = read(&[]);
        assert!(settings.take(read(&[])).is_empty());
        assert_eq!(settings.delivery_limit.value, 2);
        let told = settings.take(read(&[(DELIVERY_LIMIT, "5")]));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].ends_with("is 5 now, it was 2 (assumed)"),
            "{told:?}"
        );
        assert!(settings.delivery_limit.known);
    }

    #[test]
    fn every_setting_is_told_by_its_key() {
        let mut settings = read(&[
            (LOCK_DURATION, "30000"),
            (MAX_RECORD_LOCKS, "2000"),
            (RENEW_ENABLE, "true"),
        ]);
        let told = settings.take(read(&[
            (LOCK_DURATION, "15000"),
            (MAX_RECORD_LOCKS, "100"),
            (RENEW_ENABLE, "false"),
        ]));
        for key in [LOCK_DURATION, MAX_RECORD_LOCKS, RENEW_ENABLE] {
            assert!(told.iter().any(|it| it.starts_with(key)), "{told:?}");
        }
        assert_eq!(settings.max_record_locks.value, 100);
        assert!(!settings.renew_enabled.value);
    }

    #[test]
    fn readings_come_by_the_age_and_sooner_after_a_failure() {
        let now = Instant::now();
        let mut readings = Readings::new(5 * MINUTE, now);
        assert_eq!(readings.due_at(), now + 5 * MINUTE);
        assert!(!readings.failed(now));
        assert_eq!(readings.due_at(), now + AGAIN_WITHIN);
        readings.succeeded(now);
        assert_eq!(readings.due_at(), now + 5 * MINUTE);
        let mut hasty = Readings::new(Duration::ZERO, now);
        assert_eq!(hasty.due_at(), now + SHORTEST);
        hasty.failed(now);
        assert_eq!(hasty.due_at(), now + SHORTEST);
    }

    #[test]
    fn only_several_failures_in_a_row_are_told() {
        let now = Instant::now();
        let mut readings = Readings::new(MINUTE, now);
        let tell = |readings: &mut Readings| [(); 3].map(|()| readings.failed(now));
        assert_eq!(tell(&mut readings), [false, false, true]);
        assert!(readings.failed(now), "for as long as they fail");
        readings.succeeded(now);
        assert_eq!(tell(&mut readings), [false, false, true]);
    }
}
