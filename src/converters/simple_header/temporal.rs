//! Dates, times and timestamps in the three forms that Connect writes:
//! `2019-08-23`, `14:34:54.346Z`, `2019-08-23T14:34:54.346Z`.

use sluice_actors::value::{Datum, Value};

use super::schemas;

pub(super) const TIME_LENGTH: usize = 13;
pub(super) const TIMESTAMP_LENGTH: usize = 24;

const MILLIS_PER_DAY: i64 = 86_400_000;

pub(super) fn parse(text: &str) -> Option<Datum> {
    let text = text.as_bytes();
    match text.len() {
        10 => {
            let days = i32::try_from(days(text)?).ok()?;
            Some(Datum::with_schema(schemas::date(), Value::Int32(days)))
        }
        TIME_LENGTH => {
            let millis = i32::try_from(millis(text)?).ok()?;
            Some(Datum::with_schema(schemas::time(), Value::Int32(millis)))
        }
        TIMESTAMP_LENGTH if text[10] == b'T' => {
            let instant = days(&text[..10])? * MILLIS_PER_DAY + millis(&text[11..])?;
            Some(Datum::with_schema(
                schemas::timestamp(),
                Value::Int64(instant),
            ))
        }
        _ => None,
    }
}

/// Days since 1970-01-01 of `yyyy-MM-dd`.
fn days(text: &[u8]) -> Option<i64> {
    if text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (
        number(&text[..4])?,
        number(&text[5..7])?,
        number(&text[8..])?,
    );
    let in_calendar = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
    in_calendar.then(|| days_since_epoch(year, month, day))
}

/// Milliseconds of the day of `HH:mm:ss.SSSZ`.
fn millis(text: &[u8]) -> Option<i64> {
    if text[2] != b':' || text[5] != b':' || text[8] != b'.' || text[12] != b'Z' {
        return None;
    }
    let (hour, minute, second, milli) = (
        number(&text[..2])?,
        number(&text[3..5])?,
        number(&text[6..8])?,
        number(&text[9..12])?,
    );
    let on_clock = hour < 24 && minute < 60 && second < 60;
    on_clock.then(|| ((hour * 60 + minute) * 60 + second) * 1000 + milli)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts in years that begin in March, so that the leap day is the last one.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    const DAYS_TO_EPOCH: i64 = 719_468;
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + leap_days + day_of_year - DAYS_TO_EPOCH
}

/// The inverse of [`days_since_epoch`], as `yyyy-MM-dd`.
pub(super) fn date_text(days: i64) -> String {
    const DAYS_TO_EPOCH: i64 = 719_468;
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + DAYS_TO_EPOCH;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (year_of_era + era * 400, month + 3)
    } else {
        (year_of_era + era * 400 + 1, month - 9)
    };
    format!("{year:04}-{month:02}-{day:02}")
}

/// `HH:mm:ss.SSSZ` of milliseconds of the day.
pub(super) fn time_text(millis: i64) -> String {
    let (seconds, milli) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Date and time of milliseconds since 1970.
pub(super) fn timestamp_text(millis: i64) -> String {
    let (days, millis) = (
        millis.div_euclid(MILLIS_PER_DAY),
        millis.rem_euclid(MILLIS_PER_DAY),
    );
    format!("{}T{}", date_text(days), time_text(millis))
}
