use sluice_actors::ports::converter::Converter;
use sluice_actors::value::{DECIMAL, Datum, Kind, Schema, SchemaRef, Value};

use super::{Bytes, convert, converter, decimal, string, try_converter};
use crate::converters::json::{WriteOptions, to_envelope};

const KEEP_NULLS: &[(&str, &str)] = &[("replace.null.with.default", "false")];

fn datum_of(schema: &str, payload: &str) -> Result<Datum, String> {
    let json = format!("{{\"schema\":{schema},\"payload\":{payload}}}");
    convert(&converter(&[]), &json)
}

fn value_of(schema: &str, payload: &str) -> Value {
    let datum = datum_of(schema, payload);
    datum
        .unwrap_or_else(|error| panic!("{schema} {payload}: {error}"))
        .value
}

fn error_of(schema: &str, payload: &str) -> String {
    datum_of(schema, payload).expect_err(payload)
}

#[test]
fn every_type_is_read_by_its_schema() {
    for (schema, payload, value) in [
        (r#"{"type":"int8"}"#, "-128", Value::Int8(-128)),
        (r#"{"type":"int16"}"#, "300", Value::Int16(300)),
        (r#"{"type":"int32"}"#, "1", Value::Int32(1)),
        (
            r#"{"type":"int64"}"#,
            "9007199254740993",
            Value::Int64(9_007_199_254_740_993),
        ),
        (r#"{"type":"int64"}"#, "1e3", Value::Int64(1000)),
        (r#"{"type":"int8"}"#, "1.0", Value::Int8(1)),
        (r#"{"type":"float"}"#, "1.1", Value::Float32(1.1)),
        (r#"{"type":"double"}"#, "1", Value::Float64(1.0)),
        (
            r#"{"type":"double"}"#,
            "\"-Infinity\"",
            Value::Float64(f64::NEG_INFINITY),
        ),
        (r#"{"type":"boolean"}"#, "true", Value::Boolean(true)),
        (r#"{"type":"string"}"#, "\"x\"", string("x")),
        (
            r#"{"type":"bytes"}"#,
            "\"AQID\"",
            Value::Bytes(Bytes::from_static(&[1, 2, 3])),
        ),
        (
            r#"{"type":"array","items":{"type":"int8"}}"#,
            "[1]",
            Value::Array(vec![Value::Int8(1)]),
        ),
        (
            r#"{"type":"map","keys":{"type":"string"},"values":{"type":"int8"}}"#,
            r#"{"a":1,"a":2}"#,
            Value::Map(vec![(string("a"), Value::Int8(2))]),
        ),
        (
            r#"{"type":"map","keys":{"type":"int32"},"values":{"type":"int8"}}"#,
            "[[1,2]]",
            Value::Map(vec![(Value::Int32(1), Value::Int8(2))]),
        ),
    ] {
        assert_eq!(value_of(schema, payload), value, "{schema}");
    }
    assert!(
        matches!(value_of(r#"{"type":"float"}"#, "\"NaN\""), Value::Float32(nan) if nan.is_nan())
    );
}

#[test]
fn logical_types_are_read_by_name() {
    let of = |kind: &str, name: &str| {
        format!(
            "{{\"type\":\"{kind}\",\"name\":\"org.apache.kafka.connect.data.{name}\",\"version\":1}}"
        )
    };
    assert_eq!(value_of(&of("int32", "Date"), "18000"), Value::Int32(18000));
    assert_eq!(
        value_of(&of("int32", "Time"), "86400000"),
        Value::Int32(86_400_000)
    );
    assert_eq!(
        value_of(&of("int64", "Timestamp"), "1690825888386"),
        Value::Int64(1_690_825_888_386)
    );
    for millis in ["-1", "86400001"] {
        let error = error_of(&of("int32", "Time"), millis);
        assert!(
            error.contains("a Time is 0 to 86400000 milliseconds"),
            "{error}"
        );
    }
}

#[test]
fn decimals_come_as_base64_or_as_numbers() {
    let scale = |scale: &str| {
        format!(
            "{{\"type\":\"bytes\",\"name\":\"{DECIMAL}\",\"parameters\":{{\"scale\":\"{scale}\"}}}}"
        )
    };
    for (digits, payload, value, found_scale) in [
        ("2", "\"AJw=\"", "1.56", 2),
        ("2", "1.56", "1.56", 2),
        ("2", "1.5", "1.50", 2),
        ("2", "1.567", "1.567", 3),
        ("-2", "\"AJw=\"", "156e2", -2),
        ("0", "1e20", "100000000000000000000", 0),
        ("2", "1e+100000000", "1e+100000000", -100_000_000),
        ("2", "\"/2Q=\"", "-1.56", 2),
    ] {
        let Value::Decimal(number) = value_of(&scale(digits), payload) else {
            panic!("no decimal");
        };
        assert_eq!(number.fractional_digit_count(), found_scale, "{payload}");
        assert_eq!(Value::Decimal(number), decimal(value), "{payload}");
    }
    assert!(error_of(&scale("0"), "\"\"").contains("at least one byte"));
    assert!(error_of(&scale("many"), "1").contains("needs the parameter \"scale\""));
    assert!(error_of(&scale("99999999"), "1").contains("needs the parameter \"scale\""));
}

#[test]
fn structs_take_their_fields_by_name_in_any_order() {
    let schema = r#"{"type":"struct","name":"r","version":3,"doc":"d","parameters":{"p":"q"},
        "optional":true,"fields":[{"field":"a","type":"int32"},
        {"field":"b","type":"string","optional":true},{"field":"c","type":"string","default":"z"}]}"#;
    let datum = datum_of(schema, r#"{"x":[{"y":1}],"c":"last","a":1}"#).unwrap();
    assert_eq!(
        datum.value,
        Value::Struct(vec![Value::Int32(1), Value::Null, string("last")])
    );
    let schema_read = datum.schema.unwrap();
    assert_eq!(schema_read.name.as_deref(), Some("r"));
    assert_eq!(schema_read.version, Some(3));
    assert_eq!(schema_read.doc.as_deref(), Some("d"));
    assert_eq!(schema_read.parameters["p"], "q");
    assert!(schema_read.optional);
    let defaulted = value_of(schema, r#"{"a":2,"c":null}"#);
    assert_eq!(
        defaulted,
        Value::Struct(vec![Value::Int32(2), Value::Null, string("z")])
    );
}

#[test]
fn wide_structs_take_their_fields_by_name_too() {
    let fields: Vec<String> = (0..40)
        .map(|n| format!("{{\"field\":\"f{n}\",\"type\":\"int32\"}}"))
        .collect();
    let schema = format!("{{\"type\":\"struct\",\"fields\":[{}]}}", fields.join(","));
    let members: Vec<String> = (0..40).rev().map(|n| format!("\"f{n}\":{n}")).collect();
    let value = value_of(&schema, &format!("{{{}}}", members.join(",")));
    assert_eq!(value, Value::Struct((0..40).map(Value::Int32).collect()));
}

#[test]
fn defaults_may_be_lists_of_structs_with_nulls_in_them() {
    let schema = r#"{"default":[{"a":1},{"a":null}],"type":"array","items":{"type":"struct",
        "fields":[{"field":"a","type":"int8","optional":true}]}}"#;
    let row = |value| Value::Struct(vec![value]);
    let rows = Value::Array(vec![row(Value::Int8(1)), row(Value::Null)]);
    assert_eq!(value_of(schema, "null"), rows);
    let price = r#"{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal",
        "parameters":{"scale":"2"},"default":"AJw="}"#;
    assert_eq!(value_of(price, "null"), decimal("1.56"));
    assert_eq!(
        value_of(r#"{"type":"int8","optional":true,"default":null}"#, "1"),
        Value::Int8(1)
    );
}

#[test]
fn nulls_take_the_default_unless_told_otherwise() {
    let keep = converter(KEEP_NULLS);
    let json = r#"{"schema":{"type":"int8","optional":true,"default":5},"payload":null}"#;
    assert_eq!(
        convert(&converter(&[]), json).unwrap().value,
        Value::Int8(5)
    );
    assert_eq!(convert(&keep, json).unwrap().value, Value::Null);
    let required = r#"{"schema":{"type":"int8","default":5},"payload":null}"#;
    let error = convert(&keep, required).unwrap_err();
    assert!(
        error.contains("no value where the schema requires int8"),
        "{error}"
    );
}

#[test]
fn a_null_payload_keeps_its_schema_and_null_bytes_have_none() {
    let datum = datum_of(r#"{"type":"int8","optional":true}"#, "null").unwrap();
    assert_eq!(datum.value, Value::Null);
    assert_eq!(datum.schema.as_deref(), Some(&Schema::optional(Kind::Int8)));
    assert_eq!(converter(&[]).to_datum("t", None).unwrap(), Datum::null());
}

#[test]
fn a_null_schema_means_plain_json() {
    let datum = datum_of("null", r#"{"a":0.1}"#).unwrap();
    assert_eq!(
        datum,
        Datum::schemaless(Value::Map(vec![(string("a"), decimal("0.1"))]))
    );
}

#[test]
fn the_payload_may_come_first_and_the_last_of_equal_names_wins() {
    let converter = converter(&[]);
    let json = r#"{"payload":"x","payload":1,"schema":{"type":"string"},"schema":{"type":"int8"}}"#;
    assert_eq!(convert(&converter, json).unwrap().value, Value::Int8(1));
}

/// A key or a delete event without an envelope among records with one.
#[test]
fn json_without_an_envelope_is_refused_with_the_way_out() {
    let converter = converter(&[]);
    for json in [
        "1",
        "",
        "null",
        "[1]",
        "{}",
        r#"{"id":1}"#,
        r#"{"schema":{"type":"int8"}}"#,
        r#"{"payload":1}"#,
        r#"{"schema":{"type":"int8"},"payload":1,"x":1}"#,
    ] {
        let error = convert(&converter, json).unwrap_err();
        assert!(
            error.contains("the record's value is no envelope"),
            "{json}: {error}"
        );
        assert!(error.contains("\"schema\" and \"payload\""), "{error}");
        assert!(
            error.contains("set value.converter.schemas.enable=false"),
            "{error}"
        );
        // Only that record is refused: the next one is read.
        let good = r#"{"schema":{"type":"int8"},"payload":1}"#;
        assert_eq!(convert(&converter, good).unwrap().value, Value::Int8(1));
    }
}

#[test]
fn values_that_are_not_what_the_schema_says_are_refused_and_not_made_to_fit() {
    for (schema, payload, message) in [
        (r#"{"type":"int8"}"#, "300", "the number is no int8"),
        (r#"{"type":"int8"}"#, "1.5", "the number is no int8"),
        (r#"{"type":"int8"}"#, "1e100000000", "the number is no int8"),
        (
            r#"{"type":"int64"}"#,
            "9223372036854775808",
            "the number is no int64",
        ),
        (
            r#"{"type":"int8"}"#,
            "\"x\"",
            "expected a number for int8, found a string",
        ),
        (
            r#"{"type":"float"}"#,
            "1e39",
            "beyond the schema's float type",
        ),
        (
            r#"{"type":"double"}"#,
            "1e400",
            "beyond the schema's float type",
        ),
        (
            r#"{"type":"double"}"#,
            "\"1\"",
            "expected a number for double, found a string",
        ),
        (
            r#"{"type":"boolean"}"#,
            "1",
            "expected a boolean for boolean, found a number",
        ),
        (
            r#"{"type":"string"}"#,
            "5",
            "expected a string for string, found a number",
        ),
        (
            r#"{"type":"bytes"}"#,
            "\"AQI\"",
            "bytes must be base64 with padding",
        ),
        (
            r#"{"type":"array","items":{"type":"int8"}}"#,
            "{}",
            "expected an array for array",
        ),
        (
            r#"{"type":"array","items":{"type":"int8"}}"#,
            "[null]",
            "the schema requires int8",
        ),
        (
            r#"{"type":"map","keys":{"type":"int32"},"values":{"type":"int8"}}"#,
            "[[1,1,1]]",
            "an entry of a map is an array of key and value",
        ),
        (
            r#"{"type":"map","keys":{"type":"string"},"values":{"type":"int8"}}"#,
            "[]",
            "expected an object for map, found an array",
        ),
        (
            r#"{"type":"struct","fields":[]}"#,
            "[1]",
            "expected an object for struct",
        ),
    ] {
        let error = error_of(schema, payload);
        assert!(error.contains(message), "{payload}: {error}");
    }
}

#[test]
fn an_error_names_the_field_and_the_place_but_never_the_value() {
    let schema = r#"{"type":"struct","fields":[{"field":"card","type":"struct","fields":[{"field":"number","type":"int32"}]}]}"#;
    let payload = r#"{"card":{"number":"4111111111111111"}}"#;
    let error = error_of(schema, payload);
    let at = format!("{{\"schema\":{schema},\"payload\":{{\"card\":{{\"number\":").len();
    let expected = format!(
        "the record's value cannot be read as JSON: expected a number for int32, found a string \
         (byte {at}, field card.number)"
    );
    assert_eq!(error, expected);
    assert!(error_of(schema, r#"{"card":{}}"#).contains("field card.number"));
}

#[test]
fn schemas_that_are_none_are_refused_with_what_they_lack() {
    for (schema, message) in [
        ("5", "a schema must be an object with a \"type\" (byte 10)"),
        ("{}", "a schema needs a \"type\" (byte 10)"),
        (r#"{"type":"foo"}"#, "a schema's \"type\" is one of int8"),
        (r#"{"type":"array"}"#, "an array's schema needs \"items\""),
        (
            r#"{"type":"map","keys":{"type":"int8"}}"#,
            "needs \"keys\" and \"values\"",
        ),
        (r#"{"type":"struct"}"#, "a struct's schema needs \"fields\""),
        (
            r#"{"type":"struct","fields":[{"type":"int8"}]}"#,
            "needs \"field\", its name",
        ),
        (
            r#"{"type":"struct","fields":[{"field":"a","type":"int8"},{"field":"a","type":"int8"}]}"#,
            "two fields of a struct have the same name",
        ),
        (
            r#"{"type":"int8","parameters":{"a":1}}"#,
            "parameters must be strings",
        ),
        (
            r#"{"type":"int8","default":"x"}"#,
            "expected a number for int8",
        ),
    ] {
        let error = error_of(schema, "1");
        assert!(error.contains(message), "{schema}: {error}");
    }
}

#[test]
fn deeply_nested_schemas_are_refused_and_the_stack_is_safe() {
    let schema = format!(
        "{}{{}}{}",
        r#"{"type":"array","items":"#.repeat(100_000),
        "}".repeat(100_000)
    );
    assert!(error_of(&schema, "1").contains("lie more than 1000 deep"));
}

#[test]
fn values_as_deep_as_allowed_are_read_and_written_without_stack_overflow() {
    let depth = 990;
    let schema = format!(
        "{}{{\"type\":\"int8\"}}{}",
        r#"{"type":"array","items":"#.repeat(depth),
        "}".repeat(depth)
    );
    let payload = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let datum = datum_of(&schema, &payload).unwrap();
    let text = to_envelope(&datum, WriteOptions::default())
        .unwrap()
        .unwrap();
    assert!(text.ends_with(format!("{payload}}}").as_bytes()));
}

#[test]
fn equal_schemas_are_shared_between_records() {
    let converter = converter(&[]);
    let schema_of = |payload: &str| {
        let json = format!("{{\"schema\":{{\"type\":\"int8\"}},\"payload\":{payload}}}");
        convert(&converter, &json).unwrap().schema.unwrap()
    };
    assert!(SchemaRef::ptr_eq(&schema_of("1"), &schema_of("2")));
}

#[test]
fn records_of_several_schemas_in_turn_each_get_their_own() {
    let converter = converter(&[]);
    for _ in 0..2 {
        for (schema, value) in [
            (r#"{"type":"int8"}"#, Value::Int8(1)),
            (r#"{"type":"int16"}"#, Value::Int16(1)),
            (r#"{"type":"int8"} "#, Value::Int8(1)),
            ("null", Value::Int64(1)),
        ] {
            for json in [
                format!("{{\"schema\":{schema},\"payload\":1}}"),
                format!("{{\"payload\":1,\"schema\":{schema}}}"),
            ] {
                assert_eq!(convert(&converter, &json).unwrap().value, value, "{json}");
            }
        }
    }
}

#[test]
fn a_schema_from_the_settings_reads_plain_json() {
    let fixed = converter(&[("schema.content", r#"{"type":"int8"}"#)]);
    let datum = convert(&fixed, "5").unwrap();
    assert_eq!(
        datum,
        Datum::with_schema(SchemaRef::from(Schema::of(Kind::Int8)), Value::Int8(5))
    );
    assert!(convert(&fixed, r#"{"schema":{"type":"int8"},"payload":1}"#).is_err());
    let (_, faults) = try_converter(&[("schema.content", r#"{"type":"int9"}"#)]);
    let fault = faults.iter().next().unwrap();
    assert_eq!(fault.key, "value.converter.schema.content");
    assert!(fault.message.contains("\"type\" is one of"), "{fault}");
}
