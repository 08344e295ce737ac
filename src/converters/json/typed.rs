//! JSON read by a schema: each value must be what the schema says.
//!
//! Connect makes 0, false or an empty list of a value of another type, and
//! cuts numbers that do not fit; here both are errors, since a record that is
//! silently changed is lost. A whole number may be written `1.0` or `1e3`.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use bytes::Bytes;
use sluice_actors::value::{DECIMAL, Field, Kind, Schema, TIME, Value};

use super::error::{JsonError, Result};
use super::finder::Finder;
use super::members::Members;
use super::plain;
use super::reader::{NumberText, Reader, Shape};
use super::schema::{kind_name, scale_of};
use crate::converters::decimal;

const MILLIS_PER_DAY: i32 = 86_400_000;

/// How nulls are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nulls {
    /// `replace.null.with.default`
    pub(super) replace_with_default: bool,
}

pub(super) fn read(reader: &mut Reader<'_>, schema: &Schema, nulls: Nulls) -> Result<Value> {
    if reader.peek()? == Shape::Null {
        reader.null()?;
        return absent(reader, schema, nulls);
    }
    match &schema.kind {
        Kind::Int8 => integer(reader, schema).map(Value::Int8),
        Kind::Int16 => integer(reader, schema).map(Value::Int16),
        Kind::Int32 if schema.is_logical(TIME) => time(reader, schema).map(Value::Int32),
        Kind::Int32 => integer(reader, schema).map(Value::Int32),
        Kind::Int64 => integer(reader, schema).map(Value::Int64),
        Kind::Float32 => float32(reader, schema).map(Value::Float32),
        Kind::Float64 => float64(reader, schema).map(Value::Float64),
        Kind::Boolean => {
            expect(reader, Shape::Boolean, schema)?;
            reader.boolean().map(Value::Boolean)
        }
        Kind::String => {
            expect(reader, Shape::String, schema)?;
            reader.shared_string().map(Value::String)
        }
        Kind::Bytes if schema.is_logical(DECIMAL) => exact_decimal(reader, schema),
        Kind::Bytes => base64_bytes(reader, schema).map(|bytes| Value::Bytes(Bytes::from(bytes))),
        Kind::Array(items) => array(reader, schema, items, nulls),
        Kind::Map(keys, values) if keys.kind == Kind::String => {
            object_map(reader, schema, values, nulls)
        }
        Kind::Map(keys, values) => pair_map(reader, schema, (keys, values), nulls),
        Kind::Struct(fields) => object_struct(reader, schema, fields, nulls),
    }
}

/// What stands for a null or a field that is not there.
fn absent(reader: &Reader<'_>, schema: &Schema, nulls: Nulls) -> Result<Value> {
    match &schema.default {
        Some(default) if nulls.replace_with_default => Ok(default.clone()),
        _ if schema.optional => Ok(Value::Null),
        _ => {
            let kind = kind_name(&schema.kind);
            Err(reader.error(format!("no value where the schema requires {kind}")))
        }
    }
}

fn expect(reader: &mut Reader<'_>, wanted: Shape, schema: &Schema) -> Result<()> {
    let found = reader.peek()?;
    if found == wanted {
        return Ok(());
    }
    Err(unexpected(reader, schema, wanted.name(), found))
}

fn unexpected(reader: &Reader<'_>, schema: &Schema, wanted: &str, found: Shape) -> JsonError {
    let kind = kind_name(&schema.kind);
    let found = found.name();
    reader.error(format!("expected {wanted} for {kind}, found {found}"))
}

fn integer<T: TryFrom<i64>>(reader: &mut Reader<'_>, schema: &Schema) -> Result<T> {
    expect(reader, Shape::Number, schema)?;
    let start = reader.position();
    let number = reader.number()?;
    whole(reader, number)?
        .and_then(|integer| T::try_from(integer).ok())
        .ok_or_else(|| {
            let kind = kind_name(&schema.kind);
            JsonError::at(start, format!("the number is no {kind}"))
        })
}

fn whole(reader: &Reader<'_>, number: NumberText<'_>) -> Result<Option<i64>> {
    if number.integral {
        return Ok(number.text.parse().ok());
    }
    plain::exact(reader, number).map(|decimal| decimal::to_i64(&decimal))
}

fn time(reader: &mut Reader<'_>, schema: &Schema) -> Result<i32> {
    let start = reader.position();
    let millis = integer(reader, schema)?;
    if (0..=MILLIS_PER_DAY).contains(&millis) {
        return Ok(millis);
    }
    let message = format!("a Time is 0 to {MILLIS_PER_DAY} milliseconds");
    Err(JsonError::at(start, message))
}

fn float64(reader: &mut Reader<'_>, schema: &Schema) -> Result<f64> {
    let text = float_text(reader, schema)?;
    let float: f64 = parse_float(reader, &text)?;
    check_range(reader, float.is_infinite(), &text).map(|()| float)
}

fn float32(reader: &mut Reader<'_>, schema: &Schema) -> Result<f32> {
    let text = float_text(reader, schema)?;
    let float: f32 = parse_float(reader, &text)?;
    check_range(reader, float.is_infinite(), &text).map(|()| float)
}

/// A number's text; or, as a string, what Connect writes for floats that JSON
/// has no number for.
fn float_text<'a>(reader: &mut Reader<'a>, schema: &Schema) -> Result<Cow<'a, str>> {
    match reader.peek()? {
        Shape::Number => reader.number().map(|number| Cow::Borrowed(number.text)),
        Shape::String => {
            let text = reader.string()?;
            if matches!(&*text, "NaN" | "Infinity" | "-Infinity") {
                return Ok(text);
            }
            Err(unexpected(reader, schema, "a number", Shape::String))
        }
        found => Err(unexpected(reader, schema, "a number", found)),
    }
}

fn parse_float<T: std::str::FromStr>(reader: &Reader<'_>, text: &str) -> Result<T> {
    text.parse().map_err(|_| reader.error("expected a number"))
}

/// A written number that only infinity is near to would be lost.
fn check_range(reader: &Reader<'_>, infinite: bool, text: &str) -> Result<()> {
    if infinite && !text.ends_with("Infinity") {
        return Err(reader.error("the number is beyond the schema's float type"));
    }
    Ok(())
}

fn base64_bytes(reader: &mut Reader<'_>, schema: &Schema) -> Result<Vec<u8>> {
    expect(reader, Shape::String, schema)?;
    let start = reader.position();
    let text = reader.string()?;
    STANDARD
        .decode(text.as_bytes())
        .map_err(|_| JsonError::at(start, "bytes must be base64 with padding"))
}

/// A Decimal comes as a number or as base64 of the unscaled value, whatever
/// `decimal.format` says: that is for writing.
fn exact_decimal(reader: &mut Reader<'_>, schema: &Schema) -> Result<Value> {
    let scale = scale_of(schema).ok_or_else(|| reader.error("the Decimal has no scale"))?;
    if reader.peek()? == Shape::Number {
        let number = reader.number()?;
        let exact = plain::exact(reader, number)?;
        // More digits than the schema's scale stay: exact goes before tidy.
        let decimal = decimal::rescale(&exact, scale).unwrap_or(exact);
        return Ok(Value::Decimal(Box::new(decimal)));
    }
    let unscaled = base64_bytes(reader, schema)?;
    if unscaled.is_empty() {
        return Err(reader.error("a Decimal has at least one byte"));
    }
    let unscaled = BigInt::from_signed_bytes_be(&unscaled);
    Ok(Value::Decimal(Box::new(BigDecimal::new(unscaled, scale))))
}

fn array(reader: &mut Reader<'_>, schema: &Schema, items: &Schema, nulls: Nulls) -> Result<Value> {
    expect(reader, Shape::Array, schema)?;
    let mut elements = Vec::new();
    reader.array(|reader| {
        elements.push(read(reader, items, nulls)?);
        Ok(())
    })?;
    Ok(Value::Array(elements))
}

fn object_map(
    reader: &mut Reader<'_>,
    schema: &Schema,
    values: &Schema,
    nulls: Nulls,
) -> Result<Value> {
    expect(reader, Shape::Object, schema)?;
    let mut members = Members::default();
    reader.object(|reader, name| {
        let name = reader.share(name);
        members.put(name, read(reader, values, nulls)?);
        Ok(())
    })?;
    Ok(members.into_map())
}

/// A map whose keys are no strings is an array of pairs. Pairs stay as they
/// came, also those with equal keys.
fn pair_map(
    reader: &mut Reader<'_>,
    schema: &Schema,
    (keys, values): (&Schema, &Schema),
    nulls: Nulls,
) -> Result<Value> {
    expect(reader, Shape::Array, schema)?;
    let mut entries = Vec::new();
    reader.array(|reader| {
        expect(reader, Shape::Array, schema)?;
        let mut pair = Vec::with_capacity(2);
        reader.array(|reader| {
            let schema = if pair.is_empty() { keys } else { values };
            pair.push(read(reader, schema, nulls)?);
            Ok(())
        })?;
        let [key, value] = <[Value; 2]>::try_from(pair)
            .map_err(|_| reader.error("an entry of a map is an array of key and value"))?;
        entries.push((key, value));
        Ok(())
    })?;
    Ok(Value::Map(entries))
}

/// Fields by name, in any order; names that the schema does not know are
/// passed over, as Connect does.
fn object_struct(
    reader: &mut Reader<'_>,
    schema: &Schema,
    fields: &[Field],
    nulls: Nulls,
) -> Result<Value> {
    expect(reader, Shape::Object, schema)?;
    let mut found: Vec<Option<Value>> = vec![None; fields.len()];
    let mut finder = Finder::new(fields);
    reader.object(|reader, name| {
        let Some(place) = finder.find(&name) else {
            return reader.skip();
        };
        let field = &fields[place];
        let value = read(reader, &field.schema, nulls);
        found[place] = Some(value.map_err(|error| error.within(&field.name))?);
        Ok(())
    })?;
    let values = found.into_iter().zip(fields).map(|(value, field)| {
        value.map_or_else(
            || absent(reader, &field.schema, nulls).map_err(|error| error.within(&field.name)),
            Ok,
        )
    });
    values.collect::<Result<_>>().map(Value::Struct)
}
