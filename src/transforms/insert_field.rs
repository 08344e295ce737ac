//! InsertField: adds fields that tell where a record comes from, or a text.

use std::sync::Arc;

use bytestring::ByteString;
use sluice_actors::ports::converter::ConvertError;
use sluice_actors::ports::transform::Transform;
use sluice_actors::record::SinkRecord;
use sluice_actors::value::{Field, Kind, Schema, SchemaRef, TIMESTAMP, Value};

use super::entry::Entry;
use super::fields::{self, Content, Part, Schemas};
use crate::config::definition::{self, Key, Preset, Reader, key};

const TOPIC: &str = "topic.field";
const PARTITION: &str = "partition.field";
const OFFSET: &str = "offset.field";
const TIMESTAMP_FIELD: &str = "timestamp.field";
const STATIC: &str = "static.field";
const STATIC_VALUE: &str = "static.value";
const REPLACE_NULL: &str = "replace.null.with.default";

const KEYS: &[Key] = &[
    field(
        TOPIC,
        "The field for the topic, as transforms before this one have left it. A ! after the name \
         makes it required in a schema; with ? or nothing it is optional.",
    ),
    field(
        PARTITION,
        "The field for the partition; ! and ? as in topic.field.",
    ),
    field(
        OFFSET,
        "The field for the offset; ! and ? as in topic.field.",
    ),
    field(
        TIMESTAMP_FIELD,
        "The field for the record's timestamp; ! and ? as in topic.field.",
    ),
    field(
        STATIC,
        "The field for static.value; ! and ? as in topic.field.",
    ),
    field(STATIC_VALUE, "The text for static.field."),
    key(
        REPLACE_NULL,
        definition::Kind::Boolean,
        Preset::Value("true"),
        "Whether a struct's null becomes the default that its schema declares.",
    ),
];

const fn field(name: &'static str, doc: &'static str) -> Key {
    key(name, definition::Kind::Text, Preset::Unset, doc)
}

pub(super) const ENTRIES: &[Entry<dyn Transform>] = &[
    Entry {
        class: "org.apache.kafka.connect.transforms.InsertField$Key",
        doc: "Adds fields with topic, partition, offset, timestamp or a fixed text to the key.",
        keys: KEYS,
        build: |reader| Arc::new(InsertField::read(reader, Part::Key)),
    },
    Entry {
        class: "org.apache.kafka.connect.transforms.InsertField$Value",
        doc: "Adds fields with topic, partition, offset, timestamp or a fixed text to the value.",
        keys: KEYS,
        build: |reader| Arc::new(InsertField::read(reader, Part::Value)),
    },
];

enum Source {
    Topic,
    Partition,
    Offset,
    Timestamp,
    Static(ByteString),
}

impl Source {
    /// Null if the record does not have it.
    fn value(&self, record: &SinkRecord) -> Value {
        match self {
            Self::Topic => Value::String((&*record.topic).into()),
            Self::Partition => Value::Int32(record.partition.partition),
            Self::Offset => Value::Int64(record.offset),
            Self::Timestamp => record.timestamp.map_or(Value::Null, Value::Int64),
            Self::Static(text) => Value::String(text.clone()),
        }
    }

    fn schema(&self, optional: bool) -> Schema {
        let (kind, name) = match self {
            Self::Topic | Self::Static(_) => (Kind::String, None),
            Self::Partition => (Kind::Int32, None),
            Self::Offset => (Kind::Int64, None),
            Self::Timestamp => (Kind::Int64, Some(TIMESTAMP)),
        };
        Schema {
            optional,
            name: name.map(str::to_owned),
            // Connect's logical types are of version 1.
            version: name.map(|_| 1),
            ..Schema::of(kind)
        }
    }
}

struct Insertion {
    name: ByteString,
    optional: bool,
    source: Source,
}

impl Insertion {
    fn field(&self) -> Field {
        Field {
            name: self.name.to_string(),
            schema: SchemaRef::from(self.source.schema(self.optional)),
        }
    }

    /// Connect lets the null pass, and the next who reads the struct fails.
    fn required_value(&self, record: &SinkRecord) -> Result<Value, ConvertError> {
        let value = self.source.value(record);
        if value.is_null() && !self.optional {
            let message = format!(
                "field {:?} is required, and the record has no timestamp",
                self.name
            );
            return Err(ConvertError(message));
        }
        Ok(value)
    }
}

struct InsertField {
    part: Part,
    insertions: Vec<Insertion>,
    replace_null: bool,
    schemas: Schemas<SchemaRef>,
}

impl InsertField {
    fn read(reader: &mut Reader<'_>, part: Part) -> Self {
        let insertions = [
            insertion(reader, TOPIC, Source::Topic),
            insertion(reader, PARTITION, Source::Partition),
            insertion(reader, OFFSET, Source::Offset),
            insertion(reader, TIMESTAMP_FIELD, Source::Timestamp),
            static_insertion(reader),
        ];
        let insertions: Vec<_> = insertions.into_iter().flatten().collect();
        if insertions.is_empty() {
            let message = format!(
                "is not set, nor is {PARTITION}, {OFFSET}, {TIMESTAMP_FIELD} or {STATIC}: nothing \
                 would be inserted; set one of them"
            );
            reader.fault(TOPIC, message);
        }
        Self {
            part,
            insertions,
            replace_null: reader.boolean(REPLACE_NULL),
            schemas: fields::schemas(),
        }
    }

    fn extended(&self, schema: &Schema) -> Result<SchemaRef, ConvertError> {
        let present = fields::fields(schema).iter().cloned();
        let inserted = self.insertions.iter().map(Insertion::field);
        fields::with_fields(schema, present.chain(inserted))
    }
}

impl Transform for InsertField {
    fn apply(&self, mut record: SinkRecord) -> Result<Option<SinkRecord>, ConvertError> {
        match self.part.take(&mut record)? {
            Content::Null => {}
            Content::Map(mut entries) => {
                for insertion in &self.insertions {
                    let value = insertion.source.value(&record);
                    if !value.is_null() {
                        let name = Value::String(insertion.name.clone());
                        fields::put(&mut entries, name, value);
                    }
                }
                self.part.of(&mut record).value = Value::Map(entries);
            }
            Content::Struct(schema, mut values) => {
                let extended = self.schemas.get(&schema, || self.extended(&schema))?;
                if self.replace_null {
                    fields::replace_nulls(fields::fields(&schema), &mut values);
                }
                for insertion in &self.insertions {
                    values.push(insertion.required_value(&record)?);
                }
                let datum = self.part.of(&mut record);
                datum.schema = Some(extended);
                datum.value = Value::Struct(values);
            }
        }
        Ok(Some(record))
    }
}

fn insertion(reader: &mut Reader<'_>, key: &'static str, source: Source) -> Option<Insertion> {
    let text = reader.optional_text(key)?;
    let (name, optional) = match text.strip_suffix('!') {
        Some(name) => (name, false),
        None => (text.strip_suffix('?').unwrap_or(&text), true),
    };
    if name.is_empty() {
        reader.fault(key, "names no field; give it a name or remove the key");
    }
    Some(Insertion {
        name: name.into(),
        optional,
        source,
    })
}

fn static_insertion(reader: &mut Reader<'_>) -> Option<Insertion> {
    let value = reader.optional_text(STATIC_VALUE);
    let text = value.as_deref().unwrap_or_default();
    let insertion = insertion(reader, STATIC, Source::Static(text.into()));
    match (&insertion, value) {
        (Some(_), None) => reader.fault(STATIC_VALUE, format!("is required with {STATIC}")),
        (None, Some(_)) => {
            reader.fault(STATIC_VALUE, format!("has no effect without {STATIC}"));
        }
        _ => {}
    }
    insertion
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transforms::aliased::Aliased;
    use crate::transforms::testing::{applied, build, error, faults, record};
    use sluice_actors::value::Datum;

    const CLASS: &str = "InsertField$Value";

    fn order() -> Datum {
        let field = Field {
            name: "id".into(),
            schema: SchemaRef::from(Schema::of(Kind::String)),
        };
        let schema = SchemaRef::from(Schema::of(Kind::Struct(vec![field])));
        Datum::with_schema(schema, Value::Struct(vec![Value::String("a".into())]))
    }

    #[test]
    fn structs_of_one_schema_keep_one_schema() {
        let insert = build(CLASS, &[(TOPIC, "t")]);
        let value = order();
        let [one, other] = [(); 2].map(|()| {
            let record = applied(&insert, record(Datum::null(), value.clone()));
            record.value.schema.unwrap()
        });
        assert!(SchemaRef::ptr_eq(&one, &other));
        assert!(!SchemaRef::ptr_eq(&one, &value.schema.unwrap()));
    }

    /// The offset is the source's, the topic what the sink will see.
    #[test]
    fn the_topic_is_the_one_that_the_sink_sees() {
        let insert = build(CLASS, &[(TOPIC, "t")]);
        let mut routed = record(Datum::null(), Datum::schemaless(Value::Map(Vec::new())));
        routed.topic = "routed".into();
        let value = applied(&insert, routed).value.value;
        let expected = (Value::String("t".into()), Value::String("routed".into()));
        assert_eq!(value, Value::Map(vec![expected]));
    }

    #[test]
    fn an_error_names_the_transform_and_never_the_payload() {
        let insert = build(CLASS, &[(TOPIC, "t")]);
        let text = Datum::schemaless(Value::String("hush".into()));
        assert_eq!(
            error(&insert, record(Datum::null(), text)),
            "transforms.it: the record's value has no fields: without a schema it must be an object"
        );
    }

    #[test]
    fn a_required_field_wants_a_timestamp() {
        let insert = build(CLASS, &[(TIMESTAMP_FIELD, "ts!")]);
        let mut record = record(Datum::null(), order());
        record.timestamp = None;
        assert_eq!(
            error(&insert, record),
            "transforms.it: field \"ts\" is required, and the record has no timestamp"
        );
    }

    #[test]
    fn settings_without_a_meaning_are_refused() {
        let told = |settings| faults(Aliased::Transform, CLASS, settings);
        assert_eq!(
            told(&[]),
            "transforms.it.topic.field: is not set, nor is partition.field, offset.field, \
             timestamp.field or static.field: nothing would be inserted; set one of them"
        );
        assert_eq!(
            told(&[(STATIC, "s"), (OFFSET, "!"), (REPLACE_NULL, "maybe")]),
            "transforms.it.offset.field: names no field; give it a name or remove the key\n\
             transforms.it.static.value: is required with static.field\n\
             transforms.it.replace.null.with.default: \"maybe\" is neither true nor false"
        );
        assert_eq!(
            told(&[(TOPIC, "t"), (STATIC_VALUE, "x")]),
            "transforms.it.static.value: has no effect without static.field"
        );
    }
}
