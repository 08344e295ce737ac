//! Variables that OpenTelemetry defines and nothing here reads: they are told,
//! so that nobody waits for what they would do elsewhere.

const NO_LOGS: &str = "logs go to standard error, not to a collector";
const NO_LIMITS: &str = "spans here are small by themselves";
const NOT_BUILT_IN: &str = "only otlp is built in as an exporter";
const NO_FILE: &str = "OpenTelemetry is set up by variables and keys of the worker only";
const PROPAGATORS: &str = "OTEL_PROPAGATORS";
/// What is read from records and passed on, and what needs nothing here.
const PROPAGATED: [&str; 2] = ["tracecontext", "baggage"];

/// By name, or by how names begin, with `_` at the end; the reason completes
/// "has no effect here, because ...".
const UNREAD: &[(&str, &str)] = &[
    ("OTEL_LOGS_EXPORTER", NO_LOGS),
    ("OTEL_BLRP_", NO_LOGS),
    ("OTEL_EXPORTER_OTLP_LOGS_", NO_LOGS),
    ("OTEL_LOGRECORD_", NO_LOGS),
    ("OTEL_LOG_LEVEL", "log.level says what is logged"),
    ("OTEL_ATTRIBUTE_", NO_LIMITS),
    ("OTEL_SPAN_", NO_LIMITS),
    ("OTEL_EVENT_", NO_LIMITS),
    ("OTEL_LINK_", NO_LIMITS),
    ("OTEL_METRICS_EXEMPLAR_FILTER", "metrics have no exemplars"),
    (
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
        "histograms have the buckets that /metrics tells",
    ),
    (
        "OTEL_EXPORTER_OTLP_INSECURE",
        "http:// or https:// in the endpoint says whether there is TLS",
    ),
    (
        "OTEL_EXPORTER_OTLP_TRACES_INSECURE",
        "http:// or https:// in the endpoint says whether there is TLS",
    ),
    (
        "OTEL_EXPORTER_OTLP_METRICS_INSECURE",
        "http:// or https:// in the endpoint says whether there is TLS",
    ),
    (
        "OTEL_EXPORTER_PROMETHEUS_",
        "/metrics is where listeners says",
    ),
    ("OTEL_EXPORTER_ZIPKIN_", NOT_BUILT_IN),
    ("OTEL_EXPORTER_JAEGER_", NOT_BUILT_IN),
    ("OTEL_CONFIG_FILE", NO_FILE),
    ("OTEL_EXPERIMENTAL_CONFIG_FILE", NO_FILE),
    (
        "OTEL_ENTITIES",
        "OTEL_RESOURCE_ATTRIBUTES says who it is that tells",
    ),
];

/// Why it has no effect here; `None`: it is not OpenTelemetry's, or is what is
/// done anyway.
pub(super) fn reason(name: &str, value: &str) -> Option<String> {
    if name == PROPAGATORS {
        return propagators(value);
    }
    let mut unread = UNREAD.iter();
    let (_, reason) = unread
        .find(|(known, _)| *known == name || (known.ends_with('_') && name.starts_with(known)))?;
    Some((*reason).to_owned())
}

fn propagators(value: &str) -> Option<String> {
    let named = value.split(',').map(str::trim);
    let mut others = named.filter(|it| !it.is_empty() && !PROPAGATED.contains(it));
    let other = others.next()?;
    Some(format!(
        "{other} is not built in: traces are taken from traceparent headers and passed on in them"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_do_something_elsewhere_is_told_and_nothing_else() {
        for (name, value, word) in [
            ("OTEL_PROPAGATORS", "tracecontext, b3", "b3 is not built in"),
            ("OTEL_PROPAGATORS", "none", "none is not built in"),
            ("OTEL_LOGS_EXPORTER", "otlp", "standard error"),
            ("OTEL_BLRP_MAX_QUEUE_SIZE", "1", "standard error"),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "x", "standard error"),
            ("OTEL_LOG_LEVEL", "debug", "log.level"),
            ("OTEL_EXPORTER_OTLP_INSECURE", "true", "http://"),
        ] {
            let reason = reason(name, value).unwrap();
            assert!(reason.contains(word), "{name}: {reason}");
        }
        for (name, value) in [
            ("OTEL_PROPAGATORS", "tracecontext,baggage"),
            ("OTEL_PROPAGATORS", "tracecontext"),
            ("OTEL_PYTHON_EXCLUDED_URLS", "x"),
            ("OTEL_LOG_LEVELS", "x"),
        ] {
            assert_eq!(reason(name, value), None, "{name}");
        }
    }
}
