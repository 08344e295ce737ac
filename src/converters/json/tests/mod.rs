mod envelope;
mod plain;
mod write;

use bytes::Bytes;
use sluice_actors::ports::converter::Converter;
use sluice_actors::value::{Datum, Value};

use super::{JsonConverter, KEYS, Settings};
use crate::config::definition::{Faults, Properties, Reader};
use crate::converters::part::Part;

/// A converter of values with these settings.
fn converter(settings: &[(&str, &str)]) -> JsonConverter {
    let (converter, faults) = try_converter(settings);
    assert!(faults.is_empty(), "{faults}");
    converter
}

fn try_converter(settings: &[(&str, &str)]) -> (JsonConverter, Faults) {
    let properties: Properties = settings
        .iter()
        .map(|(name, value)| (format!("value.converter.{name}"), (*value).to_owned()))
        .collect();
    let mut faults = Faults::default();
    let mut reader = Reader::new(&properties, "value.converter.", KEYS, &mut faults);
    let converter = JsonConverter::new(Settings::read(&mut reader), Part::Value);
    (converter, faults)
}

fn convert(converter: &JsonConverter, json: &str) -> Result<Datum, String> {
    let bytes = Bytes::copy_from_slice(json.as_bytes());
    converter
        .to_datum("t", Some(&bytes))
        .map_err(|error| error.to_string())
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}

fn decimal(text: &str) -> Value {
    Value::Decimal(Box::new(crate::converters::decimal::parse(text).unwrap()))
}
