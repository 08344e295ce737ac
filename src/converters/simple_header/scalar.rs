//! The guess for a single word.

use bigdecimal::BigDecimal;
use sluice_actors::value::{Datum, Value};

use super::{schemas, temporal};
use crate::converters::decimal::{self, MAX_DIGITS};

/// What the word is, if it is anything but text.
pub(super) fn infer(word: &str) -> Option<Datum> {
    match word.as_bytes().first()? {
        b'0'..=b'9' => temporal::parse(word).or_else(|| number(word)),
        b'+' | b'-' => number(word),
        _ => match word {
            "null" => Some(Datum::null()),
            "true" => Some(boolean(true)),
            "false" => Some(boolean(false)),
            _ => None,
        },
    }
}

fn boolean(value: bool) -> Datum {
    Datum::with_schema(schemas::boolean(), Value::Boolean(value))
}

fn number(word: &str) -> Option<Datum> {
    let exact = decimal::parse(word)?;
    let scale = exact.fractional_digit_count();
    if usize::try_from(scale.unsigned_abs()).map_or(true, |digits| digits > MAX_DIGITS) {
        return None;
    }
    if let Some(whole) = decimal::to_i64(&exact) {
        return Some(integer(whole));
    }
    let float = (scale != 0).then(|| float(word, &exact)).flatten();
    Some(float.unwrap_or_else(|| {
        Datum::with_schema(schemas::decimal(scale), Value::Decimal(Box::new(exact)))
    }))
}

/// The smallest type that holds the number.
fn integer(whole: i64) -> Datum {
    if let Ok(number) = i8::try_from(whole) {
        Datum::with_schema(schemas::int8(), Value::Int8(number))
    } else if let Ok(number) = i16::try_from(whole) {
        Datum::with_schema(schemas::int16(), Value::Int16(number))
    } else if let Ok(number) = i32::try_from(whole) {
        Datum::with_schema(schemas::int32(), Value::Int32(number))
    } else {
        Datum::with_schema(schemas::int64(), Value::Int64(whole))
    }
}

/// The smallest float whose shortest text is this very number.
fn float(word: &str, exact: &BigDecimal) -> Option<Datum> {
    let gives_back = |text: String| decimal::parse(&text).is_some_and(|back| back == *exact);
    let single: f32 = word.parse().ok()?;
    if gives_back(format!("{single:e}")) {
        return Some(Datum::with_schema(
            schemas::float32(),
            Value::Float32(single),
        ));
    }
    let double: f64 = word.parse().ok()?;
    gives_back(format!("{double:e}"))
        .then(|| Datum::with_schema(schemas::float64(), Value::Float64(double)))
}
