//! Connect's schemas as JSON: `{"type":"int32","optional":true,...}`.

use std::collections::BTreeMap;

use ahash::AHashSet;
use sluice_actors::value::{DECIMAL, Field, Kind, Schema, SchemaRef, Value};

use super::error::{JsonError, Result};
use super::reader::{Reader, Shape};
use super::typed::{self, Nulls};
use crate::converters::decimal::MAX_DIGITS;

/// A Decimal's parameter: how many digits stand behind the point.
pub(super) const SCALE: &str = "scale";

/// What Connect calls a type in JSON.
pub(super) const fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Int8 => "int8",
        Kind::Int16 => "int16",
        Kind::Int32 => "int32",
        Kind::Int64 => "int64",
        Kind::Float32 => "float",
        Kind::Float64 => "double",
        Kind::Boolean => "boolean",
        Kind::String => "string",
        Kind::Bytes => "bytes",
        Kind::Array(_) => "array",
        Kind::Map(..) => "map",
        Kind::Struct(_) => "struct",
    }
}

pub(super) fn scale_of(schema: &Schema) -> Option<i64> {
    schema
        .parameters
        .get(SCALE)?
        .parse::<i32>()
        .ok()
        .map(i64::from)
}

/// Reads a schema; JSON null means that there is none.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Option<SchemaRef>> {
    if reader.peek()? == Shape::Null {
        return reader.null().map(|()| None);
    }
    Parts::read(reader)?
        .build(reader)
        .map(|schema| Some(SchemaRef::from(schema)))
}

/// The members of a schema as they come, before it is known which of them
/// its type needs.
#[derive(Default)]
struct Parts {
    at: usize,
    kind: Option<String>,
    optional: bool,
    name: Option<String>,
    version: Option<i32>,
    doc: Option<String>,
    parameters: BTreeMap<String, String>,
    /// Where the default stands; it can be read once the type is known.
    default_at: Option<usize>,
    items: Option<SchemaRef>,
    keys: Option<SchemaRef>,
    values: Option<SchemaRef>,
    fields: Option<Vec<Field>>,
    /// What the struct around it calls this schema.
    field: Option<String>,
}

impl Parts {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        if reader.peek()? != Shape::Object {
            return Err(reader.error("a schema must be an object with a \"type\""));
        }
        let mut parts = Self {
            at: reader.position(),
            ..Self::default()
        };
        reader.object(|reader, name| parts.member(reader, &name))?;
        Ok(parts)
    }

    /// A member of another type than it should have counts as not there, as
    /// in Connect.
    fn member(&mut self, reader: &mut Reader<'_>, name: &str) -> Result<()> {
        match (name, reader.peek()?) {
            ("type", Shape::String) => self.kind = Some(reader.string()?.into_owned()),
            ("optional", Shape::Boolean) => self.optional = reader.boolean()?,
            ("name", Shape::String) => self.name = Some(reader.string()?.into_owned()),
            ("version", Shape::Number) => self.version = reader.number()?.text.parse().ok(),
            ("doc", Shape::String) => self.doc = Some(reader.string()?.into_owned()),
            ("parameters", Shape::Object) => self.parameters = parameters(reader)?,
            ("default", Shape::Null) => reader.skip()?,
            ("default", _) => {
                self.default_at = Some(reader.position());
                reader.skip()?;
            }
            ("items", Shape::Object) => self.items = read(reader)?,
            ("keys", Shape::Object) => self.keys = read(reader)?,
            ("values", Shape::Object) => self.values = read(reader)?,
            ("fields", Shape::Array) => self.fields = Some(fields(reader)?),
            ("field", Shape::String) => self.field = Some(reader.string()?.into_owned()),
            _ => reader.skip()?,
        }
        Ok(())
    }

    fn build(mut self, reader: &Reader<'_>) -> Result<Schema> {
        let kind = self.take_kind()?;
        let mut schema = Schema {
            kind,
            optional: self.optional,
            name: self.name,
            version: self.version,
            doc: self.doc,
            parameters: self.parameters,
            default: None,
        };
        check_decimal(&schema, self.at)?;
        if let Some(at) = self.default_at {
            schema.default = Some(default(&mut reader.again_from(at), &schema)?);
        }
        Ok(schema)
    }

    fn take_kind(&mut self) -> Result<Kind> {
        let missing = |message| JsonError::at(self.at, message);
        let kind = match self.kind.as_deref() {
            Some("int8") => Kind::Int8,
            Some("int16") => Kind::Int16,
            Some("int32") => Kind::Int32,
            Some("int64") => Kind::Int64,
            Some("float") => Kind::Float32,
            Some("double") => Kind::Float64,
            Some("boolean") => Kind::Boolean,
            Some("string") => Kind::String,
            Some("bytes") => Kind::Bytes,
            Some("array") => {
                let items = self.items.take();
                Kind::Array(items.ok_or_else(|| missing("an array's schema needs \"items\""))?)
            }
            Some("map") => match (self.keys.take(), self.values.take()) {
                (Some(keys), Some(values)) => Kind::Map(keys, values),
                _ => return Err(missing("a map's schema needs \"keys\" and \"values\"")),
            },
            Some("struct") => {
                let fields = self.fields.take();
                Kind::Struct(fields.ok_or_else(|| missing("a struct's schema needs \"fields\""))?)
            }
            Some(_) => {
                return Err(missing(
                    "a schema's \"type\" is one of int8, int16, int32, int64, float, double, \
                     boolean, string, bytes, array, map, struct",
                ));
            }
            None => return Err(missing("a schema needs a \"type\"")),
        };
        Ok(kind)
    }
}

fn check_decimal(schema: &Schema, at: usize) -> Result<()> {
    if schema.kind != Kind::Bytes || !schema.is_logical(DECIMAL) {
        return Ok(());
    }
    match scale_of(schema) {
        Some(scale) if scale.unsigned_abs() as usize <= MAX_DIGITS => Ok(()),
        _ => {
            let message = format!(
                "a Decimal's schema needs the parameter \"{SCALE}\", a whole number of at most \
                 {MAX_DIGITS} either way"
            );
            Err(JsonError::at(at, message))
        }
    }
}

fn default(reader: &mut Reader<'_>, schema: &Schema) -> Result<Value> {
    let nulls = Nulls {
        replace_with_default: true,
    };
    typed::read(reader, schema, nulls)
}

fn parameters(reader: &mut Reader<'_>) -> Result<BTreeMap<String, String>> {
    let mut parameters = BTreeMap::new();
    reader.object(|reader, name| {
        if reader.peek()? != Shape::String {
            return Err(reader.error("a schema's parameters must be strings"));
        }
        parameters.insert(name.into_owned(), reader.string()?.into_owned());
        Ok(())
    })?;
    Ok(parameters)
}

fn fields(reader: &mut Reader<'_>) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    let mut names = AHashSet::new();
    reader.array(|reader| {
        let mut parts = Parts::read(reader)?;
        let at = parts.at;
        let Some(name) = parts.field.take() else {
            return Err(JsonError::at(
                at,
                "a field of a struct needs \"field\", its name",
            ));
        };
        let schema = parts.build(reader).map_err(|error| error.within(&name))?;
        if !names.insert(name.clone()) {
            return Err(JsonError::at(
                at,
                "two fields of a struct have the same name",
            ));
        }
        fields.push(Field {
            name,
            schema: SchemaRef::from(schema),
        });
        Ok(())
    })?;
    Ok(fields)
}
