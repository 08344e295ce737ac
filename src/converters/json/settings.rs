//! The settings of the JSON converter, under Connect's names.

use bytestring::ByteString;
use sluice_actors::value::SchemaRef;

use super::error::Result;
use super::reader;
use super::schema;
use crate::config::definition::{Key, Kind, Preset, Reader};

const SCHEMAS_ENABLE: &str = "schemas.enable";
const SCHEMAS_CACHE_SIZE: &str = "schemas.cache.size";
const DECIMAL_FORMAT: &str = "decimal.format";
const REPLACE_NULL: &str = "replace.null.with.default";
const SCHEMA_CONTENT: &str = "schema.content";
const NUMERIC: &str = "NUMERIC";

pub const KEYS: &[Key] = &[
    Key {
        name: SCHEMAS_ENABLE,
        kind: Kind::Boolean,
        preset: Preset::Value("true"),
        doc: "Whether each JSON text is an envelope of \"schema\" and \"payload\"; false reads \
              plain JSON without a schema.",
    },
    Key {
        name: SCHEMAS_CACHE_SIZE,
        kind: Kind::Int {
            min: 0,
            max: i32::MAX as i64,
        },
        preset: Preset::Value("1000"),
        doc: "How many schemas are kept, so that an envelope's schema is read once and not once \
              a record.",
    },
    Key {
        name: DECIMAL_FORMAT,
        kind: Kind::Choice(&["BASE64", NUMERIC]),
        preset: Preset::Value("BASE64"),
        doc: "How a Decimal is written: base64 of its unscaled value, or a JSON number. Both are \
              read, whatever this says.",
    },
    Key {
        name: REPLACE_NULL,
        kind: Kind::Boolean,
        preset: Preset::Value("true"),
        doc: "Whether a null becomes the default that its schema declares.",
    },
    Key {
        name: SCHEMA_CONTENT,
        kind: Kind::Text,
        preset: Preset::Unset,
        doc: "With schemas.enable, the schema of every record, as JSON; the records are then \
              plain JSON without an envelope.",
    },
];

/// How decimals with a schema are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecimalFormat {
    #[default]
    Base64,
    Numeric,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub schemas_enable: bool,
    pub schemas_cache_size: usize,
    pub decimal_format: DecimalFormat,
    pub replace_null_with_default: bool,
    pub schema_content: Option<SchemaRef>,
}

impl Settings {
    pub fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            schemas_enable: reader.boolean(SCHEMAS_ENABLE),
            schemas_cache_size: usize::try_from(reader.int(SCHEMAS_CACHE_SIZE)).unwrap_or_default(),
            decimal_format: match reader.choice(DECIMAL_FORMAT) {
                NUMERIC => DecimalFormat::Numeric,
                _ => DecimalFormat::Base64,
            },
            replace_null_with_default: reader.boolean(REPLACE_NULL),
            schema_content: read_schema_content(reader),
        }
    }
}

/// An empty text counts as unset, as in Connect.
fn read_schema_content(settings: &mut Reader<'_>) -> Option<SchemaRef> {
    let content = settings.optional_text(SCHEMA_CONTENT)?;
    if content.is_empty() {
        return None;
    }
    match read_schema(&ByteString::from(content)) {
        Ok(schema) => schema,
        Err(error) => {
            settings.fault(SCHEMA_CONTENT, format!("is no schema as JSON: {error}"));
            None
        }
    }
}

fn read_schema(text: &ByteString) -> Result<Option<SchemaRef>> {
    let mut reader = reader::Reader::new(text);
    let schema = schema::read(&mut reader)?;
    reader.end()?;
    Ok(schema)
}
