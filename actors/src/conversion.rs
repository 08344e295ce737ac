//! One record from bytes to what the sink sees: converters, then transforms.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::time::Instant;

use crate::life::{Life, Step};
use crate::outcome::{Rejection, Stage};
use crate::pace::Pace;
use crate::ports::converter::{ConvertError, Converter, HeaderConverter};
use crate::ports::transform::Transform;
use crate::record::{Header, RawHeader, RawRecord, SinkRecord, SourcePartition};
use crate::sink_host::panic_message;

/// A connector's converters and transforms.
#[derive(Clone)]
pub struct Conversion {
    pub key: Arc<dyn Converter>,
    pub value: Arc<dyn Converter>,
    pub header: Arc<dyn HeaderConverter>,
    pub transforms: Vec<Arc<dyn Transform>>,
}

impl Conversion {
    /// Converts a record; `None` when a transform dropped it. One that was
    /// parked shows as what it was where it came from. A plugin's panic
    /// rejects the record like an error. Tells each stage before it enters it,
    /// since it may never come back; of transforms each one.
    pub fn convert(
        &self,
        partition: &Arc<SourcePartition>,
        acquisition: u32,
        raw: &RawRecord,
        life: Option<&Arc<Life>>,
        mut entering: impl FnMut(Stage),
    ) -> Result<Option<SinkRecord>, Rejection> {
        let (partition, offset) = match &raw.parked {
            Some(parked) => (&parked.origin.partition, parked.origin.offset),
            None => (partition, raw.offset),
        };
        let topic = &*partition.topic;
        enter(life, || Step::Convert);
        entering(Stage::KeyConverter);
        let key = guarded(Stage::KeyConverter, || {
            self.key.to_datum(topic, raw.key.as_ref())
        })?;
        entering(Stage::ValueConverter);
        let value = guarded(Stage::ValueConverter, || {
            self.value.to_datum(topic, raw.value.as_ref())
        })?;
        entering(Stage::HeaderConverter);
        let headers = self.headers(topic, &raw.headers)?;
        let record = SinkRecord {
            partition: Arc::clone(partition),
            offset,
            delivery_count: raw.delivery_count,
            acquisition,
            topic: Arc::clone(&partition.topic),
            timestamp: raw.timestamp,
            timestamp_type: raw.timestamp_type,
            key,
            value,
            headers,
            original: None,
            parked: raw.parked.clone(),
            life: life.cloned(),
        };
        if self.transforms.is_empty() {
            return Ok(Some(record));
        }
        guarded(Stage::Transformation, || {
            let mut record = record;
            for transform in &self.transforms {
                entering(Stage::Transformation);
                enter(life, || Step::Transform(transform.alias().into()));
                match transform.apply(record)? {
                    Some(changed) => record = changed,
                    None => return Ok(None),
                }
            }
            Ok(Some(record))
        })
    }

    /// To time the stages of a batch that begins now.
    pub(crate) fn pace(&self, now: Instant) -> Pace {
        let aliases = self.transforms.iter().map(|it| it.alias().into());
        Pace::new(aliases.collect(), now)
    }

    fn headers(&self, topic: &str, raw: &[RawHeader]) -> Result<Vec<Header>, Rejection> {
        if raw.is_empty() {
            return Ok(Vec::new());
        }
        guarded(Stage::HeaderConverter, || {
            raw.iter()
                .map(|header| {
                    let key = std::str::from_utf8(&header.key)
                        .map_err(|_| ConvertError("a header's key is not UTF-8".into()))?;
                    let value = self.header.to_datum(topic, key, header.value.as_ref())?;
                    Ok(Header {
                        key: key.into(),
                        value,
                    })
                })
                .collect()
        })
    }
}

fn enter(life: Option<&Arc<Life>>, step: impl FnOnce() -> Step) {
    if let Some(life) = life {
        life.enter(step(), Instant::now());
    }
}

fn guarded<T>(
    stage: Stage,
    call: impl FnOnce() -> Result<T, ConvertError>,
) -> Result<T, Rejection> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Rejection::new(stage, error.0)),
        Err(panic) => Err(Rejection::new(stage, panic_message(&*panic))),
    }
}
