//! A record as one JSON object.

use sluice_actors::ports::converter::ConvertError;
use sluice_actors::record::{Header, SinkRecord};
use sluice_actors::value::Datum;

use crate::converters::json::{WriteOptions, append_json, append_list, append_string};

/// Room for a small record, so that most lines grow once.
const USUAL_LINE: usize = 256;

type Written = Result<(), ConvertError>;

/// Appends the JSON form of a value.
pub(in crate::sinks) fn write_json(out: &mut Vec<u8>, datum: &Datum) -> Written {
    write(out, |text| append_datum(text, datum))
}

/// Appends a record's object, without a newline.
pub(super) fn write_record(out: &mut Vec<u8>, record: &SinkRecord) -> Written {
    write(out, |text| append_record(text, record))
}

fn write(out: &mut Vec<u8>, append: impl FnOnce(&mut String) -> Written) -> Written {
    let mut text = String::with_capacity(USUAL_LINE);
    append(&mut text)?;
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn append_record(text: &mut String, record: &SinkRecord) -> Written {
    text.push_str("{\"topic\":");
    append_string(text, &record.topic);
    let (partition, offset) = (record.partition.partition, record.offset);
    text.push_str(&format!(
        ",\"partition\":{partition},\"offset\":{offset},\"timestamp\":"
    ));
    match record.timestamp {
        Some(timestamp) => text.push_str(&timestamp.to_string()),
        None => text.push_str("null"),
    }
    text.push_str(",\"key\":");
    append_datum(text, &record.key)?;
    text.push_str(",\"value\":");
    append_datum(text, &record.value)?;
    text.push_str(",\"headers\":");
    append_list(text, ('[', ']'), &record.headers, append_header)?;
    text.push('}');
    Ok(())
}

fn append_header(text: &mut String, header: &Header) -> Written {
    text.push_str("{\"key\":");
    append_string(text, &header.key);
    text.push_str(",\"value\":");
    append_datum(text, &header.value)?;
    text.push('}');
    Ok(())
}

fn append_datum(text: &mut String, datum: &Datum) -> Written {
    append_json(
        text,
        &datum.value,
        datum.schema.as_deref(),
        WriteOptions::PLAIN,
    )
}

#[cfg(test)]
mod tests {
    use bigdecimal::BigDecimal;
    use sluice_actors::value::{Field, Kind, Schema, SchemaRef, Value};

    use super::*;
    use crate::sinks::contract::{item, record, text_record, with_header};

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
        let schema = SchemaRef::from(Schema::of(Kind::Array(inner.schema.unwrap())));
        let datum = Datum::with_schema(schema, Value::Array(vec![inner.value]));
        assert_eq!(json(&datum), r#"[{"item":4}]"#);
    }

    #[test]
    fn struct_that_does_not_fit_its_schema_is_an_error() {
        let field = Field {
            name: "id".to_owned(),
            schema: SchemaRef::from(Schema::optional(Kind::Int64)),
        };
        let two = Kind::Struct(vec![field.clone(), field]);
        for schema in [None, Some(SchemaRef::from(Schema::of(two)))] {
            let value = Value::Struct(vec![Value::Null]);
            let mut out = b"before".to_vec();
            assert!(write_json(&mut out, &Datum { schema, value }).is_err());
            assert_eq!(out, b"before");
        }
    }

    #[test]
    fn bytes_are_base64() {
        assert_eq!(json_of(Value::Bytes("ab\n".into())), r#""YWIK""#);
    }
}
