//! What Connect's dashboards show moves with what happens.

use std::time::Duration;

use anyhow::{Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::api::Api;
use crate::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 200;
const TASKS: usize = 2;
const STARTUP: &str = "kafka_connect_worker_";

/// Waits until a metric of a connector is as wanted.
async fn wait_for(api: &Api, name: &str, label: &str, wanted: impl Fn(f64) -> bool) -> Result<()> {
    let name = format!("kafka_connect_{name}");
    eventually(&name, MINUTE, async || {
        let value = api.metric(&name, label).await?;
        ensure!(wanted(value), "{name} is {value}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

async fn wait_for_starts(api: &Api, name: &str, wanted: impl Fn(f64) -> bool) -> Result<()> {
    let name = format!("{STARTUP}{name}");
    eventually(&name, MINUTE, async || {
        let value = api.of_worker(&name).await?;
        ensure!(wanted(value), "{name} is {value}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

/// A connector that meets every kind of failure, beside one whose topic is not
/// there.
fn worker(stage: &Stage) -> Result<Worker> {
    let mut failing = stage.connector("null", TASKS);
    failing["record.latency.us"] = json!("1000");
    failing["retry.match"] = json!("offset=10,times=1");
    failing["reject.match"] = json!("offset=20");
    failing["unavailable.match"] = json!("offset=150");
    failing["unavailable.ms"] = json!("3000");
    failing["errors.tolerance"] = json!("all");
    failing["errors.log.enable"] = json!("true");
    let mut waiting = stage.connector("null", 1);
    let name = format!("{}-later", stage.name);
    waiting["name"] = json!(name);
    if let Some(fields) = waiting.as_object_mut() {
        fields.remove("topics");
    }
    waiting["topics.regex"] = json!(name);
    let options = stage.worker_options(&failing);
    Worker::start(&options.connector(&name, &waiting))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_pauses_and_starts_show_in_the_metrics() -> Result<()> {
    let stage = Stage::set("figures", 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 1, 100)).await?;
    let worker = worker(&stage)?;
    let api = Api::of(&worker).await?;
    let label = format!("connector=\"{}\"", stage.name);
    let one = |value: f64| (value - 1.0).abs() < f64::EPSILON;

    let accepted = |value: f64| value as usize == RECORDS - 1;
    wait_for(
        &api,
        "sink_task_sink_record_acknowledge_total",
        &label,
        accepted,
    )
    .await?;
    for (name, expected) in [
        ("total_record_failures", 1),
        ("total_records_skipped", 1),
        ("total_errors_logged", 1),
        ("total_retries", 1),
        ("total_record_errors", 2),
    ] {
        let is_expected = |value: f64| value as usize == expected;
        wait_for(&api, &format!("task_error_{name}"), &label, is_expected).await?;
    }
    for name in ["connector_task_running_ratio", "connector_task_pause_ratio"] {
        let is_part = |value: f64| value > 0.0 && value <= TASKS as f64;
        wait_for(&api, name, &label, is_part).await?;
    }
    let active = "sink_task_sink_record_active_count";
    wait_for(&api, &format!("{active}_avg"), &label, |it| it > 0.0).await?;
    wait_for(&api, &format!("{active}_max"), &label, |it| it >= 1.0).await?;

    // The other connector is tried again and again.
    wait_for_starts(&api, "connector_startup_failure_total", |it| it >= 1.0).await?;
    wait_for_starts(&api, "connector_startup_attempts_total", |it| it >= 2.0).await?;
    wait_for_starts(&api, "connector_startup_success_total", one).await?;
    let tasks = |more: usize| move |value: f64| value as usize == TASKS + more;
    wait_for_starts(&api, "task_startup_attempts_total", tasks(0)).await?;
    wait_for_starts(&api, "task_startup_success_total", tasks(0)).await?;
    let path = format!("/connectors/{}/tasks/0/restart", stage.name);
    assert_eq!(api.post(&path).await?.0, StatusCode::NO_CONTENT);
    wait_for_starts(&api, "task_startup_attempts_total", tasks(1)).await?;
    wait_for_starts(&api, "task_startup_success_total", tasks(1)).await?;
    assert!(
        api.of_worker(&format!("{STARTUP}task_startup_failure_total"))
            .await?
            < 1.0
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_die_leave_a_worker_ready() -> Result<()> {
    let stage = Stage::set("dying", 1).await?;
    let mut connector = stage.connector("null", 1);
    connector["panic.match"] = json!("every=1");
    connector["errors.tolerance"] = json!("all");
    let worker = stage.worker(&connector)?;
    let api = Api::of(&worker).await?;
    let ready = |code, _: &Value| code == StatusCode::OK;
    api.wait_for("/health/ready", MINUTE, ready).await?;

    // Enough deaths, one soon after the other, that the next ones are replaced
    // with a delay: meanwhile no sink is open.
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(40, 1, 100)).await?;
    let status = format!("/connectors/{}/status", stage.name);
    let replaced = |_, body: &Value| body["tasks"][0]["state"] == "RESTARTING";
    api.wait_for(&status, MINUTE, replaced).await?;
    let none_open = |code, body: &Value| {
        let connector = &body["sluice"]["connectors"][&stage.name];
        code == StatusCode::INTERNAL_SERVER_ERROR && connector["sinks_open"] == 0
    };
    // Asked side by side, so that readiness is seen while no sink is open.
    for _ in 0..3 {
        eventually(
            "no sink is open, and the worker ready",
            MINUTE,
            async || {
                let ((code, ready), (health_code, health)) =
                    tokio::try_join!(api.get("/health/ready"), api.get("/health"))?;
                assert_eq!(code, StatusCode::OK, "{ready}");
                ensure!(none_open(health_code, &health), "{health}");
                Ok::<_, anyhow::Error>(())
            },
        )
        .await?;
    }
    Ok(())
}
