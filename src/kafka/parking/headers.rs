//! What a parked record says of itself, in headers behind its own: each a text.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rdkafka::message::{Header, OwnedHeaders};
use tokio::time::Instant;

use sluice_actors::ports::parking::ToPark;
use sluice_actors::record::{
    Parked, RawHeader, RawRecord, RecordId, SourcePartition, TimestampType, TopicId,
};

use crate::kafka::letters::own_headers;

const PREFIX: &str = "__sluice.parked.";
/// In this order.
const NAMES: [&str; 9] = [
    "topic",
    "topic.id",
    "partition",
    "offset",
    "timestamp",
    "timestamp.type",
    "count",
    "first.failure",
    "due",
];
const LOG_APPEND_TIME: &str = "LogAppendTime";
const CREATE_TIME: &str = "CreateTime";

/// One moment on both clocks: the worker's own, and that of the wall, which
/// other workers have too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    instant: Instant,
    /// Milliseconds since the epoch.
    millis: i64,
}

impl Clock {
    pub(super) fn now() -> Self {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            instant: Instant::now(),
            millis: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        }
    }

    fn millis_at(self, at: Instant) -> i64 {
        let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        match at.checked_duration_since(self.instant) {
            Some(later) => self.millis.saturating_add(millis(later)),
            None => self.millis.saturating_sub(millis(self.instant - at)),
        }
    }

    /// What lies before all that this clock knows is now.
    fn instant_at(self, millis: i64) -> Instant {
        let apart = Duration::from_millis(millis.abs_diff(self.millis));
        let at = match millis >= self.millis {
            true => self.instant.checked_add(apart),
            false => self.instant.checked_sub(apart),
        };
        at.unwrap_or(self.instant)
    }
}

/// The record's own headers, then ours.
pub(super) fn of(record: &ToPark, due: Instant, clock: Clock) -> OwnedHeaders {
    let RecordId { partition, offset } = &record.record;
    let original = &record.original;
    let timestamp_type = match original.timestamp_type {
        TimestampType::CreateTime => CREATE_TIME,
        TimestampType::LogAppendTime => LOG_APPEND_TIME,
    };
    let texts = [
        Some(partition.topic.to_string()),
        Some(URL_SAFE_NO_PAD.encode(partition.topic_id.0)),
        Some(partition.partition.to_string()),
        Some(offset.to_string()),
        original.timestamp.map(|it| it.to_string()),
        Some(timestamp_type.to_owned()),
        Some(record.count.to_string()),
        Some(clock.millis_at(record.since).to_string()),
        Some(clock.millis_at(due).to_string()),
    ];
    let texts = NAMES.iter().zip(&texts);
    texts.fold(own_headers(&original.headers), |headers, (name, text)| {
        headers.insert(Header {
            key: &format!("{PREFIX}{name}"),
            value: text.as_ref(),
        })
    })
}

/// The record that lies in the parking topic at this place, as it was where it
/// came from. Else what it lacks.
pub(super) fn read(
    mut raw: RawRecord,
    place: &Arc<SourcePartition>,
    clock: Clock,
) -> Result<RawRecord, String> {
    let own = raw.headers.len().checked_sub(NAMES.len());
    let own = own.ok_or("its last headers are not those of a parked record")?;
    let ours = raw.headers.split_off(own);
    let texts = Texts(&ours);
    let origin = RecordId {
        partition: Arc::new(SourcePartition {
            topic: texts.text(0)?.into(),
            topic_id: topic_id(texts.text(1)?).ok_or_else(|| unread(1))?,
            partition: texts.number(2)?,
        }),
        offset: texts.number(3)?,
    };
    raw.timestamp = match texts.value(4)? {
        Some(_) => Some(texts.number(4)?),
        None => None,
    };
    raw.timestamp_type = match texts.text(5)? {
        LOG_APPEND_TIME => TimestampType::LogAppendTime,
        _ => TimestampType::CreateTime,
    };
    let parked = Parked {
        origin,
        place: RecordId {
            partition: Arc::clone(place),
            offset: raw.offset,
        },
        count: texts.number(6)?,
        since: clock.instant_at(texts.number(7)?),
        due: clock.instant_at(texts.number(8)?),
    };
    raw.parked = Some(Arc::new(parked));
    Ok(raw)
}

/// Our headers, by their places in [`NAMES`].
struct Texts<'a>(&'a [RawHeader]);

impl<'a> Texts<'a> {
    fn value(&self, place: usize) -> Result<Option<&'a [u8]>, String> {
        let header = &self.0[place];
        let name = header.key.strip_prefix(PREFIX.as_bytes());
        match name == Some(NAMES[place].as_bytes()) {
            true => Ok(header.value.as_deref()),
            false => Err(unread(place)),
        }
    }

    fn text(&self, place: usize) -> Result<&'a str, String> {
        let text = self
            .value(place)?
            .and_then(|it| std::str::from_utf8(it).ok());
        text.ok_or_else(|| unread(place))
    }

    fn number<N: std::str::FromStr>(&self, place: usize) -> Result<N, String> {
        self.text(place)?.parse().map_err(|_| unread(place))
    }
}

fn unread(place: usize) -> String {
    format!(
        "its header {PREFIX}{} is missing or unreadable",
        NAMES[place]
    )
}

fn topic_id(text: &str) -> Option<TopicId> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    bytes.try_into().ok().map(TopicId)
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers as _;

    use sluice_actors::testing::{partition, raw_record};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn original() -> RawRecord {
        let own = |key: &'static str, value: Option<&'static str>| RawHeader {
            key: key.into(),
            value: value.map(Into::into),
        };
        RawRecord {
            timestamp: Some(1_700_000_000_000),
            timestamp_type: TimestampType::LogAppendTime,
            key: Some("k".into()),
            value: None,
            headers: vec![
                own("b", Some("1")),
                own("a", None),
                // Of a record that was copied out of a parking topic.
                own("__sluice.parked.topic", Some("old")),
            ],
            ..raw_record(41)
        }
    }

    fn to_park(original: RawRecord, since: Instant) -> ToPark {
        ToPark {
            record: RecordId {
                partition: partition("orders", 3),
                offset: 41,
            },
            original: Arc::new(original),
            count: 2,
            since,
        }
    }

    /// As it comes back from the topic.
    fn written(record: &ToPark, due: Instant, clock: Clock) -> RawRecord {
        let headers = of(record, due, clock);
        let headers = headers.iter().map(|it| RawHeader {
            key: it.key.to_owned().into(),
            value: it.value.map(|value| value.to_vec().into()),
        });
        RawRecord {
            offset: 7,
            delivery_count: 3,
            timestamp: Some(5),
            timestamp_type: TimestampType::CreateTime,
            headers: headers.collect(),
            ..(*record.original).clone()
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let clock = Clock::now();
        let (since, due) = (clock.instant - 9 * SECOND, clock.instant + 60 * SECOND);
        let record = to_park(original(), since);
        let place = partition("share-orders-parked", 0);
        let back = read(written(&record, due, clock), &place, clock).unwrap();
        let expected = original();
        assert_eq!(back.headers, expected.headers);
        assert_eq!(
            (back.timestamp, back.timestamp_type),
            (expected.timestamp, expected.timestamp_type)
        );
        assert_eq!((back.key, back.value), (expected.key, expected.value));
        assert_eq!((back.offset, back.delivery_count), (7, 3), "of its lock");
        let parked = back.parked.unwrap();
        assert_eq!(parked.origin, record.record);
        assert_eq!(parked.place.to_string(), "share-orders-parked-0@7");
        assert_eq!(parked.count, 2);
        let near = |one: Instant, other: Instant| one.max(other) - one.min(other) < SECOND / 100;
        assert!(near(parked.since, since) && near(parked.due, due));
    }

    #[test]
    fn a_record_without_a_timestamp_gets_none() {
        let clock = Clock::now();
        let record = to_park(raw_record(1), clock.instant);
        let written = written(&record, clock.instant, clock);
        let back = read(written, &partition("p", 0), clock).unwrap();
        assert_eq!((back.timestamp, back.headers.len()), (None, 0));
    }

    #[test]
    fn a_record_that_somebody_else_wrote_is_told_without_its_contents() {
        let (clock, place) = (Clock::now(), partition("p", 0));
        assert!(read(original(), &place, clock).is_err(), "too few");
        let record = to_park(raw_record(1), clock.instant);
        let mut odd = written(&record, clock.instant, clock);
        odd.headers[3].value = Some("s3cret".into());
        let error = read(odd, &place, clock).unwrap_err();
        assert_eq!(
            error,
            "its header __sluice.parked.offset is missing or unreadable"
        );
        let mut odd = written(&record, clock.instant, clock);
        odd.headers.swap(0, 1);
        assert!(read(odd, &place, clock).is_err(), "another order");
    }
}
