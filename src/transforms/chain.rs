//! One transform of a connector's chain, with its predicate.

use std::sync::Arc;

use sluice_actors::ports::converter::ConvertError;
use sluice_actors::ports::transform::Transform;
use sluice_actors::record::SinkRecord;

use super::aliased::Aliased;

/// Whether a record is one that a transform is for.
///
/// Called on the hot path; a panic rejects the record.
pub trait Predicate: Send + Sync + 'static {
    fn test(&self, record: &SinkRecord) -> bool;
}

/// When a transform is applied.
pub(super) struct Condition {
    pub(super) predicate: Arc<dyn Predicate>,
    pub(super) negate: bool,
}

/// A transform under the name that the connector has for it.
pub(super) struct Step {
    pub(super) alias: String,
    pub(super) condition: Option<Condition>,
    pub(super) transform: Arc<dyn Transform>,
}

impl Step {
    fn is_for(&self, record: &SinkRecord) -> bool {
        let condition = self.condition.as_ref();
        condition.is_none_or(|it| it.predicate.test(record) != it.negate)
    }
}

/// What the errors of a transform begin with.
pub(crate) fn error_prefix(alias: &str) -> String {
    format!("{}.{alias}: ", Aliased::Transform.list_key())
}

impl Transform for Step {
    fn apply(&self, record: SinkRecord) -> Result<Option<SinkRecord>, ConvertError> {
        if !self.is_for(&record) {
            return Ok(Some(record));
        }
        let changed = self.transform.apply(record);
        // The record is named by whom the error goes to.
        changed.map_err(|ConvertError(message)| {
            ConvertError(format!("{}{message}", error_prefix(&self.alias)))
        })
    }

    fn alias(&self) -> &str {
        &self.alias
    }
}

#[cfg(test)]
mod tests {
    use sluice_actors::value::{Datum, Value};

    use crate::transforms::testing::{build, build_for, record};

    #[test]
    fn a_transform_is_for_the_records_of_its_predicate_or_for_the_others() {
        let tombstone = || record(Datum::null(), Datum::null());
        let other = || record(Datum::null(), Datum::schemaless(Value::Boolean(true)));
        for (negate, dropped) in [(false, [true, false]), (true, [false, true])] {
            let filter = build_for(("RecordIsTombstone", &[]), negate, "Filter");
            let seen = [tombstone(), other()].map(|it| filter.apply(it).unwrap().is_none());
            assert_eq!(seen, dropped, "negate={negate}");
        }
        let always = build("Filter", &[]);
        assert!(always.apply(other()).unwrap().is_none());
    }

    #[test]
    fn no_error_of_a_transform_quotes_the_record() {
        let hush = || Value::String("hush".into());
        let unfit = [
            hush(),
            Value::Bytes("hush".into()),
            Value::Array(vec![hush()]),
            Value::Struct(vec![hush()]),
            Value::Map(vec![(Value::Array(vec![hush()]), hush())]),
        ];
        let mut errors = 0;
        for (class, settings) in [
            ("InsertField$Key", ("offset.field", "offset!")),
            ("InsertField$Value", ("offset.field", "offset!")),
            ("ReplaceField$Key", ("exclude", "a")),
            ("ReplaceField$Value", ("exclude", "a")),
        ] {
            let transform = build(class, &[settings]);
            for datum in unfit.clone().map(Datum::schemaless) {
                if let Err(error) = transform.apply(record(datum.clone(), datum)) {
                    errors += 1;
                    assert!(!format!("{error:?}").contains("hush"), "{error}");
                }
            }
        }
        assert!(errors >= 4 * 4, "{errors}");
    }
}
