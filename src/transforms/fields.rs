//! The fields of a record's key or value: a map without a schema, or a struct.

use sluice_actors::ports::converter::ConvertError;
use sluice_actors::record::SinkRecord;
use sluice_actors::value::{Datum, Field, Kind, Schema, SchemaRef, Value};

use super::recent::Recent;

/// The part of a record that a transform changes: `$Key` or `$Value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Key,
    Value,
}

/// What a part consists of, taken out of its record.
pub(super) enum Content {
    /// A tombstone, or a key that is not there: nothing to change.
    Null,
    Map(Vec<(Value, Value)>),
    /// As many values as the schema has fields.
    Struct(SchemaRef, Vec<Value>),
}

/// What a transform makes of a schema, by the schema.
pub(super) type Schemas<V> = Recent<SchemaRef, V>;

pub(super) fn schemas<V: Clone>() -> Schemas<V> {
    Recent::by(SchemaRef::ptr_eq)
}

impl Part {
    pub(super) fn of(self, record: &mut SinkRecord) -> &mut Datum {
        match self {
            Self::Key => &mut record.key,
            Self::Value => &mut record.value,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
        }
    }

    /// Takes the fields out. A null stays as it is, with its schema.
    pub(super) fn take(self, record: &mut SinkRecord) -> Result<Content, ConvertError> {
        let datum = self.of(record);
        let value = std::mem::take(&mut datum.value);
        match (value, &datum.schema) {
            (Value::Null, _) => Ok(Content::Null),
            (Value::Map(entries), None) => Ok(Content::Map(entries)),
            (Value::Struct(values), Some(schema)) if fields(schema).len() == values.len() => {
                Ok(Content::Struct(schema.clone(), values))
            }
            (Value::Struct(_), _) => {
                Err(self.error("is a struct without the fields of its schema"))
            }
            (_, None) => Err(self.error("has no fields: without a schema it must be an object")),
            (_, Some(_)) => Err(self.error("has no fields: with a schema it must be a struct")),
        }
    }

    fn error(self, problem: &str) -> ConvertError {
        ConvertError(format!("the record's {} {problem}", self.name()))
    }
}

/// The fields of a struct's schema; no other has any.
pub(super) fn fields(schema: &Schema) -> &[Field] {
    match &schema.kind {
        Kind::Struct(fields) => fields,
        _ => &[],
    }
}

/// A struct with other fields. It keeps name, version, doc and parameters;
/// like Connect's it is neither optional nor has it a default.
pub(super) fn with_fields(
    schema: &Schema,
    fields: impl IntoIterator<Item = Field>,
) -> Result<SchemaRef, ConvertError> {
    let mut different: Vec<Field> = Vec::new();
    for field in fields {
        if different.iter().any(|it| it.name == field.name) {
            let message = format!("two fields of the struct would be called {:?}", field.name);
            return Err(ConvertError(message));
        }
        different.push(field);
    }
    Ok(SchemaRef::from(Schema {
        kind: Kind::Struct(different),
        optional: false,
        name: schema.name.clone(),
        version: schema.version,
        doc: schema.doc.clone(),
        parameters: schema.parameters.clone(),
        default: None,
    }))
}

/// Puts the schema's default in the place of each null.
pub(super) fn replace_nulls(fields: &[Field], values: &mut [Value]) {
    for (field, value) in fields.iter().zip(values) {
        if let (Value::Null, Some(default)) = (&*value, &field.schema.default) {
            *value = default.clone();
        }
    }
}

/// Sets a map's entry, in its place if it has one.
pub(super) fn put(entries: &mut Vec<(Value, Value)>, key: Value, value: Value) {
    match entries.iter_mut().find(|(it, _)| *it == key) {
        Some((_, old)) => *old = value,
        None => entries.push((key, value)),
    }
}
