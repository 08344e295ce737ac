//! A record as one JSON object, and the JSON form of its values.

use std::io;

use base64::prelude::{BASE64_STANDARD, Engine};
use bigdecimal::BigDecimal;
use serde::ser::{Error, Serialize, SerializeMap, Serializer};

use sluice_actors::record::{Header, SinkRecord};
use sluice_actors::value::{Datum, Field, Kind, Schema, Value};

/// Appends the JSON form of a value.
pub(super) fn write_json(out: &mut Vec<u8>, datum: &Datum) -> Result<(), String> {
    write(out, &Form::of(datum))
}

/// Appends a record's object, without a newline.
pub(super) fn write_record(out: &mut Vec<u8>, record: &SinkRecord) -> Result<(), String> {
    write(
        out,
        &Line {
            topic: &record.topic,
            partition: record.partition.partition,
            offset: record.offset,
            timestamp: record.timestamp,
            key: Form::of(&record.key),
            value: Form::of(&record.value),
            headers: Headers(&record.headers),
        },
    )
}

fn write(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), String> {
    let out: &mut dyn io::Write = out;
    serde_json::to_writer(out, value).map_err(|error| error.to_string())
}

#[derive(serde::Serialize)]
struct Line<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: Option<i64>,
    key: Form<'a>,
    value: Form<'a>,
    headers: Headers<'a>,
}

struct Headers<'a>(&'a [Header]);

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|header| HeaderLine {
            key: &header.key,
            value: Form::of(&header.value),
        }))
    }
}

#[derive(serde::Serialize)]
struct HeaderLine<'a> {
    key: &'a str,
    value: Form<'a>,
}

/// A value with the schema that names its fields. Numbers keep all digits,
/// bytes are base64; what JSON has no number for (NaN, infinities) is a text.
#[derive(Clone, Copy)]
struct Form<'a> {
    value: &'a Value,
    schema: Option<&'a Schema>,
}

impl<'a> Form<'a> {
    fn of(datum: &'a Datum) -> Self {
        Self {
            value: &datum.value,
            schema: datum.schema.as_deref(),
        }
    }

    fn kind(&self) -> Option<&'a Kind> {
        self.schema.map(|schema| &schema.kind)
    }
}

impl Serialize for Form<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Null => serializer.serialize_unit(),
            Value::Boolean(value) => serializer.serialize_bool(*value),
            Value::Int8(value) => serializer.serialize_i8(*value),
            Value::Int16(value) => serializer.serialize_i16(*value),
            Value::Int32(value) => serializer.serialize_i32(*value),
            Value::Int64(value) => serializer.serialize_i64(*value),
            Value::Float32(value) if value.is_finite() => serializer.serialize_f32(*value),
            Value::Float64(value) if value.is_finite() => serializer.serialize_f64(*value),
            Value::Float32(value) => serializer.collect_str(&not_finite(f64::from(*value))),
            Value::Float64(value) => serializer.collect_str(&not_finite(*value)),
            Value::Decimal(value) => decimal(value, serializer),
            Value::String(value) => serializer.serialize_str(value),
            Value::Bytes(value) => serializer.serialize_str(&BASE64_STANDARD.encode(value)),
            Value::Array(items) => array(items, self.kind(), serializer),
            Value::Map(entries) => map(entries, self.kind(), serializer),
            Value::Struct(values) => match self.kind() {
                Some(Kind::Struct(fields)) if fields.len() == values.len() => {
                    structure(values, fields, serializer)
                }
                _ => Err(S::Error::custom("a struct does not fit its schema")),
            },
        }
    }
}

/// Java's names.
pub(super) fn not_finite(value: f64) -> &'static str {
    match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

fn decimal<S: Serializer>(value: &BigDecimal, serializer: S) -> Result<S::Ok, S::Error> {
    let number: serde_json::Number = value.to_string().parse().map_err(S::Error::custom)?;
    number.serialize(serializer)
}

fn array<S: Serializer>(
    items: &[Value],
    kind: Option<&Kind>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let schema = match kind {
        Some(Kind::Array(schema)) => Some(schema.as_ref()),
        _ => None,
    };
    serializer.collect_seq(items.iter().map(|value| Form { value, schema }))
}

/// An object if all keys are texts, else pairs, as Connect's JSON converter
/// has it.
fn map<S: Serializer>(
    entries: &[(Value, Value)],
    kind: Option<&Kind>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let (keys, values) = match kind {
        Some(Kind::Map(keys, values)) => (Some(keys.as_ref()), Some(values.as_ref())),
        _ => (None, None),
    };
    let forms = entries.iter().map(|(key, value)| {
        let key = Form {
            value: key,
            schema: keys,
        };
        (
            key,
            Form {
                value,
                schema: values,
            },
        )
    });
    if entries
        .iter()
        .all(|(key, _)| matches!(key, Value::String(_)))
    {
        serializer.collect_map(forms)
    } else {
        serializer.collect_seq(forms)
    }
}

fn structure<S: Serializer>(
    values: &[Value],
    fields: &[Field],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_map(Some(values.len()))?;
    for (value, field) in values.iter().zip(fields) {
        let schema = Some(field.schema.as_ref());
        object.serialize_entry(&field.name, &Form { value, schema })?;
    }
    object.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::contract::{item, record, text_record, with_header};
    use std::sync::Arc;

    fn json(datum: &Datum) -> String {
        let mut out = Vec::new();
        write_json(&mut out, datum).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn json_of(value: Value) -> String {
        json(&Datum::schemaless(value))
    }

    #[test]
    fn record_is_one_object_that_names_it() {
        let mut record = with_header(text_record(7, "two\nlines"), "kind", "a");
        record.key = Datum::schemaless(Value::Int64(i64::MAX));
        let mut out = Vec::new();
        write_record(&mut out, &record).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"topic":"orders","partition":0,"offset":7,"timestamp":1700000000000,"key":9223372036854775807,"value":"two\nlines","headers":[{"key":"kind","value":"a"}]}"#
        );
    }

    #[test]
    fn tombstone_and_missing_timestamp_are_null() {
        let mut record = record(0, Datum::null());
        record.timestamp = None;
        let mut out = Vec::new();
        write_record(&mut out, &record).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(object["value"].is_null() && object["timestamp"].is_null());
        assert_eq!(object["headers"], serde_json::json!([]));
    }

    #[test]
    fn decimals_keep_all_digits_and_stay_small() {
        for digits in [
            "123456789012345678901234567890.10",
            "-0.001",
            "1E+100000000",
        ] {
            let value: BigDecimal = digits.parse().unwrap();
            let out = json_of(Value::Decimal(Box::new(value.clone())));
            assert!(out.len() < 60, "{digits}");
            let back: serde_json::Number = serde_json::from_str(&out).unwrap();
            assert_eq!(back.to_string().parse::<BigDecimal>().unwrap(), value);
        }
    }

    #[test]
    fn what_json_has_no_number_for_is_a_text() {
        assert_eq!(json_of(Value::Float64(f64::NAN)), r#""NaN""#);
        assert_eq!(json_of(Value::Float32(f32::INFINITY)), r#""Infinity""#);
        let negative = Value::Float64(f64::NEG_INFINITY);
        assert_eq!(json_of(negative), r#""-Infinity""#);
        assert_eq!(json_of(Value::Float32(0.1)), "0.1");
    }

    #[test]
    fn structs_have_their_field_names_at_any_depth() {
        let inner = item(Value::Int64(4));
        let schema = Arc::new(Schema::of(Kind::Array(inner.schema.unwrap())));
        let datum = Datum::with_schema(schema, Value::Array(vec![inner.value]));
        assert_eq!(json(&datum), r#"[{"item":4}]"#);
    }

    #[test]
    fn map_with_other_keys_than_texts_is_pairs() {
        let text = |text: &str| Value::String(text.to_owned().into());
        let map = Value::Map(vec![(text("b"), Value::Int8(1)), (text("a"), Value::Null)]);
        assert_eq!(json_of(map), r#"{"b":1,"a":null}"#);
        let map = Value::Map(vec![(Value::Int8(1), text("x"))]);
        assert_eq!(json_of(map), r#"[[1,"x"]]"#);
    }

    #[test]
    fn struct_that_does_not_fit_its_schema_is_an_error() {
        let error = write_json(
            &mut Vec::new(),
            &Datum::schemaless(Value::Struct(vec![Value::Null])),
        );
        assert_eq!(error, Err("a struct does not fit its schema".to_owned()));
    }

    #[test]
    fn bytes_are_base64() {
        assert_eq!(json_of(Value::Bytes("ab\n".into())), r#""YWIK""#);
    }
}
