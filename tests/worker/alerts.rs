//! The alert rules of `deploy/`, evaluated by Prometheus on a worker.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::api::Api;
use crate::load::Load;
use crate::prometheus::{Alert, Prometheus};
use crate::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);
/// Scrapes of a healthy worker, with a look at the rules after each: longer
/// than any rule waits here.
const SCRAPES: f64 = 8.0;

fn deployed(path: &str) -> Result<String> {
    let path = format!("{}/deploy/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).context(path)
}

/// The rules as they are, but that they wait no longer than two seconds.
fn hasty_rules() -> Result<String> {
    let rules = deployed("prometheus/alerts.yml")?;
    let lines = rules.lines().map(|line| match line.split_once("for: ") {
        Some((indent, _)) if indent.trim().is_empty() => format!("{indent}for: 2s"),
        _ => line.to_owned(),
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// A connector that delivers all the time, and one that fails over the first
/// record that comes.
fn worker(stage: &Stage, doomed: &str) -> Result<Worker> {
    let mut failing = stage.connector("null", 1);
    failing["name"] = json!(doomed);
    failing["topics"] = json!(doomed);
    failing["reject.match"] = json!("offset=0");
    let options = stage.worker_options(&stage.to_null(2));
    Worker::start(&options.connector(doomed, &failing))
}

async fn wait_for_alert(prometheus: &Prometheus, name: &str, connector: &str) -> Result<()> {
    let wanted = Alert {
        name: name.to_owned(),
        connector: connector.to_owned(),
        fires: true,
    };
    eventually(&format!("{name} fires"), MINUTE, async || {
        let alerts = prometheus.alerts().await?;
        ensure!(alerts.contains(&wanted), "{alerts:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_alert_fires_over_a_worker_that_is_well_and_the_right_ones_over_one_that_is_not()
-> Result<()> {
    let stage = Stage::set("alerts", 2).await?;
    let doomed = format!("{}-doomed", stage.name);
    stage.admin.create_topic(&doomed, 1).await?;
    let worker = worker(&stage, &doomed)?;
    let api = Api::of(&worker).await?;
    let load = Load::start(&stage, 2, 100);
    let both_deliver = |_, body: &Value| {
        let connectors = &body["sluice"]["connectors"];
        [&stage.name, &doomed]
            .iter()
            .all(|name| connectors[name.as_str()]["health"] == "ready")
    };
    api.wait_for("/health", MINUTE, both_deliver).await?;
    let accepted = "kafka_connect_sink_task_sink_record_acknowledge_total";
    let label = format!("connector=\"{}\"", stage.name);
    eventually("records are delivered", MINUTE, async || {
        ensure!(api.metric(accepted, &label).await? > 0.0, "none");
        Ok::<_, anyhow::Error>(())
    })
    .await?;

    let rules = hasty_rules()?;
    let prometheus = Prometheus::with_rules(&api.url, &rules)?;
    let up = "count_over_time(up[10m])";
    eventually("the worker was scraped often enough", MINUTE, async || {
        let scrapes = prometheus.ask(up).await?;
        ensure!(scrapes >= SCRAPES, "{scrapes}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let declared = rules.matches("- alert: ").count();
    assert_eq!(prometheus.evaluated_rules().await?, declared);
    assert_eq!(prometheus.alerts().await?, BTreeSet::new());
    check_dashboard(&prometheus).await?;

    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &doomed, json_records(1, 1, 100)).await?;
    wait_for_alert(&prometheus, "SluiceConnectorFailed", &doomed).await?;
    wait_for_alert(&prometheus, "SluiceRecordsHeld", &doomed).await?;
    let alerts = prometheus.alerts().await?;
    let of_the_other = alerts.iter().filter(|it| it.connector == stage.name);
    assert_eq!(of_the_other.count(), 0, "{alerts:?}");
    assert!(alerts.iter().all(|it| it.name != "SluiceWorkerDown"));

    load.stop().await?;
    worker.kill()?;
    wait_for_alert(&prometheus, "SluiceWorkerDown", "").await?;
    wait_for_alert(&prometheus, "SluiceNoWorker", "").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_starts_with_the_files_of_compose_and_looks_at_every_rule() -> Result<()> {
    let rules = deployed("prometheus/alerts.yml")?;
    let rules = rules.matches("- alert: ").count();
    let prometheus = Prometheus::as_deployed()?;
    eventually("all rules are looked at", MINUTE, async || {
        let evaluated = prometheus.evaluated_rules().await?;
        ensure!(evaluated == rules, "{evaluated} of {rules}");
        Ok(())
    })
    .await
}

/// Every query of the dashboard is sound, and those that must tell something
/// of a healthy worker do.
async fn check_dashboard(prometheus: &Prometheus) -> Result<()> {
    let dashboard: Value = serde_json::from_str(&deployed("grafana/sluice.json")?)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let mut silent = Vec::new();
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().context("no query")?;
            let query = query
                .replace("$job", ".*")
                .replace("$connector", ".*")
                .replace("$__rate_interval", "1m");
            if prometheus.series(&query).await? == 0 {
                silent.push(panel["title"].clone());
            }
        }
    }
    // Nothing is parked here, and few records are open for long.
    let may_be_silent = [
        "Parked records to deliver",
        "Attempts left of the record that came most often",
        "Partitions that are held back longest",
        "Span that is used up",
    ];
    silent.retain(|title| may_be_silent.iter().all(|it| title != it));
    ensure!(silent.is_empty(), "no series for {silent:?}");
    Ok(())
}
