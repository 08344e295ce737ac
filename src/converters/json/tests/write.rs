use sluice_actors::value::{Datum, Kind, Schema, SchemaRef, Value};

use super::{Bytes, convert, converter, decimal, string};
use crate::converters::json::{DecimalFormat, NonFinite, WriteOptions, to_envelope, to_json};

const NUMERIC: WriteOptions = WriteOptions {
    decimal_format: DecimalFormat::Numeric,
    non_finite: NonFinite::Refuse,
};

fn plain(value: Value) -> String {
    let text = to_json(&Datum::schemaless(value), WriteOptions::default())
        .unwrap()
        .unwrap();
    String::from_utf8(text).unwrap()
}

fn envelope(datum: &Datum, options: WriteOptions) -> String {
    String::from_utf8(to_envelope(datum, options).unwrap().unwrap()).unwrap()
}

#[test]
fn values_are_written_as_connect_writes_them() {
    for (value, json) in [
        (Value::Boolean(true), "true"),
        (Value::Int64(i64::MIN), "-9223372036854775808"),
        (Value::Float32(1.1), "1.1"),
        (Value::Float64(1.0), "1.0"),
        (decimal("12.50"), "12.50"),
        (decimal("15.6e3"), "1.56E+4"),
        (Value::Bytes(Bytes::from_static(&[1, 2, 3])), "\"AQID\""),
        (
            string("a\"\\\n\r\t\u{1}é/"),
            "\"a\\\"\\\\\\n\\r\\t\\u0001é/\"",
        ),
        (Value::Array(vec![Value::Null, Value::Int8(1)]), "[null,1]"),
        (
            Value::Map(vec![
                (string("a"), Value::Int8(1)),
                (string("b"), Value::Null),
            ]),
            "{\"a\":1,\"b\":null}",
        ),
        (
            Value::Map(vec![(Value::Int32(1), string("x"))]),
            "[[1,\"x\"]]",
        ),
    ] {
        assert_eq!(plain(value), json);
    }
}

/// Compaction and sinks that delete look for null bytes.
#[test]
fn a_null_is_written_as_no_bytes_and_not_as_an_envelope_of_nulls() {
    let nulls = [
        Datum::null(),
        Datum::with_schema(SchemaRef::from(Schema::optional(Kind::String)), Value::Null),
    ];
    for null in nulls {
        assert_eq!(to_json(&null, WriteOptions::default()).unwrap(), None);
        assert_eq!(to_envelope(&null, WriteOptions::default()).unwrap(), None);
    }
}

/// What Connect's converter writes for the same record, byte by byte.
#[test]
fn an_envelope_is_what_connect_writes_and_reads_back() {
    for json in [
        r#"{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"a"},{"type":"string","optional":true,"field":"b"},{"type":"string","optional":false,"default":"z","field":"c"}],"optional":true,"name":"r","version":3,"doc":"d","parameters":{"p":"q"}},"payload":{"a":1,"b":null,"c":"z"}}"#,
        r#"{"schema":{"type":"map","keys":{"type":"int32","optional":false},"values":{"type":"int8","optional":false},"optional":false},"payload":[[1,1],[2,2]]}"#,
        r#"{"schema":{"type":"map","keys":{"type":"string","optional":true},"values":{"type":"int8","optional":false},"optional":false},"payload":{"1":1}}"#,
        r#"{"schema":{"type":"array","items":{"type":"struct","fields":[{"type":"int8","optional":true,"field":"a"}],"optional":false},"optional":false,"default":[{"a":1},{"a":null}]},"payload":[{"a":1},{"a":null}]}"#,
        r#"{"schema":{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"-2"}},"payload":"AJw="}"#,
        r#"{"schema":{"type":"int64","optional":false,"name":"org.apache.kafka.connect.data.Timestamp","version":1},"payload":1690825888386}"#,
        r#"{"schema":null,"payload":{"a":1}}"#,
    ] {
        let datum = convert(&converter(&[]), json).unwrap();
        assert_eq!(envelope(&datum, WriteOptions::default()), json);
    }
}

#[test]
fn decimals_are_numbers_or_base64_by_the_settings() {
    let json = r#"{"schema":{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"},"default":"AJw="},"payload":null}"#;
    let datum = convert(&converter(&[]), json).unwrap();
    assert!(
        envelope(&datum, WriteOptions::default())
            .ends_with(r#""default":"AJw="},"payload":"AJw="}"#)
    );
    assert!(envelope(&datum, NUMERIC).ends_with(r#""default":1.56},"payload":1.56}"#));
    assert_eq!(to_json(&datum, NUMERIC).unwrap().unwrap(), b"1.56");
    let finer = Datum {
        value: decimal("1.567"),
        ..datum
    };
    let error = to_json(&finer, WriteOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("more digits than its schema's scale"),
        "{error}"
    );
}

#[test]
fn what_is_no_number_in_json_is_refused_or_written_as_told() {
    let numbers = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(Value::Float64);
    let datum = Datum::schemaless(Value::Array(numbers.to_vec()));
    let write = |non_finite| {
        let options = WriteOptions {
            non_finite,
            ..WriteOptions::default()
        };
        to_json(&datum, options).map(|text| String::from_utf8(text.unwrap()).unwrap())
    };
    assert!(
        write(NonFinite::Refuse)
            .unwrap_err()
            .to_string()
            .contains("no number for NaN")
    );
    assert_eq!(write(NonFinite::Null).unwrap(), "[null,null,null]");
    assert_eq!(
        write(NonFinite::Text).unwrap(),
        r#"["NaN","Infinity","-Infinity"]"#
    );
}

#[test]
fn an_error_names_the_field() {
    let json = r#"{"schema":{"type":"struct","fields":[{"field":"rate","type":"double"}]},"payload":{"rate":"NaN"}}"#;
    let datum = convert(&converter(&[]), json).unwrap();
    let error = to_json(&datum, WriteOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "field rate: JSON has no number for NaN or Infinity"
    );
}
