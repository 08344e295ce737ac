//! W3C's trace context: which trace a span is in, and which span it is.

use std::fmt;
use std::str;

use bytes::Bytes;

use crate::record::{Header, RawHeader};
use crate::value::Value;

/// Names of W3C's headers, in HTTP and in Kafka.
pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

const SAMPLED: u8 = 1;
/// `00-` trace id `-` span id `-` flags.
const LENGTH: usize = 55;

/// A span of a trace, as a `traceparent` header has it. No id is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    pub trace_id: u128,
    pub span_id: u64,
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`; `None` if it is not one.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let is_known = header.len() == LENGTH && header.starts_with("00-");
        // A later version may say more behind what this one says.
        let is_later = header.len() > LENGTH
            && header.as_bytes()[LENGTH] == b'-'
            && !header.starts_with("00-");
        let mut parts = header.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = hex(parts.next()?, 16)?;
        let flags = hex(parts.next()?, 2)?;
        let is_valid = (is_known || is_later) && version != 0xff && trace_id != 0 && span_id != 0;
        is_valid.then_some(Self {
            trace_id,
            span_id: span_id as u64,
            is_sampled: flags as u8 & SAMPLED != 0,
        })
    }

    /// Another span of the same trace, which is exported.
    #[must_use]
    pub const fn child(&self, span_id: u64) -> Self {
        Self {
            trace_id: self.trace_id,
            span_id,
            is_sampled: true,
        }
    }
}

/// As a `traceparent` header.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled) * SAMPLED;
        let (trace_id, span_id) = (self.trace_id, self.span_id);
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
    }
}

/// So many lower-case digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_right = text.len() == digits && text.bytes().all(is_digit);
    is_right.then(|| u128::from_str_radix(text, 16).ok())?
}

/// What a producer says of the span that a record was sent in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    pub context: TraceContext,
    /// `tracestate`: passed on as it is.
    pub state: Option<Bytes>,
}

impl Parent {
    /// Of a record as it lies in the log.
    #[must_use]
    pub fn of(headers: &[RawHeader]) -> Option<Self> {
        if headers.is_empty() {
            return None;
        }
        let value = |key: &str| {
            let header = headers.iter().find(|it| it.key == key)?;
            header.value.as_ref()
        };
        Self::read(value(TRACEPARENT)?, value(TRACESTATE).cloned())
    }

    /// Not a slice of what it came in, which would be kept with it.
    #[must_use]
    pub(crate) fn copied(self) -> Self {
        let copy = |state: Bytes| Bytes::copy_from_slice(&state);
        Self {
            state: self.state.map(copy),
            ..self
        }
    }

    /// Of what these two headers say.
    #[must_use]
    pub fn read(traceparent: &[u8], state: Option<Bytes>) -> Option<Self> {
        let context = TraceContext::parse(str::from_utf8(traceparent).ok()?)?;
        Some(Self { context, state })
    }
}

/// Trace id and span id as log lines have them, if they are about a record that
/// is traced.
pub(crate) fn log_ids(trace: Option<TraceContext>) -> (Option<String>, Option<String>) {
    let trace_id = trace.map(|it| format!("{:032x}", it.trace_id));
    (trace_id, trace.map(|it| format!("{:016x}", it.span_id)))
}

/// What the producer's two headers say, letter by letter, of a record as its
/// converters and transforms have left it; `None` without a valid
/// `traceparent`.
#[must_use]
pub fn of_converted(headers: &[Header]) -> Option<(&[u8], Option<&[u8]>)> {
    let value = |key: &str| -> Option<&[u8]> {
        let header = headers.iter().find(|it| &*it.key == key)?;
        match &header.value.value {
            Value::Bytes(bytes) => Some(bytes),
            Value::String(text) => Some(text.as_bytes()),
            _ => None,
        }
    };
    let traceparent = value(TRACEPARENT)?;
    TraceContext::parse(str::from_utf8(traceparent).ok()?)?;
    Some((traceparent, value(TRACESTATE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Datum;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn header(key: &'static str, value: &str) -> RawHeader {
        RawHeader {
            key: Bytes::from_static(key.as_bytes()),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
        }
    }

    #[test]
    fn a_context_is_written_as_it_was_read() {
        let context = TraceContext::parse(HEADER).unwrap();
        assert_eq!(context.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(context.span_id, 0x00f0_67aa_0ba9_02b7);
        assert!(context.is_sampled);
        assert_eq!(context.to_string(), HEADER);
        let child = context.child(0xab).to_string();
        assert_eq!(
            child,
            HEADER.replace("00f067aa0ba902b7", "00000000000000ab")
        );
    }

    #[test]
    fn flags_tell_whether_it_is_sampled() {
        let with = |flags: &str| TraceContext::parse(&HEADER.replace("-01", flags)).unwrap();
        assert!(!with("-00").is_sampled);
        assert!(with("-03").is_sampled, "others are ignored");
        assert!(with("-00").to_string().ends_with("-00"));
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = HEADER.replacen("00-", "cc-", 1);
        assert!(TraceContext::parse(&later).is_none(), "no end of version 0");
        assert!(TraceContext::parse(&format!("{later}-what")).is_some());
        assert!(TraceContext::parse(&format!("{HEADER}-what")).is_none());
    }

    #[test]
    fn what_is_no_context_is_ignored() {
        for wrong in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e47360-0f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-é",
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_parent_is_read_from_a_records_headers() {
        let headers = [
            header("other", "x"),
            header(TRACESTATE, "vendor=1"),
            header(TRACEPARENT, HEADER),
        ];
        let parent = Parent::of(&headers).unwrap();
        assert_eq!(parent.context.to_string(), HEADER);
        assert_eq!(parent.state.as_deref(), Some(&b"vendor=1"[..]));
        assert_eq!(Parent::of(&headers[..2]), None);
        assert_eq!(Parent::of(&[header(TRACEPARENT, "mine")]), None);
    }

    #[test]
    fn what_a_producer_said_is_found_in_converted_headers_letter_by_letter() {
        let header = |key: &str, value| Header {
            key: key.into(),
            value: Datum::schemaless(value),
        };
        let random = HEADER.replace("-01", "-03");
        let state = header(TRACESTATE, Value::String("a=1".into()));
        for value in [
            Value::String(random.as_str().into()),
            Value::Bytes(random.clone().into()),
        ] {
            let headers = [header(TRACEPARENT, value), state.clone()];
            let said = of_converted(&headers).unwrap();
            assert_eq!(said, (random.as_bytes(), Some(&b"a=1"[..])));
        }
        assert_eq!(of_converted(&[state]), None);
        for invalid in [Value::Null, Value::String("none".into())] {
            assert_eq!(of_converted(&[header(TRACEPARENT, invalid)]), None);
        }
    }
}
