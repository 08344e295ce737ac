use bigdecimal::ToPrimitive;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use sluice_actors::ports::converter::Converter;
use sluice_actors::value::{Datum, Value};

use super::{Bytes, convert, converter, decimal, string};
use crate::converters::json::JsonConverter;
use crate::converters::json::reader::MAX_DEPTH;
use crate::converters::json::{WriteOptions, to_json};

fn plain() -> JsonConverter {
    converter(&[("schemas.enable", "false")])
}

fn value_of(json: &str) -> Value {
    let datum = convert(&plain(), json).unwrap_or_else(|error| panic!("{json}: {error}"));
    assert_eq!(datum.schema, None);
    datum.value
}

fn error_of(json: &str) -> String {
    convert(&plain(), json).expect_err(json)
}

#[test]
fn values_are_what_the_text_says() {
    for (json, value) in [
        ("null", Value::Null),
        (" true ", Value::Boolean(true)),
        ("false", Value::Boolean(false)),
        ("-7", Value::Int64(-7)),
        ("01", Value::Int64(1)),
        ("\"x\"", string("x")),
        ("[]", Value::Array(vec![])),
        (
            "[1 , [null]]",
            Value::Array(vec![Value::Int64(1), Value::Array(vec![Value::Null])]),
        ),
        ("{}", Value::Map(vec![])),
        ("\u{feff}1", Value::Int64(1)),
    ] {
        assert_eq!(value_of(json), value, "{json}");
    }
}

#[test]
fn null_bytes_and_no_text_are_a_tombstone() {
    assert_eq!(plain().to_datum("t", None).unwrap(), Datum::null());
    assert_eq!(value_of(""), Value::Null);
    assert_eq!(value_of(" \n"), Value::Null);
}

#[test]
fn numbers_are_exact() {
    for (json, value) in [
        ("9007199254740993", Value::Int64(9_007_199_254_740_993)),
        ("9223372036854775807", Value::Int64(i64::MAX)),
        ("-9223372036854775808", Value::Int64(i64::MIN)),
        ("9223372036854775808", decimal("9223372036854775808")),
        ("0.1", decimal("0.1")),
        (
            "123456789012345678.901234567890",
            decimal("123456789012345678.901234567890"),
        ),
        ("1e3", decimal("1e3")),
    ] {
        assert_eq!(value_of(json), value, "{json}");
    }
    assert!(
        matches!(value_of("1.50"), Value::Decimal(number) if number.fractional_digit_count() == 2)
    );
}

/// Written out, these exponents would fill the memory.
#[test]
fn giant_exponents_are_carried_and_not_written_out() {
    for (json, written) in [
        ("1e400", "1E+400"),
        ("1e+100000000", "1E+100000000"),
        ("407127e212797209", "4.07127E+212797214"),
        ("1e-100000000", "1E-100000000"),
    ] {
        let datum = Datum::schemaless(value_of(json));
        let text = to_json(&datum, WriteOptions::default()).unwrap().unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), written);
    }
    assert!(error_of("1e99999999999").contains("exponent does not fit 32 bits"));
}

#[test]
fn very_long_numbers_are_refused_at_once() {
    assert!(matches!(value_of(&"1".repeat(1000)), Value::Decimal(_)));
    let error = error_of(&"1".repeat(2_000_000));
    assert!(
        error.contains("a number of more than 1000 characters (byte 0)"),
        "{error}"
    );
}

#[test]
fn objects_keep_their_order_and_the_last_of_equal_names() {
    let map = value_of(r#"{"b":1,"a":2,"b":3}"#);
    assert_eq!(
        map,
        Value::Map(vec![
            (string("b"), Value::Int64(3)),
            (string("a"), Value::Int64(2))
        ])
    );
}

#[test]
fn wide_objects_keep_the_last_of_equal_names_too() {
    let members: Vec<String> = (0..200).map(|n| format!("\"k{}\":{n}", n % 100)).collect();
    let Value::Map(entries) = value_of(&format!("{{{}}}", members.join(","))) else {
        panic!("no map");
    };
    assert_eq!(entries.len(), 100);
    for (place, (name, value)) in entries.iter().enumerate() {
        assert_eq!(name, &string(&format!("k{place}")));
        assert_eq!(value, &Value::Int64(place as i64 + 100));
    }
}

#[test]
fn strings_without_escapes_are_slices_of_the_payload() {
    let payload = Bytes::from_static(br#"{"a":"text"}"#);
    let Value::Map(entries) = plain().to_datum("t", Some(&payload)).unwrap().value else {
        panic!("no map");
    };
    let Value::String(text) = &entries[0].1 else {
        panic!("no text");
    };
    assert_eq!(text.as_bytes().as_ptr(), payload[6..].as_ptr());
}

#[test]
fn escapes_become_their_characters() {
    let json = r#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 ü""#;
    assert_eq!(value_of(json), string("\"\\/\u{8}\u{c}\n\r\té😀 ü"));
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    for (json, message) in [
        ("{\"a\":1} x", "text behind the JSON value (byte 8)"),
        ("1 2", "text behind the JSON value (byte 2)"),
        ("NaN", "expected a JSON value (byte 0)"),
        ("nul", "expected true, false or null (byte 0)"),
        ("{a:1}", "expected a string (byte 1)"),
        ("{'a':1}", "expected a string (byte 1)"),
        ("{\"a\" 1}", "expected a colon (byte 5)"),
        ("{\"a\":1,}", "expected a string (byte 7)"),
        ("[1,]", "expected a JSON value (byte 3)"),
        ("[1 2]", "expected a comma or the end of the array (byte 3)"),
        ("[1", "expected a comma or the end of the array (byte 2)"),
        (
            "{\"a\":1",
            "expected a comma or the end of the object (byte 6)",
        ),
        ("[", "expected a JSON value, found the end (byte 1)"),
        ("-", "expected a digit (byte 1)"),
        ("1.", "expected a digit (byte 2)"),
        ("1e+", "expected a digit (byte 3)"),
        ("\"a", "a string without its closing quote (byte 2)"),
        (
            "\"a\tb\"",
            "a control character in a string must be escaped (byte 2)",
        ),
        (r#""\x""#, "an unknown escape in a string (byte 1)"),
        (r#""\u12g4""#, "\\u needs four hexadecimal digits (byte 1)"),
        (r#""\u1"#, "\\u needs four hexadecimal digits (byte 1)"),
        (
            r#""\ud800""#,
            "half of a surrogate pair is no character (byte 1)",
        ),
        (
            r#""\ud800\u0041""#,
            "half of a surrogate pair is no character (byte 1)",
        ),
        (
            r#""\udc00""#,
            "half of a surrogate pair is no character (byte 1)",
        ),
        ("\"\\", "an unknown escape in a string (byte 1)"),
        ("// x", "expected a JSON value (byte 0)"),
    ] {
        let error = error_of(json);
        let expected = format!("the record's value cannot be read as JSON: {message}");
        assert_eq!(error, expected, "{json}");
    }
}

#[test]
fn bytes_that_are_no_utf8_are_refused_with_their_place() {
    let error = plain()
        .to_datum("t", Some(&Bytes::from_static(b"\"a\xff\"")))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the bytes are not UTF-8 (byte 2)"),
        "{error}"
    );
}

#[test]
fn an_error_never_shows_the_payload() {
    for json in [
        "{\"card\":4111111111111111x}",
        "[\"hunter2\" \"x\"]",
        "{\"hunter2\" 1}",
    ] {
        let error = error_of(json);
        assert!(
            !error.contains("hunter2") && !error.contains("4111"),
            "{error}"
        );
    }
}

#[test]
fn nesting_is_bounded_and_the_stack_safe() {
    let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(matches!(value_of(&deep(MAX_DEPTH)), Value::Array(_)));
    for json in [
        deep(MAX_DEPTH + 1),
        "[".repeat(5_000_000),
        "{\"a\":".repeat(1_000_000),
    ] {
        let error = error_of(&json);
        assert!(error.contains("lie more than 1000 deep"), "{error}");
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|members| { serde_json::Value::Object(members.into_iter().collect()) }),
        ]
    })
}

/// The value that another parser's tree stands for.
fn expected(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Boolean(*value),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Value::Int64(number),
            None => decimal(&number.to_string()),
        },
        serde_json::Value::String(text) => string(text),
        serde_json::Value::Array(elements) => Value::Array(elements.iter().map(expected).collect()),
        serde_json::Value::Object(members) => Value::Map(
            members
                .iter()
                .map(|(name, value)| (string(name), expected(value)))
                .collect(),
        ),
    }
}

/// A whole number of 64 bits that came with an exponent is a decimal; it is
/// written in digits, and those are an integer.
fn in_digits(value: Value) -> Value {
    match value {
        Value::Decimal(number) => match number.to_i64().filter(|_| number.is_integer()) {
            Some(whole) => Value::Int64(whole),
            None => Value::Decimal(number),
        },
        Value::Array(elements) => Value::Array(elements.into_iter().map(in_digits).collect()),
        Value::Map(members) => Value::Map(
            members
                .into_iter()
                .map(|(name, value)| (name, in_digits(value)))
                .collect(),
        ),
        other => other,
    }
}

#[test]
fn a_whole_number_with_an_exponent_is_written_in_digits_and_read_as_an_integer() {
    let value = value_of("[-1.1809234193976428e16]");
    assert_eq!(value, Value::Array(vec![decimal("-11809234193976428")]));
    let text = to_json(&Datum::schemaless(value), WriteOptions::default()).unwrap();
    assert_eq!(text.as_deref(), Some(&b"[-11809234193976428]"[..]));
}

proptest! {
    #[test]
    fn another_parser_reads_the_same(json in any_json()) {
        assert_eq!(value_of(&json.to_string()), expected(&json));
        assert_eq!(value_of(&serde_json::to_string_pretty(&json).unwrap()), expected(&json));
    }

    #[test]
    fn another_parser_accepts_the_same(json in "[-0-9eE.,:\\[\\]{}\"\\\\u ntrufalsex]{0,24}") {
        let ours = convert(&plain(), &json);
        if let Ok(theirs) = serde_json::from_str::<serde_json::Value>(&json) {
            assert_eq!(ours.map(|datum| datum.value), Ok(expected(&theirs)));
        }
    }

    #[test]
    fn what_is_written_reads_back(json in any_json()) {
        let value = in_digits(expected(&json));
        if let Some(text) = to_json(&Datum::schemaless(value.clone()), WriteOptions::default()).unwrap() {
            assert_eq!(value_of(std::str::from_utf8(&text).unwrap()), value);
        }
    }
}
