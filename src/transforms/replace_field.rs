//! ReplaceField: leaves fields out, and gives them other names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytestring::ByteString;
use sluice_actors::ports::converter::ConvertError;
use sluice_actors::ports::transform::Transform;
use sluice_actors::record::SinkRecord;
use sluice_actors::value::{Field, Schema, SchemaRef, Value};

use super::entry::Entry;
use super::fields::{self, Content, Part, Schemas};
use crate::config::definition::{Key, Kind, Preset, Reader, key};

const EXCLUDE: &str = "exclude";
const INCLUDE: &str = "include";
const RENAMES: &str = "renames";
const REPLACE_NULL: &str = "replace.null.with.default";
/// Names that Connect 4.0 took back; it passes over them in silence, and then
/// lets all fields through.
const FORMER: [(&str, &str); 2] = [("blacklist", EXCLUDE), ("whitelist", INCLUDE)];

const KEYS: &[Key] = &[
    key(
        EXCLUDE,
        Kind::List,
        Preset::Unset,
        "Fields to leave out, by their old names; wins over include.",
    ),
    key(
        INCLUDE,
        Kind::List,
        Preset::Unset,
        "The only fields to keep, by their old names; all if unset.",
    ),
    key(
        RENAMES,
        Kind::List,
        Preset::Unset,
        "Other names for fields, as old:new.",
    ),
    key(
        REPLACE_NULL,
        Kind::Boolean,
        Preset::Value("true"),
        "Whether a struct's null becomes the default that its schema declares.",
    ),
    key(
        FORMER[0].0,
        Kind::List,
        Preset::Unset,
        "Refused: Connect 4.0 has exclude only.",
    ),
    key(
        FORMER[1].0,
        Kind::List,
        Preset::Unset,
        "Refused: Connect 4.0 has include only.",
    ),
];

pub(super) const ENTRIES: &[Entry<dyn Transform>] = &[
    Entry {
        class: "org.apache.kafka.connect.transforms.ReplaceField$Key",
        doc: "Leaves out or renames fields of the key.",
        keys: KEYS,
        build: |reader| Arc::new(ReplaceField::read(reader, Part::Key)),
    },
    Entry {
        class: "org.apache.kafka.connect.transforms.ReplaceField$Value",
        doc: "Leaves out or renames fields of the value.",
        keys: KEYS,
        build: |reader| Arc::new(ReplaceField::read(reader, Part::Value)),
    },
];

struct ReplaceField {
    part: Part,
    exclude: BTreeSet<String>,
    /// Empty: all.
    include: BTreeSet<String>,
    renames: BTreeMap<String, ByteString>,
    replace_null: bool,
    plans: Schemas<Arc<Plan>>,
}

/// What becomes of the structs of one schema.
struct Plan {
    schema: SchemaRef,
    /// The places of the values that stay, in their order.
    kept: Vec<usize>,
}

impl ReplaceField {
    fn read(reader: &mut Reader<'_>, part: Part) -> Self {
        for (former, name) in FORMER {
            if reader.optional_text(former).is_some() {
                reader.fault(
                    former,
                    format!("is called {name} since Connect 4.0; use {name}"),
                );
            }
        }
        Self {
            part,
            exclude: read_names(reader, EXCLUDE),
            include: read_names(reader, INCLUDE),
            renames: read_renames(reader),
            replace_null: reader.boolean(REPLACE_NULL),
            plans: fields::schemas(),
        }
    }

    fn keeps(&self, name: &str) -> bool {
        !self.exclude.contains(name) && (self.include.is_empty() || self.include.contains(name))
    }

    fn replace_entries(
        &self,
        entries: Vec<(Value, Value)>,
    ) -> Result<Vec<(Value, Value)>, ConvertError> {
        let mut replaced = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let Value::String(name) = &key else {
                let message = "a key of the map is no string, so it is no field";
                return Err(ConvertError(message.to_owned()));
            };
            if !self.keeps(name) {
                continue;
            }
            match self.renames.get(&**name) {
                Some(other) => fields::put(&mut replaced, Value::String(other.clone()), value),
                // Only a new name can be there already.
                None if self.renames.is_empty() => replaced.push((key, value)),
                None => fields::put(&mut replaced, key, value),
            }
        }
        Ok(replaced)
    }

    fn plan(&self, schema: &Schema) -> Result<Arc<Plan>, ConvertError> {
        let present = fields::fields(schema).iter().enumerate();
        let kept = present.filter(|(_, field)| self.keeps(&field.name));
        let (kept, renamed): (Vec<_>, Vec<_>) = kept
            .map(|(place, field)| (place, self.renamed(field)))
            .unzip();
        let schema = fields::with_fields(schema, renamed)?;
        Ok(Arc::new(Plan { schema, kept }))
    }

    fn renamed(&self, field: &Field) -> Field {
        let name = self.renames.get(&field.name);
        Field {
            name: name.map_or_else(|| field.name.clone(), ToString::to_string),
            schema: field.schema.clone(),
        }
    }
}

impl Transform for ReplaceField {
    fn apply(&self, mut record: SinkRecord) -> Result<Option<SinkRecord>, ConvertError> {
        match self.part.take(&mut record)? {
            Content::Null => {}
            Content::Map(entries) => {
                let replaced = self.replace_entries(entries)?;
                self.part.of(&mut record).value = Value::Map(replaced);
            }
            Content::Struct(schema, mut values) => {
                let plan = self.plans.get(&schema, || self.plan(&schema))?;
                let kept = plan.kept.iter();
                let mut kept: Vec<Value> = kept
                    .filter_map(|place| values.get_mut(*place).map(std::mem::take))
                    .collect();
                if self.replace_null {
                    fields::replace_nulls(fields::fields(&plan.schema), &mut kept);
                }
                let datum = self.part.of(&mut record);
                datum.schema = Some(plan.schema.clone());
                datum.value = Value::Struct(kept);
            }
        }
        Ok(Some(record))
    }
}

fn read_names(reader: &mut Reader<'_>, key: &'static str) -> BTreeSet<String> {
    reader.list(key).into_iter().collect()
}

fn read_renames(reader: &mut Reader<'_>) -> BTreeMap<String, ByteString> {
    let mut renames = BTreeMap::new();
    for pair in reader.list(RENAMES) {
        match pair.split_once(':') {
            Some((old, new)) if !old.is_empty() && !new.is_empty() && !new.contains(':') => {
                if renames.insert(old.to_owned(), new.into()).is_some() {
                    reader.fault(RENAMES, format!("renames {old:?} twice"));
                }
            }
            _ => reader.fault(RENAMES, format!("{pair:?} is not old:new")),
        }
    }
    renames
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transforms::aliased::Aliased;
    use crate::transforms::testing::{applied, build, error, faults, record};
    use sluice_actors::value::{Datum, Kind};

    const CLASS: &str = "ReplaceField$Value";

    fn two_fields() -> Datum {
        let schema = SchemaRef::from(Schema::of(Kind::String));
        let field = |name: &str| Field {
            name: name.into(),
            schema: schema.clone(),
        };
        let schema = Schema::of(Kind::Struct(vec![field("a"), field("b")]));
        let values = ["of a", "of b"].map(|text| Value::String(text.into()));
        Datum::with_schema(SchemaRef::from(schema), Value::Struct(values.into()))
    }

    fn entry(name: &str, number: i64) -> (Value, Value) {
        (Value::String(name.into()), Value::Int64(number))
    }

    /// In Connect b would get the value of the field that is left out.
    #[test]
    fn a_field_keeps_its_value_when_its_name_was_meant_for_another() {
        let replace = build(CLASS, &[(EXCLUDE, "a"), (RENAMES, "a:b")]);
        let value = applied(&replace, record(Datum::null(), two_fields())).value;
        assert_eq!(
            value.value,
            Value::Struct(vec![Value::String("of b".into())])
        );
    }

    /// Connect's maps have no order, so there it is left to chance.
    #[test]
    fn of_two_entries_with_one_name_the_later_stays() {
        let replace = build(CLASS, &[(RENAMES, "a:b")]);
        let value = |entries| {
            let map = Datum::schemaless(Value::Map(entries));
            applied(&replace, record(Datum::null(), map)).value.value
        };
        assert_eq!(
            value(vec![entry("a", 1), entry("c", 2), entry("b", 3)]),
            Value::Map(vec![entry("b", 3), entry("c", 2)])
        );
        assert_eq!(
            value(vec![entry("b", 3), entry("a", 1)]),
            Value::Map(vec![entry("b", 1)])
        );
    }

    #[test]
    fn structs_of_one_schema_keep_one_schema() {
        let replace = build(CLASS, &[(EXCLUDE, "a")]);
        let value = two_fields();
        let [one, other] = [(); 2].map(|()| {
            let record = applied(&replace, record(Datum::null(), value.clone()));
            record.value.schema.unwrap()
        });
        assert!(SchemaRef::ptr_eq(&one, &other));
    }

    #[test]
    fn what_is_no_field_is_an_error() {
        let replace = build(CLASS, &[(EXCLUDE, "a")]);
        let map = Value::Map(vec![(Value::Int64(1), Value::Null)]);
        assert_eq!(
            error(&replace, record(Datum::null(), Datum::schemaless(map))),
            "transforms.it: a key of the map is no string, so it is no field"
        );
        let mut torn = two_fields();
        torn.value = Value::Struct(Vec::new());
        assert_eq!(
            error(&replace, record(Datum::null(), torn)),
            "transforms.it: the record's value is a struct without the fields of its schema"
        );
    }

    #[test]
    fn names_that_connect_took_back_are_refused_with_the_new_ones() {
        assert_eq!(
            faults(
                Aliased::Transform,
                CLASS,
                &[("blacklist", "a"), ("whitelist", "b")]
            ),
            "transforms.it.blacklist: is called exclude since Connect 4.0; use exclude\n\
             transforms.it.whitelist: is called include since Connect 4.0; use include"
        );
    }

    #[test]
    fn renames_are_pairs() {
        assert_eq!(
            faults(
                Aliased::Transform,
                CLASS,
                &[(RENAMES, "a, b:, :c, d:e:f, g:h, g:i")]
            ),
            "transforms.it.renames: \"a\" is not old:new\n\
             transforms.it.renames: \"b:\" is not old:new\n\
             transforms.it.renames: \":c\" is not old:new\n\
             transforms.it.renames: \"d:e:f\" is not old:new\n\
             transforms.it.renames: renames \"g\" twice"
        );
    }
}
