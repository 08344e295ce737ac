//! What `deploy/` has stands together: settings are sound, files are there,
//! names mean each other.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot read its data has failed"
)]

#[path = "../support/program.rs"]
mod program;

use std::fs;
use std::path::Path;

use serde_json::Value;
use sluice::cli::Exit;

use self::program::{Program, Variables};

const DRAIN: &str = "SLUICE_TASK_SHUTDOWN_GRACEFUL_TIMEOUT_MS";
const PORT: u16 = 8083;

fn deploy(file: &str) -> Value {
    let path = Path::new("deploy").join(file);
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// What `sluice` prints, and its exit code.
fn sluice(arguments: &[&str], variables: Variables) -> (Exit, String) {
    let said = Program::default().run(arguments, variables);
    (said.exit, said.out + &said.err)
}

fn variables(map: &Value) -> Variables {
    let entries = map.as_object().into_iter().flatten();
    entries
        .map(|(name, value)| (name.clone(), text(value).to_owned()))
        .collect()
}

/// Of the pods: what is secret, too.
fn of_pods() -> Variables {
    let mut variables = variables(&deploy("kubernetes/config.yaml")["data"]);
    let secrets = &deploy("kubernetes/secret.yaml")["stringData"];
    variables.extend(self::variables(secrets));
    variables
}

fn of_compose() -> Variables {
    variables(&deploy("compose.yaml")["services"]["sluice"]["environment"])
}

/// A variable that no key takes is a fault, too.
#[test]
fn what_workers_are_told_is_sound() {
    for (place, variables) in [("compose", of_compose()), ("kubernetes", of_pods())] {
        let (exit, printed) = sluice(&["check"], variables.clone());
        assert_eq!(exit, Exit::Fine, "{place}: {printed}");
        assert!(printed.contains("connector orders"), "{place}: {printed}");
        assert!(!printed.contains("note:"), "{place}: {printed}");
        assert!(!printed.contains("change-me"), "{place}: {printed}");
        for name in variables.keys().filter(|name| name.starts_with("SLUICE_")) {
            assert!(
                printed.contains(&format!("(environment {name})")),
                "{place}: {name}"
            );
        }
    }
}

#[test]
fn every_file_that_compose_mounts_is_there() {
    let compose = deploy("compose.yaml");
    let services = compose["services"].as_object().unwrap();
    let mounts = services
        .values()
        .flat_map(|service| list(&service["volumes"]));
    let mut files = 0;
    for mount in mounts.map(text) {
        let (source, _) = mount.split_once(':').unwrap();
        if source.starts_with('.') {
            assert!(Path::new("deploy").join(source).exists(), "{mount}");
            files += 1;
        } else {
            assert!(compose["volumes"].get(source).is_some(), "{mount}");
        }
    }
    assert!(files >= 4, "{files}");
}

#[test]
fn those_who_watch_find_whom_they_watch() {
    let services = &deploy("compose.yaml")["services"];
    let scrape = &deploy("prometheus/prometheus.yml")["scrape_configs"][0]["dns_sd_configs"][0];
    assert!(
        services.get(text(&scrape["names"][0])).is_some(),
        "{scrape}"
    );
    assert_eq!(scrape["port"], PORT);
    let sources = deploy("grafana/provisioning/datasources/prometheus.yaml");
    assert_eq!(sources["datasources"][0]["url"], "http://prometheus:9090");
    assert!(services.get("prometheus").is_some());
    let boards = deploy("grafana/provisioning/dashboards/sluice.yaml");
    let folder = text(&boards["providers"][0]["options"]["path"]).to_owned();
    let mounts = list(&services["grafana"]["volumes"]).map(text);
    let mount = format!("./grafana:{folder}:ro");
    assert!(mounts.into_iter().any(|it| it == mount), "no {mount}");
    let endpoint = &services["sluice"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"];
    assert_eq!(endpoint, "http://collector:4317");
    let receivers = &deploy("otel-collector.yaml")["receivers"]["otlp"]["protocols"];
    assert_eq!(receivers["grpc"]["endpoint"], "0.0.0.0:4317");
    assert!(services.get("collector").is_some());
    // A collector's address turns on both.
    for signal in ["traces", "metrics"] {
        let pipeline = &deploy("otel-collector.yaml")["service"]["pipelines"][signal];
        assert_eq!(pipeline["receivers"][0], "otlp", "{signal}");
    }
    let rules = &deploy("prometheus/prometheus.yml")["rule_files"];
    assert_eq!(rules, &serde_json::json!(["alerts.yml"]));
}

#[test]
fn a_worker_has_time_to_drain_before_it_is_killed() {
    let drain = |variables: &Variables| variables[DRAIN].parse::<u64>().unwrap() / 1000;
    let pod = deploy("kubernetes/deployment.yaml")["spec"]["template"]["spec"].clone();
    let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace > drain(&of_pods()), "{grace} s");
    let compose = deploy("compose.yaml");
    let grace = text(&compose["services"]["sluice"]["stop_grace_period"]);
    let grace: u64 = grace.trim_end_matches('s').parse().unwrap();
    assert!(grace > drain(&of_compose()), "{grace} s");
}

#[test]
fn a_pod_is_asked_where_the_worker_answers_and_may_do_nothing_else() {
    let pod = deploy("kubernetes/deployment.yaml")["spec"]["template"]["spec"].clone();
    let worker = &pod["containers"][0];
    assert_eq!(worker["ports"][0]["containerPort"], PORT);
    for (probe, path) in [
        ("livenessProbe", "/health/live"),
        ("readinessProbe", "/health/ready"),
    ] {
        assert_eq!(worker[probe]["httpGet"]["path"], path);
        assert_eq!(worker[probe]["httpGet"]["port"], worker["ports"][0]["name"]);
    }
    let security = &worker["securityContext"];
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["enableServiceLinks"], false);
    for source in ["configMapRef", "secretRef"] {
        let named = list(&worker["envFrom"]).find_map(|it| it[source]["name"].as_str());
        let file = if source == "secretRef" {
            "secret"
        } else {
            "config"
        };
        let there = deploy(&format!("kubernetes/{file}.yaml"));
        assert_eq!(named, there["metadata"]["name"].as_str());
    }
}

#[test]
fn all_that_select_pods_select_those_of_the_deployment() {
    let deployment = deploy("kubernetes/deployment.yaml");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    let budget = deploy("kubernetes/disruption-budget.yaml");
    assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels);
    let service = deploy("kubernetes/service.yaml");
    assert_eq!(&service["spec"]["selector"], labels);
    let monitor = deploy("kubernetes/prometheus-operator/pod-monitor.yaml");
    assert_eq!(&monitor["spec"]["selector"]["matchLabels"], labels);
    let scaled = deploy("kubernetes/keda/scaled-object.yaml");
    assert_eq!(
        scaled["spec"]["scaleTargetRef"]["name"],
        deployment["metadata"]["name"]
    );
}

/// Its job is `NAMESPACE/NAME` of the monitor.
#[test]
fn the_operator_scrapes_pods_where_they_serve_metrics_as_a_job_that_alerts_know() {
    let pod = deploy("kubernetes/deployment.yaml")["spec"]["template"]["spec"].clone();
    let monitor = deploy("kubernetes/prometheus-operator/pod-monitor.yaml");
    assert_eq!(monitor["kind"], "PodMonitor");
    assert_eq!(monitor["apiVersion"], "monitoring.coreos.com/v1");
    assert!(text(&monitor["metadata"]["name"]).contains("sluice"));
    let endpoints: Vec<_> = list(&monitor["spec"]["podMetricsEndpoints"]).collect();
    assert_eq!(endpoints.len(), 1);
    assert_eq!(
        endpoints[0]["port"],
        pod["containers"][0]["ports"][0]["name"]
    );
    assert_eq!(endpoints[0]["path"], "/metrics");
    let alerts = fs::read_to_string("deploy/prometheus/alerts.yml").unwrap();
    assert!(alerts.contains("job=~\".*sluice.*\""));
}

/// That the metric is on /metrics is shown where the image runs.
#[test]
fn keda_scales_by_the_lag_of_a_connector_that_there_is_and_never_to_none() {
    let scaled = deploy("kubernetes/keda/scaled-object.yaml")["spec"].clone();
    assert!(scaled["minReplicaCount"].as_u64().unwrap() >= 1);
    let trigger = &scaled["triggers"][0];
    assert_eq!(trigger["type"], "prometheus");
    let query = text(&trigger["metadata"]["query"]);
    let series = query
        .strip_prefix("max(")
        .and_then(|it| it.strip_suffix(')'));
    let (metric, labels) = series.unwrap().split_once('{').unwrap();
    assert_eq!(labels, "connector=\"orders\"}");
    let (_, checked) = sluice(&["check"], of_pods());
    assert!(checked.contains("connector orders\n"), "{checked}");
    let (_, metrics) = sluice(&["reference", "metrics"], Variables::new());
    assert!(
        metrics.contains(&format!("| `{metric}` | gauge | connector |")),
        "{metric}"
    );
}

#[test]
fn the_image_is_built_by_the_toolchain_of_the_project() {
    let docker = fs::read_to_string("deploy/Dockerfile").unwrap();
    let toolchain = fs::read_to_string("rust-toolchain.toml").unwrap();
    let channel = toolchain
        .lines()
        .find_map(|line| line.strip_prefix("channel = "));
    let wanted = format!("ARG RUST_VERSION={}", channel.unwrap().trim_matches('"'));
    assert!(docker.lines().any(|line| line == wanted), "no {wanted}");
}
