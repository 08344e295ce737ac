//! Schemas to JSON, member by member in the order that Connect has.

use sluice_actors::ports::converter::ConvertError;
use sluice_actors::value::{Kind, Schema};

use super::schema::kind_name;
use super::write::{WriteOptions, append_json, append_list, append_string};

/// Appends a schema; `field` is its name in the struct around it.
pub(super) fn append_schema(
    text: &mut String,
    schema: &Schema,
    field: Option<&str>,
    options: WriteOptions,
) -> Result<(), ConvertError> {
    text.push_str("{\"type\":");
    append_string(text, kind_name(&schema.kind));
    append_inner(text, &schema.kind, options)?;
    text.push_str(",\"optional\":");
    text.push_str(if schema.optional { "true" } else { "false" });
    append_text(text, "name", schema.name.as_deref());
    if let Some(version) = schema.version {
        text.push_str(&format!(",\"version\":{version}"));
    }
    append_text(text, "doc", schema.doc.as_deref());
    append_parameters(text, schema)?;
    if let Some(default) = &schema.default {
        text.push_str(",\"default\":");
        append_json(text, default, Some(schema), options)?;
    }
    append_text(text, "field", field);
    text.push('}');
    Ok(())
}

/// The schemas inside an array's, a map's or a struct's.
fn append_inner(text: &mut String, kind: &Kind, options: WriteOptions) -> Result<(), ConvertError> {
    match kind {
        Kind::Array(items) => {
            text.push_str(",\"items\":");
            append_schema(text, items, None, options)
        }
        Kind::Map(keys, values) => {
            text.push_str(",\"keys\":");
            append_schema(text, keys, None, options)?;
            text.push_str(",\"values\":");
            append_schema(text, values, None, options)
        }
        Kind::Struct(fields) => {
            text.push_str(",\"fields\":");
            append_list(text, ('[', ']'), fields, |text, field| {
                append_schema(text, &field.schema, Some(&field.name), options)
            })
        }
        _ => Ok(()),
    }
}

fn append_text(text: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        text.push_str(&format!(",\"{name}\":"));
        append_string(text, value);
    }
}

fn append_parameters(text: &mut String, schema: &Schema) -> Result<(), ConvertError> {
    if schema.parameters.is_empty() {
        return Ok(());
    }
    text.push_str(",\"parameters\":");
    append_list(
        text,
        ('{', '}'),
        &schema.parameters,
        |text, (name, value)| {
            append_string(text, name);
            text.push(':');
            append_string(text, value);
            Ok(())
        },
    )
}
