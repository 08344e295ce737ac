//! W3C's trace context of a request: what happens behind the endpoint then
//! lies in the record's trace.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use sluice_actors::record::SinkRecord;
use sluice_actors::trace_context::{TRACEPARENT, TRACESTATE, of_converted};

/// The span of the put that a record is in, in place of what the record says;
/// that itself if the record is not traced.
/// A request with several records has the span that their put has in common,
/// which links to those of its traced records.
pub(super) fn add<'a>(records: impl Iterator<Item = &'a SinkRecord>, headers: &mut HeaderMap) {
    let (mut count, mut first, mut traced) = (0, None, None);
    for record in records {
        count += 1;
        first = first.or(Some(record));
        traced = traced.or(record.life.as_deref());
    }
    match (traced, first) {
        (Some(life), _) if count > 1 => {
            let put = life.batch().unwrap_or_else(|| life.current());
            insert(put.to_string().as_bytes(), None, headers);
        }
        (Some(life), _) => {
            let state = life.parent.as_ref().and_then(|it| it.state.as_deref());
            insert(life.current().to_string().as_bytes(), state, headers);
        }
        (None, Some(record)) if count == 1 => pass_on(record, headers),
        _ => {}
    }
}

/// Who makes no span of its own passes on what it was told, unchanged.
fn pass_on(record: &SinkRecord, headers: &mut HeaderMap) {
    if let Some((parent, state)) = of_converted(&record.headers) {
        insert(parent, state, headers);
    }
}

/// A `tracestate` means nothing beside another's `traceparent`.
fn insert(parent: &[u8], state: Option<&[u8]>, headers: &mut HeaderMap) {
    const PARENT: HeaderName = HeaderName::from_static(TRACEPARENT);
    const STATE: HeaderName = HeaderName::from_static(TRACESTATE);
    let Ok(parent) = HeaderValue::from_bytes(parent) else {
        return;
    };
    headers.insert(PARENT, parent);
    headers.remove(STATE);
    if let Some(Ok(state)) = state.map(HeaderValue::from_bytes) {
        headers.insert(STATE, state);
    }
}

#[cfg(test)]
mod tests {
    use sluice_actors::life::Step;
    use sluice_actors::record::Header;
    use sluice_actors::testing::{life, records};
    use sluice_actors::trace_context::{Parent, TraceContext};
    use sluice_actors::value::{Datum, Value};

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn batch() -> TraceContext {
        TraceContext::parse(PARENT).unwrap().child(7)
    }

    /// The second one is traced.
    fn some_traced(batch: Option<TraceContext>) -> Vec<SinkRecord> {
        let mut records = records(0..3);
        let parent = Parent::read(PARENT.as_bytes(), Some("vendor=1".into()));
        let put = Step::Put { task: 0, batch };
        records[1].life = Some(life(&records[1].id(), parent, put));
        records
    }

    fn added(records: &[SinkRecord]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, HeaderValue::from_static(PARENT));
        headers.insert(TRACESTATE, HeaderValue::from_static("theirs=1"));
        add(records.iter(), &mut headers);
        headers
    }

    #[test]
    fn a_single_record_passes_the_span_of_its_put_on() {
        let records = some_traced(None);
        let headers = added(&records[1..2]);
        let put = records[1].trace_context().unwrap();
        assert_eq!(headers[TRACEPARENT], put.to_string());
        assert_eq!(headers[TRACESTATE], "vendor=1");
    }

    #[test]
    fn records_together_pass_the_span_on_that_they_have_in_common() {
        let headers = added(&some_traced(Some(batch())));
        assert_eq!(headers[TRACEPARENT], batch().to_string());
        assert!(!headers.contains_key(TRACESTATE), "of which of them?");
    }

    #[test]
    fn a_single_record_that_is_not_traced_passes_on_what_its_producer_said() {
        let header = |key: &str, value: &str| Header {
            key: key.into(),
            value: Datum::schemaless(Value::String(value.into())),
        };
        let said = PARENT.replace("-01", "-02");
        let mut records = records(0..2);
        records[0].headers = vec![header(TRACEPARENT, &said), header("x", "1")];
        let headers = added(&records[..1]);
        assert_eq!(headers[TRACEPARENT], said, "each flag of it");
        assert!(!headers.contains_key(TRACESTATE), "of another context");
        assert_eq!(headers.len(), 1, "and no other header");
        records[0].headers.push(header(TRACESTATE, "vendor=1"));
        assert_eq!(added(&records[..1])[TRACESTATE], "vendor=1");
        assert_eq!(added(&records)[TRACEPARENT], PARENT, "of which of them?");
    }

    #[test]
    fn a_record_that_is_not_traced_and_says_nothing_changes_nothing() {
        let headers = added(&some_traced(None)[..1]);
        assert_eq!(
            (&headers[TRACEPARENT], &headers[TRACESTATE]),
            (
                &HeaderValue::from_static(PARENT),
                &HeaderValue::from_static("theirs=1")
            )
        );
    }
}
