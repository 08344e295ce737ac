//! Traces and metrics as a collector gets them, by the official protobufs.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{self as measured, metric, number_data_point};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use prost::Message;

/// A span as it came; ids as hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub service: String,
    pub name: String,
    pub trace_id: String,
    pub span_id: String,
    /// Empty if it has none.
    pub parent: String,
    pub attributes: BTreeMap<String, String>,
    pub events: Vec<String>,
    /// Span ids.
    pub links: Vec<String>,
    /// Nanoseconds since 1970.
    pub began: u64,
    pub ended: u64,
}

impl Span {
    /// An attribute; empty if it is not there.
    #[must_use]
    pub fn said(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }

    /// As a `traceparent` header.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace_id, self.span_id)
    }
}

/// The value of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub service: String,
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub value: f64,
    /// It only grows, and tells all that was counted.
    pub is_total: bool,
    /// It is a part of a histogram.
    pub is_of_histogram: bool,
}

/// The spans of all these exports, by the time when each began.
#[must_use]
pub fn spans_of(exports: &[ExportTraceServiceRequest]) -> Vec<Span> {
    let resources = exports.iter().flat_map(|it| &it.resource_spans);
    let mut spans: Vec<Span> = resources
        .flat_map(|resource| {
            let service = service_of(resource.resource.as_ref());
            let scopes = resource.scope_spans.iter().flat_map(|it| &it.spans);
            scopes.map(move |it| span(it, &service))
        })
        .collect();
    spans.sort_by_key(|span| (span.began, span.ended));
    spans
}

/// The series of one push.
#[must_use]
pub fn series_of(push: &ExportMetricsServiceRequest) -> Vec<Series> {
    let resources = push.resource_metrics.iter();
    let series = resources.flat_map(|resource| {
        let service = service_of(resource.resource.as_ref());
        let scopes = resource.scope_metrics.iter().flat_map(|it| &it.metrics);
        scopes.flat_map(move |it| series_of_metric(it, &service))
    });
    series.collect()
}

/// The spans in a file of a collector's file exporter.
///
/// # Errors
/// If it ends within a message, or holds others.
pub fn spans_in(file: &[u8]) -> Result<Vec<Span>> {
    Ok(spans_of(&read_frames(file)?))
}

/// The newest metrics in a file of a collector's file exporter.
///
/// # Errors
/// If it ends within a message, or holds others, or none.
pub fn metrics_in(file: &[u8]) -> Result<Vec<Series>> {
    let pushes = read_frames(file)?;
    Ok(series_of(pushes.last().context("no metrics were written")?))
}

/// Messages, each behind its length in four bytes.
fn read_frames<M: Message + Default>(mut file: &[u8]) -> Result<Vec<M>> {
    let mut messages = Vec::new();
    while !file.is_empty() {
        let (length, rest) = file.split_first_chunk().context("a length is cut off")?;
        let length = u32::from_be_bytes(*length) as usize;
        let (message, rest) = rest
            .split_at_checked(length)
            .context("a message is cut off")?;
        messages.push(M::decode(message)?);
        file = rest;
    }
    Ok(messages)
}

fn service_of(resource: Option<&Resource>) -> String {
    let of = resource.map_or(&[][..], |it| &it.attributes);
    attributes(of).remove("service.name").unwrap_or_default()
}

fn series_of_metric(metric: &measured::Metric, service: &str) -> Vec<Series> {
    let cumulative = measured::AggregationTemporality::Cumulative as i32;
    let (points, is_total) = match &metric.data {
        Some(metric::Data::Gauge(gauge)) => (&gauge.data_points[..], false),
        Some(metric::Data::Sum(sum)) => (
            &sum.data_points[..],
            sum.is_monotonic && sum.aggregation_temporality == cumulative,
        ),
        Some(metric::Data::Histogram(histogram)) => {
            let is_total = histogram.aggregation_temporality == cumulative;
            let points = histogram.data_points.iter();
            let parts = points.flat_map(|it| parts_of(&metric.name, it));
            let of_service = |it: Series| Series {
                service: service.to_owned(),
                is_total,
                ..it
            };
            return parts.map(of_service).collect();
        }
        _ => (&[][..], false),
    };
    let points = points.iter().map(|point| Series {
        service: service.to_owned(),
        name: metric.name.clone(),
        attributes: attributes(&point.attributes),
        value: match point.value {
            Some(number_data_point::Value::AsDouble(value)) => value,
            Some(number_data_point::Value::AsInt(value)) => value as f64,
            None => f64::NAN,
        },
        is_total,
        is_of_histogram: false,
    });
    points.collect()
}

/// A histogram's series, as Prometheus has them: each bucket with all that lies
/// below its bound.
fn parts_of(name: &str, point: &measured::HistogramDataPoint) -> Vec<Series> {
    let part = |suffix: &str, value: f64| Series {
        service: String::new(),
        name: format!("{name}_{suffix}"),
        attributes: attributes(&point.attributes),
        value,
        is_total: false,
        is_of_histogram: true,
    };
    let bounds = point.explicit_bounds.iter().map(f64::to_string);
    let bounds = bounds.chain(["+Inf".to_owned()]);
    let mut below = 0;
    let buckets = bounds.zip(&point.bucket_counts).map(|(bound, count)| {
        below += count;
        let mut bucket = part("bucket", below as f64);
        bucket.attributes.insert("le".to_owned(), bound);
        bucket
    });
    let mut parts: Vec<_> = buckets.collect();
    parts.push(part("count", point.count as f64));
    parts.extend(point.sum.map(|sum| part("sum", sum)));
    parts
}

fn span(span: &otlp::Span, service: &str) -> Span {
    Span {
        service: service.to_owned(),
        name: span.name.clone(),
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        attributes: attributes(&span.attributes),
        events: span.events.iter().map(|it| it.name.clone()).collect(),
        links: span.links.iter().map(|it| hex(&it.span_id)).collect(),
        began: span.start_time_unix_nano,
        ended: span.end_time_unix_nano,
    }
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let attributes = attributes.iter();
    attributes
        .map(|it| (it.key.clone(), text(it.value.as_ref())))
        .collect()
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|it| it.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(other) => format!("{other:?}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_one_after_the_other_and_a_cut_one_is_told() {
        let sent = [1_u64, 2].map(|began| otlp::Span {
            start_time_unix_nano: began,
            ..otlp::Span::default()
        });
        let mut file = Vec::new();
        for span in &sent {
            let message = span.encode_to_vec();
            file.extend(
                u32::try_from(message.len())
                    .unwrap_or_default()
                    .to_be_bytes(),
            );
            file.extend(message);
        }
        assert_eq!(read_frames::<otlp::Span>(&file).unwrap(), sent);
        for end in [2, file.len() - 1] {
            let cut = read_frames::<otlp::Span>(&file[..end]).unwrap_err();
            assert!(cut.to_string().contains("cut off"), "{cut}");
        }
    }
}
