//! W3C's trace context of a request: what happens behind the endpoint then
//! lies in the record's trace.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use sluice_actors::life::Life;
use sluice_actors::record::SinkRecord;
use sluice_actors::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};

/// The span of the put that a record is in, in place of what the record says.
/// A request with several records has the span that their put has in common,
/// which links to those of its traced records.
pub(super) fn add<'a>(records: impl Iterator<Item = &'a SinkRecord>, headers: &mut HeaderMap) {
    let (mut count, mut traced) = (0, None);
    for record in records {
        count += 1;
        traced = traced.or(record.life.as_deref());
    }
    let Some(life) = traced else {
        return;
    };
    if count > 1 {
        let put = life.batch().unwrap_or_else(|| life.current());
        return insert(put, None, headers);
    }
    insert(life.current(), state(life), headers);
}

fn state(life: &Life) -> Option<HeaderValue> {
    let state = life.parent.as_ref()?.state.as_ref()?;
    HeaderValue::from_bytes(state).ok()
}

fn insert(put: TraceContext, state: Option<HeaderValue>, headers: &mut HeaderMap) {
    const PARENT: HeaderName = HeaderName::from_static(TRACEPARENT);
    const STATE: HeaderName = HeaderName::from_static(TRACESTATE);
    headers.remove(STATE);
    if let Some(state) = state {
        headers.insert(STATE, state);
    }
    if let Ok(parent) = HeaderValue::try_from(put.to_string()) {
        headers.insert(PARENT, parent);
    }
}

#[cfg(test)]
mod tests {
    use sluice_actors::life::Step;
    use sluice_actors::testing::{life, records};
    use sluice_actors::trace_context::Parent;

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
    fn a_record_that_is_not_traced_changes_nothing() {
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
