//! Keys, values and headers to bytes.

use std::borrow::Cow;

use rdkafka::message::{Header, OwnedHeaders};

use sluice_actors::ports::converter::ConvertError;
use sluice_actors::record::{self, SinkRecord};
use sluice_actors::trace_context::{TRACEPARENT, TraceContext};
use sluice_actors::value::{Datum, Value};

use crate::converters::json::{DecimalFormat, NonFinite, WriteOptions, to_envelope, to_json};
use crate::converters::simple_header::to_text;

/// How a key or value becomes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Bytes and text as they are, all else as JSON.
    Raw,
    Json,
    /// JSON beside its schema.
    Envelope,
}

/// As Connect's converter reads it.
const WITH_SCHEMA: WriteOptions = WriteOptions {
    decimal_format: DecimalFormat::Base64,
    non_finite: NonFinite::Text,
};

/// `None` is Kafka's null.
pub(super) type Encoded<'a> = Result<Option<Cow<'a, [u8]>>, ConvertError>;

impl Format {
    pub(super) fn encode(self, datum: &Datum) -> Encoded<'_> {
        let json = match (self, &datum.value) {
            (Self::Raw, Value::Bytes(bytes)) => return Ok(Some(Cow::Borrowed(bytes))),
            (Self::Raw, Value::String(text)) => return Ok(Some(Cow::Borrowed(text.as_bytes()))),
            (Self::Raw | Self::Json, _) => to_json(datum, WriteOptions::PLAIN)?,
            (Self::Envelope, _) => to_envelope(datum, WITH_SCHEMA)?,
        };
        Ok(json.map(Cow::Owned))
    }
}

/// A record's parts, as they go to the producer.
pub(super) struct Encoding<'a> {
    pub(super) key: Option<Cow<'a, [u8]>>,
    pub(super) value: Option<Cow<'a, [u8]>>,
    pub(super) headers: Option<OwnedHeaders>,
}

impl<'a> Encoding<'a> {
    /// All parts, or which of them cannot be written and why.
    pub(super) fn of(record: &'a SinkRecord, key: Format, value: Format) -> Result<Self, String> {
        let named = |part: &str| {
            let id = record.id();
            let part = part.to_owned();
            move |error: ConvertError| format!("{id}: its {part} cannot be written: {error}")
        };
        Ok(Self {
            key: key.encode(&record.key).map_err(named("key"))?,
            value: value.encode(&record.value).map_err(named("value"))?,
            headers: headers(&record.headers, record.trace_context())
                .map_err(|(name, error)| named(&format!("header {name}"))(error))?,
        })
    }
}

/// In their order, repeats and nulls included. The span that the record is put
/// in takes the place of its producer's.
fn headers(
    headers: &[record::Header],
    put: Option<TraceContext>,
) -> Result<Option<OwnedHeaders>, (&str, ConvertError)> {
    if headers.is_empty() && put.is_none() {
        return Ok(None);
    }
    let mut written = OwnedHeaders::new_with_capacity(headers.len() + 1);
    let replaced = |header: &&record::Header| put.is_some() && &*header.key == TRACEPARENT;
    for header in headers.iter().filter(|it| !replaced(it)) {
        let key = &*header.key;
        let value = header_bytes(&header.value).map_err(|error| (key, error))?;
        written = written.insert(Header {
            key,
            value: value.as_deref(),
        });
    }
    if let Some(put) = put {
        written = written.insert(Header {
            key: TRACEPARENT,
            value: Some(&put.to_string()),
        });
    }
    Ok(Some(written))
}

/// Bytes as they are, all else as text.
fn header_bytes(datum: &Datum) -> Encoded<'_> {
    match &datum.value {
        Value::Bytes(bytes) => Ok(Some(Cow::Borrowed(bytes))),
        Value::String(text) => Ok(Some(Cow::Borrowed(text.as_bytes()))),
        _ => Ok(to_text(datum)?.map(|text| Cow::Owned(text.into_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers as _;

    use super::*;
    use crate::sinks::contract::{item, record, with_header};

    fn encoded(format: Format, datum: &Datum) -> Option<String> {
        let bytes = format.encode(datum).unwrap();
        bytes.map(|bytes| String::from_utf8(bytes.into_owned()).unwrap())
    }

    #[test]
    fn raw_bytes_and_text_are_not_copied() {
        let bytes = Datum::schemaless(Value::Bytes(vec![0, 159, 255].into()));
        let encoded = Format::Raw.encode(&bytes).unwrap();
        assert!(matches!(encoded, Some(Cow::Borrowed([0, 159, 255]))));
        let text = Datum::schemaless(Value::String("7".into()));
        assert!(matches!(
            Format::Raw.encode(&text),
            Ok(Some(Cow::Borrowed(b"7")))
        ));
    }

    #[test]
    fn null_stays_null_and_empty_stays_empty() {
        let empty = Datum::schemaless(Value::String("".into()));
        for format in [Format::Raw, Format::Json, Format::Envelope] {
            assert_eq!(format.encode(&Datum::null()), Ok(None), "{format:?}");
        }
        assert_eq!(encoded(Format::Raw, &empty).unwrap(), "");
        assert_eq!(encoded(Format::Json, &empty).unwrap(), "\"\"");
    }

    #[test]
    fn structured_values_are_json_with_or_without_their_schema() {
        let datum = item(Value::Int64(3));
        assert_eq!(encoded(Format::Raw, &datum).unwrap(), "{\"item\":3}");
        assert_eq!(encoded(Format::Json, &datum).unwrap(), "{\"item\":3}");
        let envelope = encoded(Format::Envelope, &datum).unwrap();
        assert!(envelope.starts_with("{\"schema\":{"), "{envelope}");
        assert!(
            envelope.ends_with(",\"payload\":{\"item\":3}}"),
            "{envelope}"
        );
    }

    #[test]
    fn headers_keep_order_repeats_and_nulls() {
        let mut record = with_header(record(0, Datum::null()), "b", "1");
        record = with_header(with_header(record, "a", ""), "b", "2");
        record.headers.push(record::Header {
            key: "none".into(),
            value: Datum::null(),
        });
        let headers = headers(&record.headers, None).unwrap().unwrap();
        let written: Vec<_> = headers.iter().map(|it| (it.key, it.value)).collect();
        let expected: [(&str, Option<&[u8]>); 4] = [
            ("b", Some(b"1")),
            ("a", Some(b"")),
            ("b", Some(b"2")),
            ("none", None),
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn the_span_that_a_record_is_put_in_takes_the_place_of_its_producers() {
        let producers = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let traced = with_header(record(0, Datum::null()), TRACEPARENT, producers);
        let traced = with_header(traced, "b", "1");
        let put = TraceContext::parse(producers).map(|it| it.child(7));
        let written = |put| {
            let headers = headers(&traced.headers, put).unwrap().unwrap();
            let texts = headers.iter().map(|it| {
                let value = String::from_utf8_lossy(it.value.unwrap_or_default());
                format!("{}={value}", it.key)
            });
            texts.collect::<Vec<_>>()
        };
        let untouched = [format!("{TRACEPARENT}={producers}"), "b=1".to_owned()];
        assert_eq!(written(None), untouched);
        let put = put
            .map(|put| (put, format!("{TRACEPARENT}={put}")))
            .unwrap();
        assert_eq!(written(Some(put.0)), ["b=1".to_owned(), put.1]);
        assert!(headers(&[], Some(put.0)).unwrap().is_some());
    }

    #[test]
    fn a_part_that_cannot_be_written_is_named() {
        let broken = record(4, Datum::schemaless(Value::Struct(vec![Value::Null])));
        let error = Encoding::of(&broken, Format::Raw, Format::Raw)
            .err()
            .unwrap();
        assert!(
            error.starts_with("orders-0@4: its value cannot be written: "),
            "{error}"
        );
    }
}
