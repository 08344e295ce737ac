//! No secret is shown anywhere, whatever goes wrong.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::collector::Collector;
use sluice_test_support::consume::read_topic;
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::receiver::{Arrival, Receiver, Reply};
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::api::Api;
use crate::stage::{BINARY, Stage};
use crate::surfaces::{METRICS, SPANS, Surfaces, VALIDATE};

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 50;
const STRING: &str = "org.apache.kafka.connect.storage.StringConverter";

/// What the http connectors are given. Some have signs that forms and JSON
/// write otherwise.
const HOOK: &str = "hush-hook-0123456789";
const CODE: &str = "hush code/1";
const PASSWORD: &str = "hush&password \"2\"";
const BEARER: &str = "hush-bearer-3";
const API_KEY: &str = "hush-api-key-4";
const CLIENT_SECRET: &str = "hush+client/secret?5";
const SIGNATURE: &str = "hush-signature-6";
const ISSUED: &str = "hush-issued-7";
const HTTP_SECRETS: [&str; 8] = [
    HOOK,
    CODE,
    PASSWORD,
    BEARER,
    API_KEY,
    CLIENT_SECRET,
    SIGNATURE,
    ISSUED,
];

/// No secret: what an endpoint says beside what it repeats, and the name of a
/// client.
const SAID: &str = "said-by-the-endpoint";
const CLIENT: &str = "no-secret & shown";

/// What the collector knows the worker by; shown to nobody else.
const COLLECTOR_KEY: &str = "hush/collector key 8";

const LETTERS: &str = "headers of dead letters";
const PARKED: &str = "headers of parked records";

/// What an endpoint takes for other records, while one keeps failing beside
/// them.
const LATENCY: Duration = Duration::from_millis(100);

/// All that came, as an endpoint with a talkative error repeats it.
fn repeated(arrival: &Arrival) -> String {
    let headers = ["authorization", "x-api-key"].map(|name| arrival.header(name));
    let headers = headers.map(Option::unwrap_or_default).join(" ");
    format!("{SAID}: {} {headers} {}", arrival.path, arrival.text())
}

/// The same as JSON, as those write it who put a backslash before each slash.
fn repeated_in_json(arrival: &Arrival) -> String {
    let body = json!({"error": repeated(arrival)});
    body.to_string().replace('/', "\\/")
}

/// Token endpoints, and others that fail in each way that there is.
fn talkative(arrival: &Arrival) -> Reply {
    let (path, text) = (&arrival.path, arrival.text());
    let failure = |status| Reply::body(status, repeated(arrival));
    if path.starts_with("/token") {
        return Reply::body(
            200,
            json!({"access_token": ISSUED, "expires_in": 3600}).to_string(),
        );
    }
    match (arrival.attempt, text.contains("id-000007")) {
        _ if path.starts_with("/no-token") => failure(401),
        // Parked, as others are taken meanwhile.
        (0..=2, true) if path.starts_with("/lot") => failure(500),
        _ if path.starts_with("/lot") => Reply::After(LATENCY, Box::new(Reply::ok())),
        // A connector that fails, or puts these aside.
        (_, true) if path.starts_with("/bearer") => Reply::body(400, repeated_in_json(arrival)),
        (_, true) if path.starts_with("/basic") => failure(400),
        _ if path.starts_with("/basic") && text.contains("id-000009") => {
            Reply::body(400, repeated_in_json(arrival))
        }
        (0, true) => failure(503),
        (1, true) => failure(401),
        (2, true) => failure(500),
        _ => Reply::ok(),
    }
}

/// An http connector to `/KIND/...`, with a webhook's address.
fn hook(stage: &Stage, receiver: &Receiver, kind: &str, settings: &Value) -> (String, Value) {
    let name = format!("{}-{kind}", stage.name);
    let mut connector = stage.connector("http", 2);
    connector["name"] = json!(name);
    connector["http.url"] = json!(receiver.url(&format!("/{kind}/{HOOK}?code={CODE}")));
    connector["http.headers.additional"] = json!(format!("X-Api-Key: {API_KEY}"));
    connector["consumer.override.client.id"] = json!(CLIENT);
    // What quotes a record shows, or there would be little to hide secrets in.
    connector["errors.log.include.messages"] = json!("true");
    for (key, value) in settings.as_object().into_iter().flatten() {
        connector[key] = value.clone();
    }
    (name, connector)
}

fn letters_of(stage: &Stage) -> String {
    format!("dlq.{}", stage.name)
}

/// What dead letters, or parked records, tell beside what they were.
async fn headers_in(stage: &Stage, topic: &str) -> Result<String> {
    let records = read_topic(stage.kafka.bootstrap_servers(), topic).await?;
    let headers = records.into_iter().flat_map(|record| record.headers);
    let told = headers.map(|(name, value)| {
        let value = value.unwrap_or_default();
        format!("{name}: {}\n", String::from_utf8_lossy(&value))
    });
    Ok(told.collect())
}

/// Credentials of each kind.
fn hooks(stage: &Stage, receiver: &Receiver) -> [(String, Value); 5] {
    let hook = |kind, settings: Value| hook(stage, receiver, kind, &settings);
    let token_url = |path: &str| receiver.url(&format!("{path}?sig={SIGNATURE}"));
    [
        hook(
            "basic",
            json!({
                "http.authorization.type": "basic",
                "connection.user": "alice",
                "connection.password": PASSWORD,
                "errors.tolerance": "all",
                "errors.log.enable": "true",
                "errors.deadletterqueue.mode": "sluice",
                "errors.deadletterqueue.topic.name": letters_of(stage),
                "errors.deadletterqueue.topic.replication.factor": "1",
                "errors.deadletterqueue.context.headers.enable": "true",
            }),
        ),
        hook(
            "bearer",
            json!({
                "http.authorization.type": "static",
                "http.headers.authorization": format!("Bearer {BEARER}"),
            }),
        ),
        hook(
            "oauth",
            json!({
                "http.authorization.type": "oauth2",
                "oauth2.access.token.url": token_url("/token"),
                "oauth2.client.id": "sluice",
                "oauth2.client.secret": CLIENT_SECRET,
            }),
        ),
        hook(
            "form",
            json!({
                "http.authorization.type": "oauth2",
                "oauth2.access.token.url": token_url("/no-token"),
                "oauth2.client.id": "sluice",
                "oauth2.client.secret": CLIENT_SECRET,
                "oauth2.client.authorization.mode": "url",
            }),
        ),
        hook(
            "lot",
            json!({
                "http.authorization.type": "static",
                "http.headers.authorization": format!("Bearer {BEARER}"),
                "max.put.records": "1",
                "errors.retry.delay.max.ms": "100",
                "share.park.after.ms": "0",
                "share.park.backoff.ms": "500",
                "share.park.topic.replication.factor": "1",
            }),
        ),
    ]
}

/// Waits until a connector's status is as wanted; in REST, where causes are.
pub async fn told(api: &Api, name: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    let path = format!("/connectors/{name}/status");
    let wanted = |code, body: &Value| code == StatusCode::OK && wanted(body);
    api.wait_for(&path, MINUTE, wanted).await
}

pub fn accepted(count: usize) -> impl Fn(&Value) -> bool {
    move |status| status["sluice"]["totals"]["accepted"] == count
}

fn rejected(count: usize) -> impl Fn(&Value) -> bool {
    move |status| status["sluice"]["totals"]["rejected"] == count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_repeats_what_it_got_makes_no_output_show_a_secret() -> Result<()> {
    let stage = Stage::set("hush", 2).await?;
    produce(
        stage.kafka.bootstrap_servers(),
        &stage.name,
        json_records(RECORDS, 2, 100),
    )
    .await?;
    let receiver = Receiver::start(talkative).await?;
    let hooks = hooks(&stage, &receiver);
    let collector = Collector::start().await?;
    // The same from the environment: as a value, and in a file.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("url");
    fs::write(&file, receiver.url(&format!("/env/{HOOK}?code={CODE}")))?;
    let (file, name) = (file.display().to_string(), format!("{}-env", stage.name));
    let env = [
        ("SLUICE_SINK_HOOK_NAME", name.as_str()),
        ("SLUICE_SINK_HOOK_CONNECTOR_CLASS", "http"),
        ("SLUICE_SINK_HOOK_TOPICS", &stage.name),
        ("SLUICE_SINK_HOOK_KEY_CONVERTER", STRING),
        ("SLUICE_SINK_HOOK_VALUE_CONVERTER", STRING),
        ("SLUICE_SINK_HOOK_CONSUMER_OVERRIDE_GROUP_PROTOCOL", "share"),
        ("SLUICE_SINK_HOOK_CONSUMER_OVERRIDE_CLIENT_ID", CLIENT),
        ("SLUICE_SINK_HOOK_HTTP_URL_FILE", &file),
        ("SLUICE_SINK_HOOK_HTTP_AUTHORIZATION_TYPE", "basic"),
        ("SLUICE_SINK_HOOK_CONNECTION_USER", "alice"),
        ("SLUICE_SINK_HOOK_CONNECTION_PASSWORD", PASSWORD),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url()),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "x-api-key=hush%2Fcollector%20key%208",
        ),
        ("OTEL_TRACES_SAMPLER", "always_on"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
    ];
    let mut options = WorkerOptions::new(BINARY)
        .property("bootstrap.servers", stage.kafka.bootstrap_servers())
        .property("log.format", "json")
        .property("log.level", "trace")
        .property("status.log.interval.ms", "50");
    for (name, connector) in &hooks {
        options = options.connector(name, connector);
    }
    for (variable, value) in env {
        options = options.environment(variable, value);
    }
    let worker = Worker::start(&options)?;
    let api = Api::of(&worker).await?;
    let [basic, bearer, oauth, form, lot] = hooks.each_ref().map(|(name, _)| name.as_str());
    let failed = |status: &Value| status["connector"]["state"] == "FAILED";
    let waits = |status: &Value| status.to_string().contains("no OAuth2 token");
    // Those that are put aside count as rejected.
    told(&api, basic, accepted(RECORDS - 2)).await?;
    told(&api, basic, rejected(2)).await?;
    told(&api, bearer, failed).await?;
    told(&api, oauth, accepted(RECORDS)).await?;
    let waiting = told(&api, form, waits).await?;
    told(&api, &name, accepted(RECORDS)).await?;
    told(&api, lot, accepted(RECORDS)).await?;
    let all = [basic, bearer, oauth, form, lot, &name];
    let mut surfaces = Surfaces::of(&worker, &all, &env).await?;
    // A task that tries again has no cause for that while.
    surfaces.add("a task that waits", waiting.to_string());
    worker.stop(MINUTE).await?;
    surfaces.printed(&worker)?;
    surfaces.exported(&collector, &format!("x-api-key: {COLLECTOR_KEY}"))?;
    surfaces.add(LETTERS, headers_in(&stage, &letters_of(&stage)).await?);
    let parked = format!("share-{lot}-parked");
    surfaces.add(PARKED, headers_in(&stage, &parked).await?);
    every_secret_was_sent(&receiver)?;

    surfaces.hide(&HTTP_SECRETS)?;
    surfaces.hide(&[COLLECTOR_KEY])?;
    let of = |name: &str, end: &str| format!("GET /connectors/{name}{end}");
    let shown = receiver.url("/[hidden]");
    for name in all {
        let (info, config) = (of(name, ""), of(name, "/config"));
        let places = [info.as_str(), &config, "sluice check"];
        surfaces.show(&shown, &[&places[..], &[VALIDATE]].concat())?;
        surfaces.show(CLIENT, &places)?;
        surfaces.show(
            name,
            &[
                "GET /metrics",
                "GET /health",
                "sluice status",
                "standard error",
                SPANS,
                METRICS,
            ],
        )?;
    }
    surfaces.show(&stage.name, &[PARKED])?;
    // What the endpoint said is told; only its secrets are not.
    let of_bearer = of(bearer, "/status");
    let places = [
        of_bearer.as_str(),
        "a task that waits",
        "sluice status --json",
        "standard error",
        SPANS,
        LETTERS,
    ];
    surfaces.show(SAID, &places)
}

/// Each secret did go over the wire, or there was nothing to show.
fn every_secret_was_sent(receiver: &Receiver) -> Result<()> {
    let sent: String = receiver.arrivals().iter().map(repeated).collect();
    let sent = Surfaces::from_text("the wire", sent);
    for secret in HTTP_SECRETS {
        sent.show(secret, &["the wire"])?;
    }
    Ok(())
}
