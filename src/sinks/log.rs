//! The sink that logs each record as a line, to look at what comes.

use async_trait::async_trait;

use sluice_actors::chunk::Chunk;
use sluice_actors::ports::converter::ConvertError;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, SinkTraits, TaskContext};
use sluice_actors::record::SinkRecord;
use sluice_actors::report::Report;
use sluice_actors::value::{Datum, Value};

use crate::config::definition::{Key, Kind, Preset, Reader, key};
use crate::sinks::file::json_line::write_json;
use crate::telemetry::log_writer::written;

const MAX_LENGTH: &str = "log.max.length";

/// The keys of the log sink.
pub const KEYS: &[Key] = &[key(
    MAX_LENGTH,
    Kind::Int {
        min: 1,
        max: 1_000_000,
    },
    Preset::Value("1000"),
    "How many bytes of a key or value are logged; what is longer is cut, and its length told.",
)];

/// Makes log sinks.
#[derive(Debug)]
pub struct LogFactory {
    max_length: usize,
}

impl LogFactory {
    pub fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            max_length: usize::try_from(reader.int(MAX_LENGTH)).unwrap_or(1),
        }
    }
}

/// Records are printed whatever `log.level` says: what is filtered out would
/// count as delivered.
pub const TARGET: &str = "sluice::record";

impl SinkFactory for LogFactory {
    fn traits(&self) -> SinkTraits {
        SinkTraits {
            buffers: false,
            idempotent: true,
            blocking: false,
        }
    }

    fn create(&self, context: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(LogSink {
            max_length: self.max_length,
            context: context.clone(),
        }))
    }
}

/// What a record says; a null has no field.
struct Line {
    key: Option<String>,
    value: Option<String>,
}

struct LogSink {
    max_length: usize,
    context: TaskContext,
}

#[async_trait]
impl Sink for LogSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError> {
        for (place, record) in chunk.iter().enumerate() {
            let line = match self.line(record) {
                Ok(line) => line,
                Err(error) => {
                    report.reject(place, format!("{} has no text: {error}", record.id()));
                    continue;
                }
            };
            written(|| self.log(record, &line)).map_err(|error| {
                SinkError::Unavailable(format!("the log cannot be written: {error}").into())
            })?;
            report.delivered(place);
        }
        Ok(())
    }
}

impl LogSink {
    fn line(&self, record: &SinkRecord) -> Result<Line, ConvertError> {
        Ok(Line {
            key: self.text(&record.key)?,
            value: self.text(&record.value)?,
        })
    }

    fn log(&self, record: &SinkRecord, Line { key, value }: &Line) {
        tracing::info!(
            target: TARGET,
            connector = self.context.connector,
            task = self.context.task,
            topic = &*record.topic,
            partition = record.partition.partition,
            offset = record.offset,
            timestamp = record.timestamp,
            key,
            value,
            "record"
        );
    }

    fn text(&self, datum: &Datum) -> Result<Option<String>, ConvertError> {
        let text = match &datum.value {
            Value::Null => return Ok(None),
            Value::String(text) => cut(text, self.max_length),
            Value::Bytes(bytes) if let Ok(text) = std::str::from_utf8(bytes) => {
                cut(text, self.max_length)
            }
            _ => {
                let mut json = Vec::new();
                write_json(&mut json, datum)?;
                cut(&String::from_utf8_lossy(&json), self.max_length)
            }
        };
        Ok(Some(text))
    }
}

fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let begins = &text[..text.floor_char_boundary(max)];
    format!("{begins}... ({} bytes)", text.len())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use parking_lot::Mutex;
    use sluice_actors::outcome::Outcome;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;
    use crate::sinks::contract::{
        check, check_outage, factory_of, item, opened, put, record, text_record,
    };
    use crate::telemetry::log_writer::LogWriter;

    fn factory(settings: &[(&str, &str)]) -> Arc<dyn SinkFactory> {
        let (factory, faults) = factory_of("log", settings);
        factory.unwrap_or_else(|| panic!("{faults}"))
    }

    #[derive(Clone, Default)]
    struct Lines {
        text: Arc<Mutex<Vec<u8>>>,
        is_closed: Arc<AtomicBool>,
    }

    impl Lines {
        /// Logs to them on this thread.
        fn log(&self) -> tracing::subscriber::DefaultGuard {
            let builder = tracing_subscriber::fmt().json().flatten_event(true);
            let subscriber = builder.with_writer(LogWriter(self.clone())).finish();
            tracing::subscriber::set_default(subscriber)
        }

        /// Those of records.
        fn read(&self) -> Vec<serde_json::Value> {
            let text = String::from_utf8(self.text.lock().clone()).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
            lines
                .filter(|line: &serde_json::Value| line["target"] == TARGET)
                .collect()
        }
    }

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.is_closed.load(Ordering::SeqCst) {
                true => Err(io::ErrorKind::BrokenPipe.into()),
                false => self.text.lock().write(bytes),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// What a put of these records logs, and what it does not deliver.
    async fn logged(
        settings: &[(&str, &str)],
        records: Vec<SinkRecord>,
    ) -> (Vec<serde_json::Value>, Vec<(usize, Outcome)>) {
        let lines = Lines::default();
        let _logging = lines.log();
        let mut sink = opened(factory(settings).as_ref(), 3).await;
        let (result, outcomes) = put(sink.as_mut(), records).await;
        assert_eq!(result, Ok(()));
        let mut rejected = outcomes;
        rejected.retain(|(_, outcome)| *outcome != Outcome::Delivered);
        (lines.read(), rejected)
    }

    #[actix::test]
    async fn keeps_the_contract_of_sinks() {
        check(&factory(&[])).await;
    }

    #[actix::test]
    async fn a_log_that_cannot_be_written_is_an_outage_as_the_contract_has_it() {
        let lines = Lines::default();
        let _logging = lines.log();
        let close = async |closed| lines.is_closed.store(closed, Ordering::SeqCst);
        check_outage(&factory(&[]), || close(true), || close(false)).await;
        let text = |line: &serde_json::Value| line["value"].as_str().unwrap().to_owned();
        let mut printed: Vec<_> = lines.read().iter().map(text).collect();
        printed.sort_unstable();
        let expected = ["after", "after", "away", "away too", "before", "before"];
        assert_eq!(printed, expected);
    }

    #[tokio::test]
    async fn what_was_printed_before_the_log_broke_off_is_delivered() {
        let lines = Lines::default();
        let _logging = lines.log();
        let mut sink = opened(factory(&[]).as_ref(), 0).await;
        let (result, outcomes) = put(sink.as_mut(), vec![text_record(0, "printed")]).await;
        assert_eq!((result, outcomes), (Ok(()), vec![(0, Outcome::Delivered)]));
        lines.is_closed.store(true, Ordering::SeqCst);
        let (result, outcomes) = put(sink.as_mut(), vec![text_record(1, "lost")]).await;
        let Err(SinkError::Unavailable(cause)) = result else {
            panic!("{result:?}");
        };
        assert!(cause.contains("cannot be written: broken pipe"), "{cause}");
        assert_eq!(outcomes, []);
    }

    #[tokio::test]
    async fn a_record_is_a_line_that_names_it() {
        let mut keyed = text_record(7, "two\nlines");
        keyed.key = Datum::schemaless(Value::Int64(5));
        let (lines, _) = logged(&[], vec![keyed]).await;
        let [line] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        for (field, value) in [
            ("level", "INFO"),
            ("message", "record"),
            ("connector", "audit"),
            ("topic", "orders"),
            ("key", "5"),
            ("value", "two\nlines"),
        ] {
            assert_eq!(line[field], value, "{line}");
        }
        for (field, value) in [
            ("task", 3),
            ("partition", 0),
            ("offset", 7),
            ("timestamp", 1_700_000_000_000_i64),
        ] {
            assert_eq!(line[field], value, "{line}");
        }
    }

    #[tokio::test]
    async fn values_are_text_where_they_can_be_else_json() {
        let bytes = |bytes: &'static [u8]| Datum::schemaless(Value::Bytes(bytes.into()));
        let records = vec![
            record(0, bytes(b"text")),
            record(1, bytes(&[0xff])),
            record(2, item(Value::Int64(1))),
            record(3, Datum::null()),
        ];
        let (lines, _) = logged(&[], records).await;
        let values: Vec<_> = lines.iter().map(|line| line["value"].as_str()).collect();
        let json = [Some("text"), Some("\"/w==\""), Some("{\"item\":1}"), None];
        assert_eq!(values, json);
    }

    #[tokio::test]
    async fn a_long_value_is_cut_between_characters() {
        let settings = [("log.max.length", "4")];
        let records = vec![text_record(0, "abcd"), text_record(1, "abc\u{e4}f")];
        let (lines, _) = logged(&settings, records).await;
        assert_eq!(lines[0]["value"], "abcd");
        assert_eq!(lines[1]["value"], "abc... (6 bytes)");
    }

    #[tokio::test]
    async fn a_record_without_a_text_is_rejected_alone_and_named() {
        let unfit = Datum::schemaless(Value::Struct(vec![Value::Null]));
        let records = vec![record(0, unfit), text_record(1, "fine")];
        let (lines, outcomes) = logged(&[], records).await;
        assert_eq!(lines.len(), 1);
        let [(0, Outcome::Reject(rejection))] = outcomes.as_slice() else {
            panic!("{outcomes:?}");
        };
        assert!(rejection.cause.contains("orders-0@0"), "{rejection}");
    }
}
