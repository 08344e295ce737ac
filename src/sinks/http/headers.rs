//! Headers of a request: those that all have, those of the record, and the key
//! that tells a repeated request.

use bytes::Bytes;
use reqwest::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderName,
    HeaderValue, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use sluice_actors::record::{Header, SinkRecord};
use sluice_actors::value::Value;

use crate::config::definition::{Reader, list_items};
use crate::sinks::http::body::Format;
use crate::sinks::http::keys;
use crate::sinks::http::scrub::Secrets;

/// What a request has of its own, or what must not be given from outside.
const RESERVED: [HeaderName; 11] = [
    AUTHORIZATION,
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    EXPECT,
    HOST,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// `http.headers.additional`. Its values may be secrets and are not repeated.
pub(super) fn additional(reader: &mut Reader<'_>, secrets: &mut Secrets) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(list) = reader.secret(keys::ADDITIONAL) else {
        return headers;
    };
    for (place, item) in list_items(list.reveal()).enumerate() {
        let parsed = item.split_once(':').and_then(|(name, value)| {
            let name: HeaderName = name.trim().parse().ok()?;
            Some((
                name,
                HeaderValue::from_str(value.trim()).ok()?,
                value.trim(),
            ))
        });
        let number = place + 1;
        let Some((name, mut value, text)) = parsed else {
            reader.fault(
                keys::ADDITIONAL,
                format!("its item {number} is not like name:value"),
            );
            continue;
        };
        if RESERVED.contains(&name) {
            reader.fault(keys::ADDITIONAL, reserved(&name));
            continue;
        }
        secrets.add_header(text);
        value.set_sensitive(true);
        headers.append(name, value);
    }
    headers
}

fn reserved(name: &HeaderName) -> String {
    let instead = match name.as_str() {
        "authorization" => format!("set {}", keys::AUTHORIZATION),
        "content-type" => format!("set {}", keys::CONTENT_TYPE),
        _ => "it follows from the request; remove it".to_owned(),
    };
    format!("{name} cannot be set here: {instead}")
}

/// `http.headers.forward`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Forward {
    All,
    /// In small letters, as HTTP compares them.
    Named(Vec<String>),
}

impl Forward {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let names = reader.list(keys::FORWARD);
        if names == ["*"] {
            return Self::All;
        }
        for name in &names {
            match name.parse::<HeaderName>() {
                Ok(name) if RESERVED.contains(&name) => {
                    reader.fault(keys::FORWARD, reserved(&name));
                }
                Ok(_) if name != "*" => {}
                _ => reader.fault(
                    keys::FORWARD,
                    format!("{name:?} cannot be a header of HTTP; name others, or * alone"),
                ),
            }
        }
        Self::Named(names.iter().map(|it| it.to_ascii_lowercase()).collect())
    }

    pub(super) fn is_any(&self) -> bool {
        !matches!(self, Self::Named(names) if names.is_empty())
    }

    fn takes(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.iter().any(|name| name.eq_ignore_ascii_case(key)),
        }
    }

    /// Adds the record's headers to those that the request has of its own.
    pub(super) fn add(&self, record: &SinkRecord, headers: &mut HeaderMap) -> Result<(), String> {
        let forwarded = record.headers.iter().filter(|it| self.takes(&it.key));
        let mut added = HeaderMap::new();
        for header in forwarded {
            let (name, value) = parsed(header).ok_or_else(|| {
                format!(
                    "its header {:?} cannot be one of HTTP, see {}",
                    header.key,
                    keys::FORWARD
                )
            })?;
            if !RESERVED.contains(&name) && !headers.contains_key(&name) {
                added.append(name, value);
            }
        }
        headers.extend(added);
        Ok(())
    }
}

fn parsed(header: &Header) -> Option<(HeaderName, HeaderValue)> {
    let name = header.key.parse().ok()?;
    let bytes = match &header.value.value {
        Value::Null => Bytes::new(),
        _ => Format::Raw.body(&header.value).ok()?.0,
    };
    Some((name, HeaderValue::from_maybe_shared(bytes).ok()?))
}

/// What a repeated request is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Topic,
    TopicId,
}

/// `idempotency.key.from` and its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IdempotencyKey {
    from: From,
    pub(super) header: HeaderName,
}

impl IdempotencyKey {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let name = reader.text(keys::IDEMPOTENCY_HEADER);
        let header = match name.parse::<HeaderName>() {
            Ok(header) if !RESERVED.contains(&header) => Some(header),
            _ => {
                let message = format!("{name:?} cannot be the header of a key; choose another");
                reader.fault(keys::IDEMPOTENCY_HEADER, message);
                None
            }
        };
        let from = match reader.choice(keys::IDEMPOTENCY) {
            keys::BY_TOPIC => From::Topic,
            keys::BY_TOPIC_ID => From::TopicId,
            _ => return None,
        };
        Some(Self {
            from,
            header: header?,
        })
    }

    /// The key of a request with these records. Where a record came from never
    /// changes, also if a transform renames its topic.
    pub(super) fn of<'a>(&self, records: impl IntoIterator<Item = &'a SinkRecord>) -> String {
        let mut ids = records.into_iter().map(|record| self.id(record));
        let first = ids.next().unwrap_or_default();
        let (mut count, mut hash) = (1, fnv(FNV_START, &first));
        for id in ids {
            count += 1;
            hash = fnv(hash, &id);
        }
        match count {
            1 => first,
            _ => format!("{first}.{count}.{hash:016x}"),
        }
    }

    fn id(&self, record: &SinkRecord) -> String {
        let (partition, offset) = (&record.partition, record.offset);
        match self.from {
            From::Topic => format!("{}-{}-{offset}", partition.topic, partition.partition),
            From::TopicId => {
                let id = u128::from_be_bytes(partition.topic_id.0);
                format!("{id:032x}-{}-{offset}", partition.partition)
            }
        }
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a: the same in every process and for ever, unlike a map's hash.
fn fnv(hash: u64, text: &str) -> u64 {
    let bytes = text.bytes().chain([0]);
    bytes.fold(hash, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    })
}
