//! The one place that decides whether a record may be released.
//!
//! Every return to the broker, from whatever path, uses up a delivery attempt,
//! and the return of the last one archives the record silently.

/// The gate of one connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    delivery_count_limit: u16,
}

impl Gate {
    #[must_use]
    pub const fn new(delivery_count_limit: u16) -> Self {
        Self {
            delivery_count_limit,
        }
    }

    #[must_use]
    pub const fn delivery_count_limit(self) -> u16 {
        self.delivery_count_limit
    }

    /// Whether a record with this delivery count may go back to the broker.
    #[must_use]
    pub const fn may_release(self, delivery_count: u16) -> bool {
        delivery_count < self.delivery_count_limit
    }

    /// The delivery counts of records that came again and may go back once more
    /// at most begin with this one.
    #[must_use]
    pub const fn near_limit(self) -> u16 {
        let before_last = self.delivery_count_limit.saturating_sub(1);
        if before_last > 2 { before_last } else { 2 }
    }

    /// How often a record with this delivery count may still go back.
    #[must_use]
    pub const fn attempts_left(self, delivery_count: u16) -> u16 {
        self.delivery_count_limit.saturating_sub(delivery_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_on_its_last_attempt_is_never_released() {
        let gate = Gate::new(5);
        assert!(gate.may_release(1));
        assert!(gate.may_release(4));
        assert!(!gate.may_release(5));
        assert!(!gate.may_release(6));
        assert_eq!(gate.near_limit(), 4);
        assert_eq!(
            Gate::new(2).near_limit(),
            2,
            "a first delivery is never near"
        );
        assert_eq!([1, 5, 6].map(|count| gate.attempts_left(count)), [4, 0, 0]);
    }
}
