//! Bytes to values.

use bytes::Bytes;
use sluice_actors::ports::converter::{ConvertError, Converter};
use sluice_actors::value::{Datum, SchemaRef, Value};

use super::cache::SchemaCache;
use super::error::{JsonError, Result};
use super::plain;
use super::reader::{Reader, Shape, text_of};
use super::schema;
use super::settings::Settings;
use super::typed::{self, Nulls};
use crate::converters::part::Part;

/// What tells how a text is to be read.
enum Form {
    /// `schemas.enable=false`
    Plain,
    /// `schemas.enable=true`: each text brings its schema.
    Envelope(SchemaCache),
    /// `schema.content`
    Fixed(SchemaRef),
}

pub struct JsonConverter {
    part: Part,
    form: Form,
    nulls: Nulls,
}

/// Why a text could not be read.
enum Failure {
    NoEnvelope,
    Json(JsonError),
}

impl From<JsonError> for Failure {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

impl JsonConverter {
    #[must_use]
    pub fn new(settings: Settings, part: Part) -> Self {
        let form = match settings.schema_content {
            _ if !settings.schemas_enable => Form::Plain,
            Some(schema) => Form::Fixed(schema),
            None => Form::Envelope(SchemaCache::new(settings.schemas_cache_size)),
        };
        let nulls = Nulls {
            replace_with_default: settings.replace_null_with_default,
        };
        Self { part, form, nulls }
    }

    fn read(&self, bytes: &Bytes) -> std::result::Result<Datum, Failure> {
        let text = text_of(bytes)?;
        let mut reader = Reader::new(&text);
        let datum = match &self.form {
            // No text at all is null to Connect.
            Form::Plain if reader.at_end() => Datum::null(),
            Form::Plain => Datum::schemaless(plain::read(&mut reader)?),
            Form::Fixed(schema) => self.typed(&mut reader, Some(schema.clone()))?,
            Form::Envelope(cache) => self.envelope(&mut reader, cache)?,
        };
        reader.end()?;
        Ok(datum)
    }

    /// Schema and payload may come in either order, so both are found first.
    fn envelope(
        &self,
        reader: &mut Reader<'_>,
        cache: &SchemaCache,
    ) -> std::result::Result<Datum, Failure> {
        if reader.at_end() || reader.peek()? != Shape::Object {
            return Err(Failure::NoEnvelope);
        }
        let (schema, payload_at) = find_parts(reader, cache)?.ok_or(Failure::NoEnvelope)?;
        let schema = match schema {
            Found::Known(schema) => Some(schema),
            Found::At(start, end) => cache.get(reader.text_between(start, end), || {
                schema::read(&mut reader.again_from(start))
            })?,
        };
        Ok(self.typed(&mut reader.again_from(payload_at), schema)?)
    }

    fn typed(&self, reader: &mut Reader<'_>, schema: Option<SchemaRef>) -> Result<Datum> {
        let value: Value = match &schema {
            Some(schema) => typed::read(reader, schema, self.nulls)?,
            None => plain::read(reader)?,
        };
        Ok(Datum { schema, value })
    }

    fn explain(&self, failure: Failure) -> ConvertError {
        let (name, prefix) = (self.part.name(), self.part.prefix());
        ConvertError(match failure {
            Failure::NoEnvelope => format!(
                "the record's {name} is no envelope: with {prefix}schemas.enable=true it must be \
                 a JSON object with the fields \"schema\" and \"payload\" and no others; set \
                 {prefix}schemas.enable=false to read plain JSON"
            ),
            Failure::Json(error) => {
                format!("the record's {name} cannot be read as JSON: {error}")
            }
        })
    }
}

impl Converter for JsonConverter {
    fn to_datum(
        &self,
        _topic: &str,
        bytes: Option<&Bytes>,
    ) -> std::result::Result<Datum, ConvertError> {
        bytes.map_or_else(
            || Ok(Datum::null()),
            |bytes| self.read(bytes).map_err(|failure| self.explain(failure)),
        )
    }
}

/// An envelope's schema: one that is known, or where it stands.
enum Found {
    Known(SchemaRef),
    At(usize, usize),
}

/// The schema and where the payload stands, if the object has these members
/// and no others.
fn find_parts(reader: &mut Reader<'_>, cache: &SchemaCache) -> Result<Option<(Found, usize)>> {
    let (mut schema, mut payload_at, mut others) = (None, None, false);
    reader.object(|reader, name| {
        reader.peek()?;
        let start = reader.position();
        match &*name {
            "schema" => schema = Some(find_schema(reader, cache)?),
            "payload" => {
                payload_at = Some(start);
                reader.skip()?;
            }
            _ => {
                others = true;
                reader.skip()?;
            }
        }
        Ok(())
    })?;
    Ok(schema.zip(payload_at).filter(|_| !others))
}

fn find_schema(reader: &mut Reader<'_>, cache: &SchemaCache) -> Result<Found> {
    if let Some((schema, length)) = cache.recent(reader.rest()) {
        reader.pass(length);
        return Ok(Found::Known(schema));
    }
    let start = reader.position();
    reader.skip()?;
    Ok(Found::At(start, reader.position()))
}
