//! How long the endpoint wants to be left alone: `Retry-After`, kept to by all
//! tasks of a connector.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use sluice_actors::outcome::Cause;
use sluice_actors::ports::sink::SinkError;
use tokio::time::Instant;

/// The wait that a `Retry-After` asks for: seconds, or an HTTP date.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

/// Until when no request goes out, and why.
#[derive(Debug, Default)]
pub(super) struct Pause(Mutex<Option<(Instant, Cause)>>);

impl Pause {
    /// Begins or lengthens a pause.
    pub(super) fn begin(&self, until: Instant, cause: Cause) {
        let mut pause = self.0.lock();
        if pause.as_ref().is_none_or(|(end, _)| *end < until) {
            *pause = Some((until, cause));
        }
    }

    /// Whether a request may go out now; else for how long not.
    pub(super) fn check(&self, now: Instant) -> Result<(), SinkError> {
        match &*self.0.lock() {
            Some((until, cause)) if now < *until => {
                Err(SinkError::UnavailableFor(cause.clone(), *until - now))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (value, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sunday, 06-Nov-94 08:50:07 GMT", Some(30)),
            // Past already.
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-5", None),
            ("soon", None),
            ("", None),
        ] {
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(retry_after(value, now), expected, "{value:?}");
        }
    }

    #[test]
    fn a_pause_holds_for_its_time_and_is_never_shortened() {
        let (pause, now) = (Pause::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(pause.check(now), Ok(()));
        pause.begin(now + 5 * second, "long".into());
        pause.begin(now + second, "short".into());
        assert_eq!(
            pause.check(now + 2 * second),
            Err(SinkError::UnavailableFor("long".into(), 3 * second))
        );
        assert_eq!(pause.check(now + 5 * second), Ok(()));
    }
}
