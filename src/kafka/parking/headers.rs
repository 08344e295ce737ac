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
const NAMES: [&str; 11] = [
    "topic",
    "topic.id",
    "partition",
    "offset",
    "timestamp",
    "timestamp.type",
    "count",
    "first.failure",
    "due",
    "group",
    "version",
];
const GROUP: usize = 9;
/// The last header of every format, so that it can be told from others.
const VERSION: usize = 10;
/// Of what is written here, and the only one that is read.
const FORMAT: &str = "1";
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
pub(super) fn of(record: &ToPark, group: &str, due: Instant, clock: Clock) -> OwnedHeaders {
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
        Some(group.to_owned()),
        Some(FORMAT.to_owned()),
    ];
    let texts = NAMES.iter().zip(&texts);
    texts.fold(own_headers(&original.headers), |headers, (name, text)| {
        headers.insert(Header {
            key: &format!("{PREFIX}{name}"),
            value: text.as_ref(),
        })
    })
}

/// Why a record of the parking topic cannot be delivered here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    pub(super) text: String,
    /// Another connector, or another version of this one, can deliver it.
    pub(super) is_anothers: bool,
}

impl From<String> for Lack {
    fn from(text: String) -> Self {
        Self {
            text,
            is_anothers: false,
        }
    }
}

/// Makes of a record that lies in the parking topic at this place what it was
/// where it came from; `group` is the one that the connector reads with. One
/// that is none of the connector's stays as it is.
pub(super) fn read(
    raw: &mut RawRecord,
    place: &Arc<SourcePartition>,
    group: &str,
    clock: Clock,
) -> Result<(), Lack> {
    check_format(raw.headers.last(), place)?;
    let own = raw.headers.len().checked_sub(NAMES.len());
    let own = own.ok_or_else(|| unread(0))?;
    let texts = Texts(&raw.headers[own..]);
    check_group(texts.text(GROUP)?, group, place)?;
    let origin = RecordId {
        partition: Arc::new(SourcePartition {
            topic: texts.text(0)?.into(),
            topic_id: topic_id(texts.text(1)?).ok_or_else(|| unread(1))?,
            partition: texts.number(2)?,
        }),
        offset: texts.number(3)?,
    };
    let timestamp = match texts.value(4)? {
        Some(_) => Some(texts.number(4)?),
        None => None,
    };
    let timestamp_type = match texts.text(5)? {
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
    raw.headers.truncate(own);
    raw.timestamp = timestamp;
    raw.timestamp_type = timestamp_type;
    raw.parked = Some(Arc::new(parked));
    Ok(())
}

fn check_format(last: Option<&RawHeader>, place: &SourcePartition) -> Result<(), Lack> {
    let version = last.filter(|it| is_named(it, VERSION));
    let format = version.and_then(|it| text(it.value.as_deref()));
    let format = format.ok_or_else(|| unread(VERSION))?;
    if format == FORMAT {
        return Ok(());
    }
    Err(Lack {
        text: format!(
            "was parked in topic {} by another version of this worker, in format {format} where \
             this one reads {FORMAT}: it is kept until a worker of that version reads it; stop \
             this one, or bring it to that version",
            place.topic
        ),
        is_anothers: true,
    })
}

fn check_group(theirs: &str, ours: &str, place: &SourcePartition) -> Result<(), Lack> {
    if theirs == ours {
        return Ok(());
    }
    let topic = &place.topic;
    Err(Lack {
        text: format!(
            "was parked in topic {topic} by a connector of share group {theirs}, and this \
             connector's is {ours}: it is kept for that one; if it is this one under another \
             group, set share.group.id={theirs} until group {topic} has no lag; else give one of \
             the two another name"
        ),
        is_anothers: true,
    })
}

/// Our headers, by their places in [`NAMES`].
struct Texts<'a>(&'a [RawHeader]);

impl<'a> Texts<'a> {
    fn value(&self, place: usize) -> Result<Option<&'a [u8]>, String> {
        let header = &self.0[place];
        match is_named(header, place) {
            true => Ok(header.value.as_deref()),
            false => Err(unread(place)),
        }
    }

    fn text(&self, place: usize) -> Result<&'a str, String> {
        text(self.value(place)?).ok_or_else(|| unread(place))
    }

    fn number<N: std::str::FromStr>(&self, place: usize) -> Result<N, String> {
        self.text(place)?.parse().map_err(|_| unread(place))
    }
}

fn is_named(header: &RawHeader, place: usize) -> bool {
    let name = header.key.strip_prefix(PREFIX.as_bytes());
    name == Some(NAMES[place].as_bytes())
}

fn text(value: Option<&[u8]>) -> Option<&str> {
    value.and_then(|it| std::str::from_utf8(it).ok())
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
    const GROUP_ID: &str = "share-orders";

    fn back(
        mut raw: RawRecord,
        place: &Arc<SourcePartition>,
        clock: Clock,
    ) -> Result<RawRecord, Lack> {
        read(&mut raw, place, GROUP_ID, clock).map(|()| raw)
    }

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
        let headers = of(record, GROUP_ID, due, clock);
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
        let back = back(written(&record, due, clock), &place, clock).unwrap();
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
        let back = back(written, &partition("p", 0), clock).unwrap();
        assert_eq!((back.timestamp, back.headers.len()), (None, 0));
    }

    #[test]
    fn a_record_that_somebody_else_wrote_is_told_without_its_contents() {
        let (clock, place) = (Clock::now(), partition("p", 0));
        assert!(back(original(), &place, clock).is_err(), "another's");
        let record = to_park(raw_record(1), clock.instant);
        let mut odd = written(&record, clock.instant, clock);
        odd.headers[3].value = Some("s3cret".into());
        let error = back(odd, &place, clock).unwrap_err();
        let text = "its header __sluice.parked.offset is missing or unreadable";
        assert_eq!(error, Lack::from(text.to_owned()));
        let mut odd = written(&record, clock.instant, clock);
        odd.headers.swap(0, 1);
        assert!(back(odd, &place, clock).is_err(), "another order");
        let mut odd = written(&record, clock.instant, clock);
        odd.headers.remove(0);
        assert!(back(odd, &place, clock).is_err(), "too few");
    }

    #[test]
    fn a_record_that_another_can_deliver_is_told_apart_and_left_as_it_is() {
        let (clock, place) = (Clock::now(), partition("share-orders-parked", 0));
        let record = to_park(original(), clock.instant);
        let read_by = |raw: &mut RawRecord, group: &str| read(raw, &place, group, clock);
        let mut raw = written(&record, clock.instant, clock);
        let headers = raw.headers.clone();
        let lack = read_by(&mut raw, "mine").unwrap_err();
        assert!(lack.is_anothers);
        for named in [
            "topic share-orders-parked",
            "group share-orders,",
            "is mine:",
        ] {
            assert!(lack.text.contains(named), "{}", lack.text);
        }
        assert_eq!((&raw.headers, raw.timestamp), (&headers, Some(5)));
        // Whatever a later format has in front of it.
        let version = raw.headers.pop().unwrap();
        raw.headers.drain(4..);
        let value = Some("2".into());
        raw.headers.push(RawHeader { value, ..version });
        let lack = read_by(&mut raw, GROUP_ID).unwrap_err();
        assert!(
            lack.is_anothers && lack.text.contains("format 2"),
            "{lack:?}"
        );
    }
}
