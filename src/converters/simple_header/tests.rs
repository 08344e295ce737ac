use bytes::Bytes;
use proptest::prelude::{any, proptest};
use sluice_actors::ports::converter::HeaderConverter;
use sluice_actors::value::{DATE, Datum, Kind, Schema, SchemaRef, TIME, TIMESTAMP, Value};

use super::SimpleHeaderConverter;
use crate::converters::decimal;

fn convert(text: &str) -> Datum {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    SimpleHeaderConverter
        .to_datum("t", "h", Some(&bytes))
        .unwrap()
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}

fn kind_of(datum: &Datum) -> Option<Kind> {
    datum.schema.as_ref().map(|schema| schema.kind.clone())
}

fn assert_text(text: &str) {
    let datum = convert(text);
    assert_eq!(datum.value, string(text));
    assert_eq!(kind_of(&datum), Some(Kind::String), "{text}");
}

#[test]
fn null_empty_and_the_word_null() {
    let converter = SimpleHeaderConverter;
    assert_eq!(converter.to_datum("t", "h", None).unwrap(), Datum::null());
    assert_eq!(convert("null"), Datum::null());
    assert_eq!(convert(" null "), Datum::null());
    assert_text("");
    assert_text(" ");
}

#[test]
fn words_that_are_nothing_else_are_text_as_they_stand() {
    for text in [
        "hello",
        " hello ",
        "hello world",
        "\"hello\"",
        "'x'",
        "é",
        "NULL",
        "True",
        "null x",
        "true,false",
        "a:b",
        "123abc",
        "0x1F",
        "0xFF",
        "1_000",
        "1L",
        "1.5f",
        "1d",
        ".5",
        "NaN",
        "Infinity",
        "-Infinity",
        "- 5",
        "-",
        "+",
        "--1",
        "1e",
        "1 2",
        "\\null",
        "\"",
        "2019-8-23",
        "2019-08-23T14:34:54Z",
        "2019-08-23T14:34:54.346+02:00",
        "2019-08-23T14:34:54.346z",
    ] {
        assert_text(text);
    }
}

#[test]
fn booleans() {
    for (text, value) in [("true", true), (" true", true), ("false ", false)] {
        let datum = convert(text);
        assert_eq!(datum.value, Value::Boolean(value));
        assert_eq!(kind_of(&datum), Some(Kind::Boolean));
    }
}

#[test]
fn whole_numbers_take_the_smallest_type() {
    for (text, value) in [
        ("1", Value::Int8(1)),
        ("+5", Value::Int8(5)),
        (" 5 ", Value::Int8(5)),
        ("-0", Value::Int8(0)),
        ("007", Value::Int8(7)),
        ("1.0", Value::Int8(1)),
        ("5.", Value::Int8(5)),
        ("127", Value::Int8(127)),
        ("128", Value::Int16(128)),
        ("-128", Value::Int8(-128)),
        ("-129", Value::Int16(-129)),
        ("1e3", Value::Int16(1000)),
        ("32767", Value::Int16(i16::MAX)),
        ("32768", Value::Int32(32768)),
        ("2147483648", Value::Int64(2_147_483_648)),
        ("1e18", Value::Int64(1_000_000_000_000_000_000)),
        ("9223372036854775807", Value::Int64(i64::MAX)),
    ] {
        assert_eq!(convert(text).value, value, "{text}");
    }
}

#[test]
fn fractions_take_the_smallest_type_that_gives_back_their_digits() {
    for (text, value) in [
        ("1.5", Value::Float32(1.5)),
        ("0.1", Value::Float32(0.1)),
        ("1e-3", Value::Float32(0.001)),
        ("1e19", Value::Float32(1e19)),
        ("1e38", Value::Float32(1e38)),
        ("1e39", Value::Float64(1e39)),
        ("16777217.5", Value::Float64(16_777_217.5)),
        ("6.02214076000001", Value::Float64(6.02214076000001)),
        ("1e308", Value::Float64(1e308)),
    ] {
        assert_eq!(convert(text).value, value, "{text}");
    }
}

#[test]
fn what_no_float_holds_is_a_decimal() {
    for (text, written, scale) in [
        ("9223372036854775808", "9223372036854775808", "0"),
        (
            "12345678901234567890.12345",
            "12345678901234567890.12345",
            "5",
        ),
        ("1e309", "1E+309", "-309"),
        ("1e400", "1E+400", "-400"),
        ("1e-400", "1E-400", "400"),
    ] {
        let datum = convert(text);
        let Value::Decimal(number) = &datum.value else {
            panic!("{text} is {datum:?}");
        };
        assert_eq!(decimal::to_text(number), written);
        assert_eq!(datum.schema.as_ref().unwrap().parameters["scale"], scale);
    }
}

/// Each of these would take minutes and gigabytes if its exponent were written
/// out, or its digits multiplied one by one.
#[test]
fn a_number_too_large_to_write_out_is_text_at_once() {
    let digits = "1".repeat(2_000_000);
    let fraction = format!("0.{digits}");
    for text in [
        "407127e212797209",
        "1e+100000000",
        "1e-100000000",
        "-5e2147483647",
        "1e99999999999",
        "1e1001",
        &digits,
        &fraction,
    ] {
        assert_text(text);
    }
    assert_eq!(convert("0e100000000").value, string("0e100000000"));
}

#[test]
fn dates_and_times_in_connects_forms() {
    for (text, value, name) in [
        ("1970-01-01", Value::Int32(0), DATE),
        ("2019-08-23", Value::Int32(18131), DATE),
        (" 2019-08-23", Value::Int32(18131), DATE),
        ("1969-12-31", Value::Int32(-1), DATE),
        ("2000-02-29", Value::Int32(11016), DATE),
        ("9999-12-31", Value::Int32(2_932_896), DATE),
        ("14:34:54.346Z", Value::Int32(52_494_346), TIME),
        (
            "2019-08-23T14:34:54.346Z",
            Value::Int64(1_566_570_894_346),
            TIMESTAMP,
        ),
        ("1969-12-31T23:59:59.999Z", Value::Int64(-1), TIMESTAMP),
    ] {
        let datum = convert(text);
        assert_eq!(datum.value, value, "{text}");
        let schema = datum.schema.unwrap();
        assert!(schema.is_logical(name), "{text}");
        assert_eq!(schema.version, Some(1));
    }
}

#[test]
fn dates_and_times_that_are_none_stay_text() {
    for text in [
        "2019-13-45",
        "2019-02-30",
        "1900-02-29",
        "2019-00-10",
        "25:00:00.000Z",
        "24:00:00.000Z",
        "12:60:00.000Z",
        "14:34:54Z",
        "14:34:54.346",
        "2019-08-23 14:34:54.346Z",
        "١٢",
    ] {
        assert_text(text);
    }
}

fn schema_of(text: &str) -> Option<Schema> {
    convert(text).schema.map(|schema| (*schema).clone())
}

fn list(kind: Kind) -> Option<Schema> {
    Some(Schema::of(Kind::Array(SchemaRef::from(Schema::of(kind)))))
}

#[test]
fn lists_have_the_type_that_holds_all_elements() {
    for (text, kind, values) in [
        ("[1,2]", Kind::Int8, vec![Value::Int8(1), Value::Int8(2)]),
        (
            " [ 1 , 2 ] ",
            Kind::Int8,
            vec![Value::Int8(1), Value::Int8(2)],
        ),
        ("[1,]", Kind::Int8, vec![Value::Int8(1)]),
        (
            "[1,2000]",
            Kind::Int16,
            vec![Value::Int16(1), Value::Int16(2000)],
        ),
        (
            "[1.5,2]",
            Kind::Float32,
            vec![Value::Float32(1.5), Value::Float32(2.0)],
        ),
        (
            "[0.1,1e39]",
            Kind::Float64,
            vec![Value::Float64(0.1), Value::Float64(1e39)],
        ),
        (
            "[16777217,0.5]",
            Kind::Float64,
            vec![Value::Float64(16_777_217.0), Value::Float64(0.5)],
        ),
        (
            "[true,false]",
            Kind::Boolean,
            vec![Value::Boolean(true), Value::Boolean(false)],
        ),
        (
            "[\"a,b]\",\"\"]",
            Kind::String,
            vec![string("a,b]"), string("")],
        ),
        (
            "[\"1\",\"null\"]",
            Kind::String,
            vec![string("1"), string("null")],
        ),
        ("[\"a\\\"b\"]", Kind::String, vec![string("a\\\"b")]),
    ] {
        assert_eq!(schema_of(text), list(kind), "{text}");
        assert_eq!(convert(text).value, Value::Array(values), "{text}");
    }
}

#[test]
fn lists_of_dates_quoted_or_not() {
    for text in ["[2019-08-23]", "[\"2019-08-23\"]"] {
        let datum = convert(text);
        assert_eq!(datum.value, Value::Array(vec![Value::Int32(18131)]));
        let schema = datum.schema.unwrap();
        assert!(matches!(&schema.kind, Kind::Array(items) if items.is_logical(DATE)));
    }
    let instant = Value::Array(vec![Value::Int64(1_566_570_894_346)]);
    assert_eq!(convert("[2019-08-23T14:34:54.346Z]").value, instant);
}

#[test]
fn lists_without_a_common_type_have_no_schema() {
    let two = |one, other| Value::Array(vec![one, other]);
    for (text, value) in [
        ("[]", Value::Array(vec![])),
        ("[null]", Value::Array(vec![Value::Null])),
        ("[1,\"a\"]", two(Value::Int8(1), string("a"))),
        ("[true,1]", two(Value::Boolean(true), Value::Int8(1))),
        ("[2019-08-23,1]", two(Value::Int32(18131), Value::Int8(1))),
        (
            "[9007199254740993,0.5]",
            two(Value::Int64(9_007_199_254_740_993), Value::Float32(0.5)),
        ),
    ] {
        assert_eq!(convert(text), Datum::schemaless(value), "{text}");
    }
}

#[test]
fn maps_in_order_with_the_last_value_of_a_key() {
    let datum = convert("{\"b\" : 1, \"a\":2000, \"b\":3,}");
    let entries = vec![
        (string("b"), Value::Int16(3)),
        (string("a"), Value::Int16(2000)),
    ];
    assert_eq!(datum.value, Value::Map(entries));
    let (keys, values) = (Schema::of(Kind::String), Schema::of(Kind::Int16));
    assert_eq!(kind_of(&datum), Some(Kind::Map(keys.into(), values.into())));
    let numbered = Value::Map(vec![
        (Value::Int16(1), string("x")),
        (Value::Int16(2000), string("y")),
    ]);
    assert_eq!(convert("{1:\"x\",2000:\"y\"}").value, numbered);
}

#[test]
fn maps_without_a_common_type_have_no_schema() {
    let mixed = Value::Map(vec![
        (string("a"), Value::Int8(1)),
        (string("b"), string("x")),
    ]);
    assert_eq!(convert("{\"a\":1,\"b\":\"x\"}"), Datum::schemaless(mixed));
    assert_eq!(convert("{}"), Datum::schemaless(Value::Map(vec![])));
    let inner = Value::Map(vec![(string("b"), Value::Array(vec![Value::Int8(1)]))]);
    assert_eq!(
        convert("{\"a\":{\"b\":[1]}}").value,
        Value::Map(vec![(string("a"), inner)])
    );
}

#[test]
fn half_a_list_or_map_is_text() {
    for text in [
        "[1,2",
        "[1,,2]",
        "[a,b]",
        "[1 2]",
        "[true x]",
        "[\"a\"x]",
        "[\"a",
        "[1,2] x",
        "[]]",
        "1,2",
        "1:2",
        "{\"a\":1",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{null:1}",
        "{1:2,\"a\":3}",
        "[1,null]",
        "{\"a\":null,\"b\":1}",
        "[0x1F]",
        "[\\1]",
        "{",
        "[",
    ] {
        assert_text(text);
    }
}

#[test]
fn deep_nesting_is_text_and_no_stack_overflow() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(matches!(convert(&deep(100)).value, Value::Array(_)));
    assert_text(&deep(101));
    assert_text(&"[".repeat(1_000_000));
    assert_text(&"{\"a\":".repeat(1_000_000));
}

#[test]
fn bytes_that_are_no_text_stay_bytes() {
    let bytes = Bytes::from_static(b"a\xff");
    let datum = SimpleHeaderConverter
        .to_datum("t", "h", Some(&bytes))
        .unwrap();
    assert_eq!(datum.value, Value::Bytes(bytes));
    assert_eq!(kind_of(&datum), Some(Kind::Bytes));
}

#[test]
fn text_is_the_header_itself() {
    let bytes = Bytes::from_static(b"hello");
    let datum = SimpleHeaderConverter
        .to_datum("t", "h", Some(&bytes))
        .unwrap();
    let Value::String(text) = datum.value else {
        panic!("no text");
    };
    assert_eq!(text.as_bytes().as_ptr(), bytes.as_ptr());
}

proptest! {
    #[test]
    fn every_text_converts(text in "[-+0-9eE.:,TZ\\[\\]{}\"\\\\ a]{0,40}") {
        convert(&text);
    }

    #[test]
    fn every_integer_is_exact(number in any::<i64>()) {
        let found = match convert(&number.to_string()).value {
            Value::Int8(found) => found.into(),
            Value::Int16(found) => found.into(),
            Value::Int32(found) => found.into(),
            Value::Int64(found) => found,
            other => panic!("{other:?}"),
        };
        assert_eq!(found, number);
    }
}
