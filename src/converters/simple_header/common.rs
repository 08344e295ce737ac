//! The schema that the elements of a list or map have in common.

use sluice_actors::value::{Datum, Kind, Schema, SchemaRef, Value};

use super::schemas;

/// `None` if Connect would take such a list for text: nulls among other
/// values.
pub(super) fn list_of(elements: Vec<Datum>) -> Option<Datum> {
    let (items, values) = align(elements)?;
    let value = Value::Array(values);
    Some(match items {
        Some(items) => Datum::with_schema(SchemaRef::from(Schema::of(Kind::Array(items))), value),
        None => Datum::schemaless(value),
    })
}

/// `None` also for keys without a common type, unless they are strings.
pub(super) fn map_of(entries: Vec<(Datum, Datum)>) -> Option<Datum> {
    let (keys, values): (Vec<Datum>, Vec<Datum>) = entries.into_iter().unzip();
    if keys.iter().any(|key| key.value.is_null()) {
        return None;
    }
    let (key_schema, keys) = align(keys)?;
    let (value_schema, values) = align(values)?;
    let named = keys.iter().all(|key| matches!(key, Value::String(_)));
    let value = Value::Map(keys.into_iter().zip(values).collect());
    match (key_schema, value_schema) {
        (Some(keys), Some(values)) => {
            let schema = Schema::of(Kind::Map(keys, values));
            Some(Datum::with_schema(SchemaRef::from(schema), value))
        }
        _ => named.then(|| Datum::schemaless(value)),
    }
}

/// The values, made to fit their common schema if there is one.
fn align(data: Vec<Datum>) -> Option<(Option<SchemaRef>, Vec<Value>)> {
    let nulls = data.iter().filter(|datum| datum.value.is_null()).count();
    if nulls > 0 && nulls < data.len() {
        return None;
    }
    let schema = common(&data);
    let values = data.into_iter().map(|datum| match &schema {
        Some(schema) => fit(&datum.value, &schema.kind).unwrap_or(datum.value),
        None => datum.value,
    });
    Some((schema.clone(), values.collect()))
}

fn common(data: &[Datum]) -> Option<SchemaRef> {
    let first = data.first()?.schema.as_ref()?;
    if data
        .iter()
        .all(|datum| datum.schema.as_ref() == Some(first))
    {
        return Some(first.clone());
    }
    // Int32 and Int64 with a name are dates and times, and no numbers.
    let plain = |datum: &Datum| {
        datum
            .schema
            .as_ref()
            .is_some_and(|schema| schema.name.is_none())
    };
    if !data.iter().all(plain) {
        return None;
    }
    let numbers = [
        schemas::int8(),
        schemas::int16(),
        schemas::int32(),
        schemas::int64(),
        schemas::float32(),
        schemas::float64(),
    ];
    numbers.into_iter().find(|schema| {
        data.iter()
            .all(|datum| fit(&datum.value, &schema.kind).is_some())
    })
}

/// The same number in another type, if that loses nothing.
fn fit(value: &Value, kind: &Kind) -> Option<Value> {
    let whole = match value {
        Value::Int8(number) => i64::from(*number),
        Value::Int16(number) => i64::from(*number),
        Value::Int32(number) => i64::from(*number),
        Value::Int64(number) => *number,
        Value::Float32(single) => return fit_single(*single, kind),
        Value::Float64(double) if *kind == Kind::Float64 => return Some(Value::Float64(*double)),
        _ => return None,
    };
    match kind {
        Kind::Int8 => whole.try_into().ok().map(Value::Int8),
        Kind::Int16 => whole.try_into().ok().map(Value::Int16),
        Kind::Int32 => whole.try_into().ok().map(Value::Int32),
        Kind::Int64 => Some(Value::Int64(whole)),
        Kind::Float32 if whole.unsigned_abs() <= 1 << f32::MANTISSA_DIGITS => {
            Some(Value::Float32(whole as f32))
        }
        Kind::Float64 if whole.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS => {
            Some(Value::Float64(whole as f64))
        }
        _ => None,
    }
}

/// By way of its text, so that 0.1 stays 0.1.
fn fit_single(single: f32, kind: &Kind) -> Option<Value> {
    match kind {
        Kind::Float32 => Some(Value::Float32(single)),
        Kind::Float64 => single.to_string().parse().ok().map(Value::Float64),
        _ => None,
    }
}
