//! Values to JSON text, plain or in an envelope, as Connect's converter
//! writes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bigdecimal::BigDecimal;
use sluice_actors::ports::converter::ConvertError;
use sluice_actors::value::{DECIMAL, Datum, Field, Kind, Schema, Value};

use super::schema::scale_of;
use super::settings::DecimalFormat;
use super::write_schema::append_schema;
use crate::converters::decimal;

/// What becomes of NaN and the infinities, for which JSON has no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NonFinite {
    /// The record is an error.
    #[default]
    Refuse,
    Null,
    /// `"NaN"`, `"Infinity"`, `"-Infinity"`: Connect's way.
    Text,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// For decimals with a schema; those without are always numbers.
    pub decimal_format: DecimalFormat,
    pub non_finite: NonFinite,
}

impl WriteOptions {
    /// For readers that have no schema: decimals are numbers with all digits,
    /// and what JSON has no number for (NaN, infinities) is a text.
    pub const PLAIN: Self = Self {
        decimal_format: DecimalFormat::Numeric,
        non_finite: NonFinite::Text,
    };
}

type Result<T> = std::result::Result<T, ConvertError>;

/// The value alone. A null gives `None`: no bytes, a tombstone.
pub fn to_json(datum: &Datum, options: WriteOptions) -> Result<Option<Vec<u8>>> {
    written(datum, |text| {
        append_json(text, &datum.value, datum.schema.as_deref(), options)
    })
}

/// `{"schema":...,"payload":...}`. A null gives `None`: no bytes, a tombstone,
/// never an envelope of nulls.
pub fn to_envelope(datum: &Datum, options: WriteOptions) -> Result<Option<Vec<u8>>> {
    written(datum, |text| {
        text.push_str("{\"schema\":");
        match &datum.schema {
            Some(schema) => append_schema(text, schema, None, options)?,
            None => text.push_str("null"),
        }
        text.push_str(",\"payload\":");
        append_json(text, &datum.value, datum.schema.as_deref(), options)?;
        text.push('}');
        Ok(())
    })
}

fn written(
    datum: &Datum,
    write: impl FnOnce(&mut String) -> Result<()>,
) -> Result<Option<Vec<u8>>> {
    if datum.value.is_null() {
        return Ok(None);
    }
    let mut text = String::new();
    write(&mut text)?;
    Ok(Some(text.into_bytes()))
}

/// Appends one value, null as `null`. On an error the text is unfinished.
pub fn append_json(
    text: &mut String,
    value: &Value,
    schema: Option<&Schema>,
    options: WriteOptions,
) -> Result<()> {
    match value {
        Value::Null => text.push_str("null"),
        Value::Boolean(true) => text.push_str("true"),
        Value::Boolean(false) => text.push_str("false"),
        Value::Int8(number) => append_display(text, number),
        Value::Int16(number) => append_display(text, number),
        Value::Int32(number) => append_display(text, number),
        Value::Int64(number) => append_display(text, number),
        Value::Float32(number) => append_float(text, *number, options.non_finite)?,
        Value::Float64(number) => append_float(text, *number, options.non_finite)?,
        Value::Decimal(number) => append_decimal(text, number, schema, options)?,
        Value::String(string) => append_string(text, string),
        Value::Bytes(bytes) => append_base64(text, bytes),
        Value::Array(elements) => append_array(text, elements, schema, options)?,
        Value::Map(entries) => append_map(text, entries, schema, options)?,
        Value::Struct(values) => append_struct(text, values, schema, options)?,
    }
    Ok(())
}

/// Appends a string in quotes, escaped where it must be.
pub fn append_string(text: &mut String, string: &str) {
    text.push('"');
    let mut plain_from = 0;
    // Every byte that needs an escape is ASCII, so cuts are at characters.
    for (at, byte) in string.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        text.push_str(&string[plain_from..at]);
        plain_from = at + 1;
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            _ => text.push_str(&format!("\\u{byte:04x}")),
        }
    }
    text.push_str(&string[plain_from..]);
    text.push('"');
}

/// Parts with commas between, in brackets.
pub fn append_list<T>(
    text: &mut String,
    (open, close): (char, char),
    parts: impl IntoIterator<Item = T>,
    mut append: impl FnMut(&mut String, T) -> Result<()>,
) -> Result<()> {
    text.push(open);
    for (place, part) in parts.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        append(text, part)?;
    }
    text.push(close);
    Ok(())
}

fn append_display(text: &mut String, number: impl std::fmt::Display) {
    text.push_str(&number.to_string());
}

/// `{:?}` gives the shortest digits that read back as the same number.
fn append_float<F>(text: &mut String, number: F, non_finite: NonFinite) -> Result<()>
where
    F: Copy + Into<f64> + std::fmt::Debug,
{
    let double: f64 = number.into();
    if double.is_finite() {
        text.push_str(&format!("{number:?}"));
        return Ok(());
    }
    match non_finite {
        NonFinite::Null => text.push_str("null"),
        NonFinite::Text => append_string(text, non_finite_name(double)),
        NonFinite::Refuse => return Err(fault("JSON has no number for NaN or Infinity")),
    }
    Ok(())
}

/// Java's names of what is no finite number.
#[must_use]
pub const fn non_finite_name(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

fn append_decimal(
    text: &mut String,
    number: &BigDecimal,
    schema: Option<&Schema>,
    options: WriteOptions,
) -> Result<()> {
    match schema.filter(|schema| schema.is_logical(DECIMAL)) {
        Some(schema) if options.decimal_format == DecimalFormat::Base64 => {
            let unscaled = scale_of(schema)
                .and_then(|scale| decimal::rescale(number, scale))
                .ok_or_else(|| fault("a decimal has more digits than its schema's scale"))?;
            let (unscaled, _) = unscaled.into_bigint_and_scale();
            append_base64(text, &unscaled.to_signed_bytes_be());
        }
        _ => text.push_str(&decimal::to_text(number)),
    }
    Ok(())
}

fn append_base64(text: &mut String, bytes: &[u8]) {
    text.push('"');
    STANDARD.encode_string(bytes, text);
    text.push('"');
}

fn append_array(
    text: &mut String,
    elements: &[Value],
    schema: Option<&Schema>,
    options: WriteOptions,
) -> Result<()> {
    let items = match schema.map(|schema| &schema.kind) {
        Some(Kind::Array(items)) => Some(&**items),
        _ => None,
    };
    append_list(text, ('[', ']'), elements, |text, element| {
        append_json(text, element, items, options)
    })
}

/// An object if all keys are strings, else an array of pairs.
fn append_map(
    text: &mut String,
    entries: &[(Value, Value)],
    schema: Option<&Schema>,
    options: WriteOptions,
) -> Result<()> {
    let (keys, values) = match schema.map(|schema| &schema.kind) {
        Some(Kind::Map(keys, values)) => (Some(&**keys), Some(&**values)),
        _ => (None, None),
    };
    let named = match keys {
        Some(keys) => keys.kind == Kind::String,
        None => entries
            .iter()
            .all(|(key, _)| matches!(key, Value::String(_))),
    };
    let brackets = if named { ('{', '}') } else { ('[', ']') };
    append_list(text, brackets, entries, |text, (key, value)| {
        if named {
            let Value::String(name) = key else {
                return Err(fault(
                    "a map's key is no string although its schema says so",
                ));
            };
            append_string(text, name);
            text.push(':');
            return append_json(text, value, values, options);
        }
        append_list(
            text,
            ('[', ']'),
            [(key, keys), (value, values)],
            |text, (part, schema)| append_json(text, part, schema, options),
        )
    })
}

fn append_struct(
    text: &mut String,
    values: &[Value],
    schema: Option<&Schema>,
    options: WriteOptions,
) -> Result<()> {
    let Some(Kind::Struct(fields)) = schema.map(|schema| &schema.kind) else {
        return Err(fault("a struct without its schema has no field names"));
    };
    if fields.len() != values.len() {
        return Err(fault("a struct has not the fields of its schema"));
    }
    let members = fields.iter().zip(values);
    append_list(text, ('{', '}'), members, |text, (field, value)| {
        append_field(text, field, value, options)
    })
}

fn append_field(
    text: &mut String,
    field: &Field,
    value: &Value,
    options: WriteOptions,
) -> Result<()> {
    append_string(text, &field.name);
    text.push(':');
    append_json(text, value, Some(&field.schema), options)
        .map_err(|error| fault(format!("field {}: {error}", field.name)))
}

pub(super) fn fault(message: impl Into<String>) -> ConvertError {
    ConvertError(message.into())
}
