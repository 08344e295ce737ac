//! Values to header text: what the guess reads back.

use sluice_actors::ports::converter::ConvertError;
use sluice_actors::value::{DATE, Datum, TIME, TIMESTAMP, Value};

use super::temporal;
use crate::converters::json::{WriteOptions, to_json};

/// A header's text, as Connect's `SimpleHeaderConverter` writes it: text as it
/// is, dates and times in ISO 8601, all else as JSON. Null has none.
pub fn to_text(datum: &Datum) -> Result<Option<String>, ConvertError> {
    let is = |name| {
        datum
            .schema
            .as_deref()
            .is_some_and(|it| it.is_logical(name))
    };
    let text = match &datum.value {
        Value::Null => return Ok(None),
        Value::String(text) => text.to_string(),
        Value::Decimal(number) => number.to_plain_string(),
        Value::Int32(days) if is(DATE) => temporal::date_text(i64::from(*days)),
        Value::Int32(millis) if is(TIME) => temporal::time_text(i64::from(*millis)),
        Value::Int64(millis) if is(TIMESTAMP) => temporal::timestamp_text(*millis),
        _ => {
            let json = to_json(datum, WriteOptions::PLAIN)?.unwrap_or_default();
            String::from_utf8_lossy(&json).into_owned()
        }
    };
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use sluice_actors::ports::converter::HeaderConverter as _;

    use super::super::SimpleHeaderConverter;
    use super::*;

    fn there_and_back(text: &str) -> Option<String> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let datum = SimpleHeaderConverter.to_datum("t", "h", Some(&bytes));
        to_text(&datum.unwrap()).unwrap()
    }

    #[test]
    fn what_was_read_is_written_as_it_was() {
        for text in [
            "plain text",
            "",
            "7",
            "-129",
            "3000000000",
            "0.1",
            "6.02214076000001",
            "123456789012345678901234567890",
            "1234567.000000000000000000001",
            "true",
            "2019-08-23",
            "0001-01-01",
            "1968-02-29",
            "14:34:54.346Z",
            "00:00:00.000Z",
            "2019-08-23T14:34:54.346Z",
            "1969-12-31T23:59:59.999Z",
            "407127e212797209",
            "[1,2,3]",
        ] {
            assert_eq!(there_and_back(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn null_has_no_text() {
        assert_eq!(to_text(&Datum::null()), Ok(None));
    }
}
