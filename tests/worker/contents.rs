//! What a record holds is shown nowhere, whoever repeats it, unless
//! `errors.log.include.messages` wants it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::collector::Collector;
use sluice_test_support::consume::read_topic;
use sluice_test_support::produce::{NewRecord, ids, produce};
use sluice_test_support::receiver::{Arrival, Receiver, Reply};
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::api::Api;
use crate::history::{log, put_aside};
use crate::secrets::{accepted, told};
use crate::stage::{BINARY, Stage};
use crate::surfaces::{METRICS, SPANS, Surfaces};

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 20;

const KEY: &str = "hush-key-1";
const VALUE: &str = "hush \"value\" 4111/1111";
const HEADER: &str = "hush-header-3";
const CONTENTS: [&str; 3] = [KEY, VALUE, HEADER];

const PASSWORD: &str = "secret+pass/word";
/// What an endpoint says beside what it repeats.
const SAID: &str = "said-by-the-endpoint";

/// What the collector knows the worker by.
const COLLECTOR_KEY: &str = "x-api-key: known-to-the-collector";

const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";
const INTEGER: &str = "org.apache.kafka.connect.converters.IntegerConverter";
const INSERT_FIELD: &str = "org.apache.kafka.connect.transforms.InsertField$Value";

/// No key, value or header is anything but a text.
fn records() -> impl Iterator<Item = NewRecord> + Send + 'static {
    ids(RECORDS).map(|id| {
        let record = NewRecord::value(format!("{VALUE} {id}")).key(format!("{KEY}-{id}"));
        record.header("X-Note", HEADER).partition(0)
    })
}

async fn set(stem: &str) -> Result<Stage> {
    let stage = Stage::set(stem, 1).await?;
    produce(stage.kafka.bootstrap_servers(), &stage.name, records()).await?;
    Ok(stage)
}

/// All of the request, as an answer of that status.
fn echo(status: u16, arrival: &Arrival) -> Reply {
    let headers = ["x-note", "authorization"].map(|name| arrival.header(name));
    let headers = headers.map(Option::unwrap_or_default).join(" ");
    let body = format!("{SAID}: {} {headers} {}", arrival.path, arrival.text());
    Reply::body(status, body)
}

/// Fails in each way that there is.
fn echoing(arrival: &Arrival) -> Reply {
    let is_of = |id| arrival.text().contains(id);
    match arrival.attempt {
        _ if arrival.path.starts_with("/shut") => echo(401, arrival),
        _ if is_of("id-000007") => echo(400, arrival),
        0 if is_of("id-000009") => echo(500, arrival),
        0 if is_of("id-000011") => echo(401, arrival),
        0 if is_of("id-000013") => echo(503, arrival),
        _ => Reply::ok(),
    }
}

fn letters_of(stage: &Stage) -> String {
    format!("dlq.{}", stage.name)
}

/// A connector with these settings beside the usual ones.
fn connector(stage: &Stage, class: &str, kind: &str, settings: &Value) -> (String, Value) {
    let name = format!("{}-{kind}", stage.name);
    let mut connector = stage.connector(class, 2);
    connector["name"] = json!(name);
    connector["errors.log.enable"] = json!("true");
    for (key, value) in settings.as_object().into_iter().flatten() {
        connector[key] = value.clone();
    }
    (name, connector)
}

/// One that sends all that a record has.
fn http(stage: &Stage, receiver: &Receiver, kind: &str, settings: &Value) -> (String, Value) {
    let (name, mut connector) = connector(stage, "http", kind, settings);
    connector["http.url"] = json!(receiver.url(&format!("/{kind}/${{key}}")));
    connector["http.headers.forward"] = json!("*");
    connector["http.authorization.type"] = json!("basic");
    connector["connection.user"] = json!("alice");
    connector["connection.password"] = json!(PASSWORD);
    (name, connector)
}

fn to_letters(stage: &Stage) -> Value {
    json!({
        "errors.tolerance": "all",
        "errors.deadletterqueue.mode": "sluice",
        "errors.deadletterqueue.topic.name": letters_of(stage),
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    })
}

/// All that it does is traced.
fn worker(
    stage: &Stage,
    level: &str,
    connectors: &[(String, Value)],
    collector: &Collector,
) -> Result<Worker> {
    let mut options = WorkerOptions::new(BINARY)
        .property("bootstrap.servers", stage.kafka.bootstrap_servers())
        .property("log.format", "json")
        .property("log.level", level)
        .property("status.log.interval.ms", "50")
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())
        .environment(
            "OTEL_EXPORTER_OTLP_HEADERS",
            &COLLECTOR_KEY.replace(": ", "="),
        )
        .environment("OTEL_TRACES_SAMPLER", "always_on")
        .environment("OTEL_METRIC_EXPORT_INTERVAL", "500");
    for (name, connector) in connectors {
        options = options.connector(name, connector);
    }
    Worker::start(&options)
}

/// Why dead letters were written.
async fn causes_of_letters(stage: &Stage) -> Result<Vec<String>> {
    let letters = read_topic(stage.kafka.bootstrap_servers(), &letters_of(stage)).await?;
    let cause = |header: &str| format!("__connect.errors.exception.{header}");
    let causes = letters.iter().flat_map(|letter| {
        let causes = ["message", "stacktrace"].map(|it| letter.header(&cause(it)));
        causes.map(Option::unwrap_or_default)
    });
    Ok(causes.collect())
}

fn rejected(count: usize) -> impl Fn(&Value) -> bool {
    move |status| status["sluice"]["totals"]["rejected"] == count
}

fn failed(status: &Value) -> bool {
    status["connector"]["state"] == "FAILED"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_repeats_the_record_makes_no_output_show_it() -> Result<()> {
    let stage = set("echoed").await?;
    let receiver = Receiver::start(echoing).await?;
    let http = |kind, settings| http(&stage, &receiver, kind, settings);
    let connectors = [
        http("quiet", &to_letters(&stage)),
        http("failing", &json!({})),
        http("shut", &json!({})),
    ];
    let [quiet, failing, shut] = connectors.each_ref().map(|(name, _)| name.as_str());
    let collector = Collector::start().await?;
    let worker = worker(&stage, "trace", &connectors, &collector)?;
    let api = Api::of(&worker).await?;
    told(&api, quiet, accepted(RECORDS - 1)).await?;
    told(&api, quiet, rejected(1)).await?;
    told(&api, failing, failed).await?;
    let refused = |status: &Value| status.to_string().contains("answered 401");
    let waiting = told(&api, shut, refused).await?;
    let mut surfaces = Surfaces::of(&worker, &[quiet, failing, shut], &[]).await?;
    // A task that tries again has no cause for that while.
    surfaces.add("a task that waits", waiting.to_string());
    worker.stop(MINUTE).await?;
    surfaces.printed(&worker)?;
    surfaces.exported(&collector, COLLECTOR_KEY)?;

    surfaces.hide(&CONTENTS)?;
    surfaces.hide(&[SAID, PASSWORD])?;
    // It is said what there is, and how to see it.
    let status = format!("GET /connectors/{failing}/status");
    let places = [
        status.as_str(),
        "a task that waits",
        "standard error",
        SPANS,
    ];
    for clue in [
        " bytes that errors.log.include.messages=true shows",
        "answered 40",
    ] {
        surfaces.show(clue, &places)?;
    }
    surfaces.show(failing, &[SPANS, METRICS])?;
    // Where the record itself goes, so does what was said of it.
    let letters = causes_of_letters(&stage).await?;
    ensure!(letters.len() == 2, "{letters:?}");
    for cause in &letters {
        let cause = Surfaces::from_text("a letter", cause.clone());
        for said in [SAID, KEY, VALUE, HEADER] {
            cause.show(said, &["a letter"])?;
        }
        cause.hide(&[PASSWORD])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_endpoint_repeats_is_logged_where_messages_are_wanted_but_no_secret() -> Result<()>
{
    let stage = set("quoted").await?;
    let receiver = Receiver::start(echoing).await?;
    let mut settings = to_letters(&stage);
    settings["errors.log.include.messages"] = json!("true");
    let connectors = [http(&stage, &receiver, "open", &settings)];
    let name = &connectors[0].0;
    let collector = Collector::start().await?;
    let worker = worker(&stage, "debug", &connectors, &collector)?;
    let api = Api::of(&worker).await?;
    told(&api, name, accepted(RECORDS - 1)).await?;
    told(&api, name, rejected(1)).await?;
    let mut surfaces = Surfaces::of(&worker, &[name], &[]).await?;
    worker.stop(MINUTE).await?;
    surfaces.printed(&worker)?;
    surfaces.exported(&collector, COLLECTOR_KEY)?;

    surfaces.hide(&[PASSWORD])?;
    let log = log(&worker)?;
    let error = put_aside(&log)?["error"].as_str().context("no cause")?;
    let line = Surfaces::from_text("the line", error.to_owned());
    for said in [SAID, KEY, VALUE, HEADER] {
        line.show(said, &["the line"])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_converted_is_shown_by_no_output() -> Result<()> {
    let stage = set("unread").await?;
    let kinds = [
        ("key", json!({"key.converter": INTEGER})),
        (
            "value",
            json!({"value.converter": JSON, "value.converter.schemas.enable": "false"}),
        ),
        ("envelope", json!({"value.converter": JSON})),
        ("header", json!({"header.converter": JSON})),
        (
            "transform",
            json!({
                "transforms": "stamp",
                "transforms.stamp.type": INSERT_FIELD,
                "transforms.stamp.offset.field": "offset",
            }),
        ),
    ];
    let tolerant = |(kind, settings): &(&str, Value)| {
        let mut settings = settings.clone();
        settings["errors.tolerance"] = json!("all");
        // Not even where messages are wanted: these causes quote nothing.
        settings["errors.log.include.messages"] = json!("true");
        connector(&stage, "null", kind, &settings)
    };
    let strict = |(kind, settings): &(&str, Value)| {
        connector(&stage, "null", &format!("{kind}-fails"), settings)
    };
    let put_aside: Vec<_> = kinds.iter().map(tolerant).collect();
    let fail: Vec<_> = kinds.iter().map(strict).collect();
    let all = [&put_aside[..], &fail].concat();
    let collector = Collector::start().await?;
    let worker = worker(&stage, "trace", &all, &collector)?;
    let api = Api::of(&worker).await?;
    for (name, _) in &put_aside {
        told(&api, name, rejected(RECORDS)).await?;
    }
    for (name, _) in &fail {
        told(&api, name, failed).await?;
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let mut surfaces = Surfaces::of(&worker, &names, &[]).await?;
    worker.stop(MINUTE).await?;
    surfaces.printed(&worker)?;
    surfaces.exported(&collector, COLLECTOR_KEY)?;

    surfaces.hide(&CONTENTS)?;
    for stage in [
        "KEY_CONVERTER",
        "VALUE_CONVERTER",
        "HEADER_CONVERTER",
        "TRANSFORMATION",
    ] {
        surfaces.show(stage, &["standard error", "sluice status", SPANS])?;
    }
    Ok(())
}
