//! What the null sink is told.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::definition::{Key, Kind, Preset, Reader};
use crate::sinks::null::rule::Rule;

const LATENCY: &str = "latency.ms";
const RECORD_LATENCY: &str = "record.latency.us";
const RECORD_FILE: &str = "record.file";
const SLOW: &str = "slow.match";
const SLOW_MS: &str = "slow.ms";
const BLOCK: &str = "block.match";
const BLOCK_MS: &str = "block.ms";
const RETRY: &str = "retry.match";
const REJECT: &str = "reject.match";
const UNAVAILABLE: &str = "unavailable.match";
const UNAVAILABLE_MS: &str = "unavailable.ms";
const FATAL: &str = "fatal.match";
const PANIC: &str = "panic.match";

/// The keys of the null sink.
pub const KEYS: &[Key] = &[
    Key {
        name: LATENCY,
        kind: Kind::DurationMs,
        preset: Preset::Value("0"),
        doc: "How long each put takes.",
    },
    Key {
        name: RECORD_LATENCY,
        kind: Kind::Int {
            min: 0,
            max: 3_600_000_000,
        },
        preset: Preset::Value("0"),
        doc: "How long each record takes, in microseconds. A put waits once for all its records, \
              as timers have a grain of a millisecond.",
    },
    Key {
        name: RECORD_FILE,
        kind: Kind::Text,
        preset: Preset::Unset,
        doc: "For tests: the path of a file that the value of each delivered record is appended \
              to, as a line, before the record is reported. Nothing is synced.",
    },
    rule(
        SLOW,
        "Records that take slow.ms more. The others of their put are reported first. \
         Conditions, parted by commas: topic=NAME, partition=N, offset=N, every=N (each N-th \
         offset), delivery=N, key=TEXT, value=TEXT, header.NAME=TEXT (contains it), times=N (the \
         first N times that a record comes).",
    ),
    millis(SLOW_MS, "1000", "How much longer slow records take."),
    rule(
        BLOCK,
        "Records that block the thread for block.ms each; conditions as in slow.match.",
    ),
    millis(BLOCK_MS, "1000", "How long a record blocks the thread."),
    rule(
        RETRY,
        "Records that fail for now; with times=N they are fine after N failures. Conditions as in \
         slow.match.",
    ),
    rule(
        REJECT,
        "Records that can never be delivered; conditions as in slow.match.",
    ),
    rule(
        UNAVAILABLE,
        "Records that begin an outage of all tasks, each once unless times=N says otherwise; \
         conditions as in slow.match.",
    ),
    millis(UNAVAILABLE_MS, "10000", "How long an outage lasts."),
    rule(
        FATAL,
        "Records that break the sink for good; conditions as in slow.match.",
    ),
    rule(
        PANIC,
        "Records that make the sink panic; conditions as in slow.match.",
    ),
];

const fn rule(name: &'static str, doc: &'static str) -> Key {
    Key {
        name,
        kind: Kind::Text,
        preset: Preset::Unset,
        doc,
    }
}

const fn millis(name: &'static str, preset: &'static str, doc: &'static str) -> Key {
    Key {
        name,
        kind: Kind::DurationMs,
        preset: Preset::Value(preset),
        doc,
    }
}

/// What happens to a record that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Panic,
    Fatal,
    Outage(Duration),
    Reject,
    Retry,
    Block(Duration),
    Slow(Duration),
}

/// A null sink's settings.
#[derive(Debug)]
pub struct NullConfig {
    pub(super) latency: Duration,
    pub(super) record_latency: Duration,
    /// Where delivered records are told.
    pub(super) record_file: Option<PathBuf>,
    /// The worst first: the first that applies to a record counts.
    pub(super) rules: Vec<(Action, Rule)>,
}

impl NullConfig {
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let micros = u64::try_from(reader.int(RECORD_LATENCY)).unwrap_or_default();
        let rules = [
            read_rule(reader, PANIC, Action::Panic),
            read_rule(reader, FATAL, Action::Fatal),
            read_timed(reader, UNAVAILABLE, UNAVAILABLE_MS, Action::Outage)
                .map(|(action, rule)| (action, rule.once())),
            read_rule(reader, REJECT, Action::Reject),
            read_rule(reader, RETRY, Action::Retry),
            read_timed(reader, BLOCK, BLOCK_MS, Action::Block),
            read_timed(reader, SLOW, SLOW_MS, Action::Slow),
        ];
        Self {
            latency: reader.duration(LATENCY),
            record_latency: Duration::from_micros(micros),
            record_file: reader.optional_text(RECORD_FILE).map(PathBuf::from),
            rules: rules.into_iter().flatten().collect(),
        }
    }

    /// How long a put of that many records takes, slow ones apart.
    pub(super) fn put_latency(&self, records: usize) -> Duration {
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        self.latency
            .saturating_add(self.record_latency.saturating_mul(records))
    }

    pub(super) fn blocks(&self) -> bool {
        self.rules
            .iter()
            .any(|(action, _)| matches!(action, Action::Block(_)))
    }
}

fn read_timed(
    reader: &mut Reader<'_>,
    name: &'static str,
    lasting: &'static str,
    action: fn(Duration) -> Action,
) -> Option<(Action, Rule)> {
    let lasts = reader.duration(lasting);
    read_rule(reader, name, action(lasts))
}

fn read_rule(
    reader: &mut Reader<'_>,
    name: &'static str,
    action: Action,
) -> Option<(Action, Rule)> {
    let text = reader.optional_text(name)?;
    Rule::parse(&text)
        .map_err(|message| reader.fault(name, message))
        .ok()
        .map(|rule| (action, rule))
}
