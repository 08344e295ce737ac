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

    /// Whether a record with this delivery count may go back to the broker.
    #[must_use]
    pub const fn may_release(self, delivery_count: u16) -> bool {
        delivery_count < self.delivery_count_limit
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
        assert_eq!([1, 5, 6].map(|count| gate.attempts_left(count)), [4, 0, 0]);
    }
}
