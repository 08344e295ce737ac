//! Payloads that are held for long, copied out of the responses that they are
//! slices of, or they would keep the whole of them in memory.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;

use crate::record::{RawRecord, SinkRecord};
use crate::value::{Datum, Value};

/// Adds what was copied to `bytes`.
pub(super) fn copy_record(record: &mut SinkRecord, bytes: &mut usize) {
    copy_datum(&mut record.key, bytes);
    copy_datum(&mut record.value, bytes);
    for header in &mut record.headers {
        copy_datum(&mut header.value, bytes);
    }
    let original = record.original.take();
    record.original = original.map(|raw| Arc::new(copy_raw(&raw, bytes)));
}

/// Adds what was copied to `bytes`.
pub(super) fn copy_raw(raw: &RawRecord, bytes: &mut usize) -> RawRecord {
    let mut raw = raw.clone();
    for part in [&mut raw.key, &mut raw.value].into_iter().flatten() {
        copy_bytes(part, bytes);
    }
    for header in &mut raw.headers {
        copy_bytes(&mut header.key, bytes);
        if let Some(value) = &mut header.value {
            copy_bytes(value, bytes);
        }
    }
    raw
}

fn copy_datum(datum: &mut Datum, bytes: &mut usize) {
    match &mut datum.value {
        Value::Bytes(payload) => copy_bytes(payload, bytes),
        Value::String(text) => {
            *bytes += text.len();
            *text = ByteString::from(text.to_string());
        }
        _ => {}
    }
}

fn copy_bytes(payload: &mut Bytes, bytes: &mut usize) {
    *bytes += payload.len();
    *payload = Bytes::copy_from_slice(payload);
}
