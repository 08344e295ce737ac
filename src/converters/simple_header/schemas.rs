//! The schemas of guessed values, each made once.

use std::sync::LazyLock;

use sluice_actors::value::{DATE, DECIMAL, Kind, Schema, SchemaRef, TIME, TIMESTAMP};

macro_rules! shared {
    ($($name:ident: $schema:expr;)*) => {$(
        pub(super) fn $name() -> SchemaRef {
            static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| SchemaRef::from($schema));
            SCHEMA.clone()
        }
    )*};
}

shared! {
    boolean: Schema::of(Kind::Boolean);
    int8: Schema::of(Kind::Int8);
    int16: Schema::of(Kind::Int16);
    int32: Schema::of(Kind::Int32);
    int64: Schema::of(Kind::Int64);
    float32: Schema::of(Kind::Float32);
    float64: Schema::of(Kind::Float64);
    string: Schema::of(Kind::String);
    bytes: Schema::of(Kind::Bytes);
    date: logical(Kind::Int32, DATE);
    time: logical(Kind::Int32, TIME);
    timestamp: logical(Kind::Int64, TIMESTAMP);
}

pub(super) fn decimal(scale: i64) -> SchemaRef {
    let mut schema = logical(Kind::Bytes, DECIMAL);
    schema
        .parameters
        .insert("scale".to_owned(), scale.to_string());
    SchemaRef::from(schema)
}

fn logical(kind: Kind, name: &str) -> Schema {
    let mut schema = Schema::of(kind);
    schema.name = Some(name.to_owned());
    schema.version = Some(1);
    schema
}
