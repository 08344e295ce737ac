//! At most so many a second. Pure; the time is passed in.

use tokio::time::Instant;

/// What was not used up in a second may be used in the next one.
#[derive(Debug)]
pub(super) struct Limit {
    per_second: f64,
    left: f64,
    looked_at: Option<Instant>,
}

impl Limit {
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            per_second: per_second.into(),
            left: per_second.into(),
            looked_at: None,
        }
    }

    /// Whether there is room for another one now; it is taken then.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        // Batches that came a while ago are asked for amid what happens now.
        let before = self.looked_at.unwrap_or(now);
        self.looked_at = Some(before.max(now));
        let passed = now.saturating_duration_since(before).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(self.per_second);
        let has_room = self.left >= 1.0;
        if has_room {
            self.left -= 1.0;
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_more_than_so_many_are_taken_in_a_second() {
        let (mut limit, now) = (Limit::new(10), Instant::now());
        let mut taken = |at: Instant| (0..100).filter(|_| limit.take(at)).count();
        assert_eq!(taken(now), 10);
        assert_eq!(taken(now + Duration::from_millis(500)), 5);
        assert_eq!(taken(now + Duration::from_secs(60)), 10, "no more is saved");
        for _ in 0..3 {
            assert_eq!(taken(now), 0, "a time that lies back gives nothing");
            assert_eq!(
                taken(now + Duration::from_secs(60)),
                0,
                "nor is it found again"
            );
        }
    }
}
