//! JSON without a schema: the text alone says what a value is.

use bigdecimal::BigDecimal;
use sluice_actors::value::Value;

use super::error::Result;
use super::members::Members;
use super::reader::{NumberText, Reader, Shape};
use crate::converters::decimal;

/// Whole numbers are Int64; those beyond it, and all with a point or an
/// exponent, are exact decimals. (Connect lets the first overflow and makes
/// doubles of the others.)
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Value> {
    match reader.peek()? {
        Shape::Null => reader.null().map(|()| Value::Null),
        Shape::Boolean => reader.boolean().map(Value::Boolean),
        Shape::Number => number(reader),
        Shape::String => reader.shared_string().map(Value::String),
        Shape::Array => array(reader),
        Shape::Object => object(reader),
    }
}

/// The number as an exact decimal.
pub(super) fn exact(reader: &Reader<'_>, number: NumberText<'_>) -> Result<BigDecimal> {
    decimal::parse(number.text)
        .ok_or_else(|| reader.error("the number's exponent does not fit 32 bits"))
}

fn number(reader: &mut Reader<'_>) -> Result<Value> {
    let number = reader.number()?;
    if number.integral
        && let Ok(integer) = number.text.parse()
    {
        return Ok(Value::Int64(integer));
    }
    exact(reader, number).map(|decimal| Value::Decimal(Box::new(decimal)))
}

fn array(reader: &mut Reader<'_>) -> Result<Value> {
    let mut elements = Vec::new();
    reader.array(|reader| {
        elements.push(read(reader)?);
        Ok(())
    })?;
    Ok(Value::Array(elements))
}

fn object(reader: &mut Reader<'_>) -> Result<Value> {
    let mut members = Members::default();
    reader.object(|reader, name| {
        let name = reader.share(name);
        members.put(name, read(reader)?);
        Ok(())
    })?;
    Ok(members.into_map())
}
