//! Connect's data model: values, and the schemas that describe them.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use bigdecimal::BigDecimal;
use bytes::Bytes;
use bytestring::ByteString;

/// Names of Connect's logical types.
pub const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";
pub const DATE: &str = "org.apache.kafka.connect.data.Date";
pub const TIME: &str = "org.apache.kafka.connect.data.Time";
pub const TIMESTAMP: &str = "org.apache.kafka.connect.data.Timestamp";

/// A value with the schema that describes it, if it has one.
///
/// A null without a schema is a tombstone when it is a record's value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Datum {
    pub schema: Option<SchemaRef>,
    pub value: Value,
}

impl Datum {
    #[must_use]
    pub const fn null() -> Self {
        Self {
            schema: None,
            value: Value::Null,
        }
    }

    #[must_use]
    pub const fn schemaless(value: Value) -> Self {
        Self {
            schema: None,
            value,
        }
    }

    #[must_use]
    pub fn with_schema(schema: impl Into<SchemaRef>, value: Value) -> Self {
        Self {
            schema: Some(schema.into()),
            value,
        }
    }
}

/// A schema that many values have. Those of simple types are static: to count
/// who shares one, on all threads at once, costs more than to convert a
/// record of bytes.
#[derive(Clone, Debug)]
pub enum SchemaRef {
    Static(&'static Schema),
    Shared(Arc<Schema>),
}

impl SchemaRef {
    /// Whether both are the very same schema, not only equal.
    #[must_use]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        std::ptr::eq::<Schema>(&**this, &**other)
    }
}

impl Deref for SchemaRef {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        match self {
            Self::Static(schema) => schema,
            Self::Shared(schema) => schema,
        }
    }
}

impl PartialEq for SchemaRef {
    fn eq(&self, other: &Self) -> bool {
        Self::ptr_eq(self, other) || **self == **other
    }
}

impl From<&'static Schema> for SchemaRef {
    fn from(schema: &'static Schema) -> Self {
        Self::Static(schema)
    }
}

impl From<Arc<Schema>> for SchemaRef {
    fn from(schema: Arc<Schema>) -> Self {
        Self::Shared(schema)
    }
}

impl From<Schema> for SchemaRef {
    fn from(schema: Schema) -> Self {
        Self::Shared(Arc::new(schema))
    }
}

/// One value. Numbers are exact: integers and decimals never pass through a
/// floating-point type.
///
/// Date, Time and Timestamp are integers whose schema bears the logical name.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    #[default]
    Null,
    Boolean(bool),
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    Float32(f32),
    Float64(f64),
    Decimal(Box<BigDecimal>),
    String(ByteString),
    Bytes(Bytes),
    Array(Vec<Value>),
    /// A map, or an object without a schema (keys are then strings), in the
    /// order in which it came.
    Map(Vec<(Value, Value)>),
    /// The fields of a struct, in the order of its schema's fields.
    Struct(Vec<Value>),
}

impl Value {
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Roughly how much data it is; schemas do not count.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Boolean(_) | Self::Int8(_) => 1,
            Self::Int16(_) => 2,
            Self::Int32(_) | Self::Float32(_) => 4,
            Self::Int64(_) | Self::Float64(_) => 8,
            Self::Decimal(_) => 16,
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Array(values) | Self::Struct(values) => {
                values.iter().map(Self::payload_bytes).sum()
            }
            Self::Map(entries) => {
                let sizes = entries.iter().map(|(key, value)| [key, value]);
                sizes.flatten().map(Self::payload_bytes).sum()
            }
        }
    }
}

/// What a value looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub kind: Kind,
    pub optional: bool,
    /// The name of a struct, or of a logical type.
    pub name: Option<String>,
    pub version: Option<i32>,
    pub doc: Option<String>,
    pub parameters: BTreeMap<String, String>,
    pub default: Option<Value>,
}

impl Schema {
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            optional: false,
            name: None,
            version: None,
            doc: None,
            parameters: BTreeMap::new(),
            default: None,
        }
    }

    #[must_use]
    pub const fn optional(kind: Kind) -> Self {
        let mut schema = Self::of(kind);
        schema.optional = true;
        schema
    }

    /// Whether this is the logical type of that name.
    #[must_use]
    pub fn is_logical(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }
}

/// Connect's schema types.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Int8,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Boolean,
    String,
    Bytes,
    Array(SchemaRef),
    Map(SchemaRef, SchemaRef),
    Struct(Vec<Field>),
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    pub schema: SchemaRef,
}
