//! What values must look like beyond their kind.

use std::time::Duration;

/// A number that its table keeps above 0.
pub(super) fn count(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}

pub(super) fn milliseconds(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}

/// Kafka's rule for topic names.
pub(crate) fn is_topic(name: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
    (1..=249).contains(&name.len()) && name.chars().all(is_plain) && name != "." && name != ".."
}

/// Whether a share group takes it: earliest, latest, or a span of time back.
pub(super) fn is_offset_reset(text: &str) -> bool {
    matches!(text, "earliest" | "latest")
        || text.strip_prefix("by_duration:").is_some_and(is_duration)
}

/// Java's ISO 8601 durations: days, then hours, minutes and seconds after T.
fn is_duration(text: &str) -> bool {
    let Some(text) = text.strip_prefix('P') else {
        return false;
    };
    let (days, time) = match text.split_once('T') {
        Some((_, "")) => return false,
        Some((days, time)) => (days, time),
        None => (text, ""),
    };
    !text.is_empty() && has_units(days, "D") && has_units(time, "HMS")
}

/// Numbers, each with a unit of the list, in the list's order.
fn has_units(text: &str, units: &str) -> bool {
    let mut rest = text;
    for unit in units.chars() {
        if let Some((number, tail)) = rest.split_once(unit) {
            let is_number = !number.is_empty() && number.parse::<f64>().is_ok_and(|it| it >= 0.0);
            let is_plain = number.chars().all(|it| it.is_ascii_digit() || it == '.');
            if !is_number || !is_plain {
                return false;
            }
            rest = tail;
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_group_begins_early_late_or_some_time_back() {
        for good in [
            "earliest",
            "latest",
            "by_duration:PT1H",
            "by_duration:P3DT4H5M6.7S",
            "by_duration:P1D",
        ] {
            assert!(is_offset_reset(good), "{good}");
        }
        for bad in [
            "",
            "none",
            "by_duration:",
            "by_duration:P",
            "by_duration:PT",
            "by_duration:1H",
            "by_duration:PT1X",
            "by_duration:PT-1H",
            "by_duration:P1H",
        ] {
            assert!(!is_offset_reset(bad), "{bad}");
        }
    }

    #[test]
    fn topics_have_kafkas_names() {
        assert!(is_topic("orders.eu-1_x"));
        for bad in ["", ".", "..", "a b", "ü", &"x".repeat(250)] {
            assert!(!is_topic(bad), "{bad}");
        }
    }
}
