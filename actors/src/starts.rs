//! Counts how starts end.

use parking_lot::Mutex;

/// How the starts of a kind of thing have ended so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartFigures {
    /// Those under way, and those that were broken off, are among them.
    pub attempts: u64,
    pub successes: u64,
    pub failures: u64,
}

/// Counts starts.
#[derive(Debug, Default)]
pub struct StartMeter(Mutex<StartFigures>);

impl StartMeter {
    #[must_use]
    pub fn figures(&self) -> StartFigures {
        *self.0.lock()
    }

    pub fn begun(&self) {
        self.0.lock().attempts += 1;
    }

    pub fn ended<T, E>(&self, end: &Result<T, E>) {
        let mut figures = self.0.lock();
        match end {
            Ok(_) => figures.successes += 1,
            Err(_) => figures.failures += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_is_broken_off_is_an_attempt_only() {
        let meter = StartMeter::default();
        for end in [Some(Ok(())), Some(Err("no right")), None] {
            meter.begun();
            if let Some(end) = end {
                meter.ended(&end);
            }
        }
        let expected = StartFigures {
            attempts: 3,
            successes: 1,
            failures: 1,
        };
        assert_eq!(meter.figures(), expected);
    }
}
