//! Dashboard, alerts and guides speak of metrics that the program has.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use sluice::telemetry::metrics::{Group, Kind, all};

use super::promql::{asked, labels_in_text};

const DASHBOARD: &str = "deploy/grafana/sluice.json";
const ALERTS: &str = "deploy/prometheus/alerts.yml";
const GUIDE: &str = "docs/guides/operate.md";
const PAGES: [&str; 5] = [
    GUIDE,
    "docs/guides/first-run.md",
    "docs/guarantees.md",
    "docs/operations.md",
    "README.md",
];
/// What Prometheus adds to each series.
const ADDED: [&str; 2] = ["job", "instance"];
/// What Prometheus tells of itself.
const OWN: [&str; 2] = ["up", "ALERTS"];
/// An offset is no line in a graph: the text of a panel names it.
const IN_WORDS: &str = "sluice_partition_pinned_offset";

/// The labels of a metric, if there is one of that name.
fn labels_of(name: &str) -> Option<Vec<&'static str>> {
    let metric = |name: &str| {
        let mut metrics = all();
        metrics.find(|metric| metric.exported() == name)
    };
    if let Some(metric) = metric(name).filter(|it| it.kind != Kind::Histogram) {
        return Some(metric.value.labels().to_vec());
    }
    let (name, part) = name.rsplit_once('_')?;
    let histogram = metric(name).filter(|it| it.kind == Kind::Histogram)?;
    let more: &[&str] = match part {
        "bucket" => &["le"],
        "sum" | "count" => &[],
        _ => return None,
    };
    Some([histogram.value.labels(), more].concat())
}

/// Fails over what there is not; tells all labels that the series may have.
fn check_query(place: &str, query: &str) -> BTreeSet<String> {
    let asked = asked(query);
    let mut labels: BTreeSet<String> = ADDED.map(str::to_owned).into();
    assert!(!asked.metrics.is_empty(), "{place}: {query}");
    for (name, chosen_by) in &asked.metrics {
        if OWN.contains(&name.as_str()) {
            continue;
        }
        let of_metric = labels_of(name);
        let of_metric = of_metric.unwrap_or_else(|| panic!("{place}: there is no {name}"));
        for label in chosen_by {
            let is_there = of_metric.contains(&label.as_str()) || ADDED.contains(&label.as_str());
            assert!(is_there, "{place}: {name} has no label {label}");
        }
        labels.extend(of_metric.into_iter().map(str::to_owned));
    }
    for label in &asked.grouped_by {
        assert!(
            labels.contains(label),
            "{place}: no label {label} in {query}"
        );
    }
    labels
}

fn check_text(place: &str, text: &str, labels: &BTreeSet<String>) {
    for label in labels_in_text(text) {
        assert!(
            labels.contains(&label),
            "{place}: no label {label} for {text:?}"
        );
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(DASHBOARD).unwrap()).unwrap()
}

/// Of each query, the title of its panel, itself, and the legend.
fn queries(dashboard: &Value) -> Vec<[&str; 3]> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let queries = panels.flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| {
            let texts = [&panel["title"], &target["expr"], &target["legendFormat"]];
            texts.map(|it| it.as_str().unwrap())
        })
    });
    queries.collect()
}

#[test]
fn the_dashboard_asks_for_metrics_and_labels_that_there_are() {
    let dashboard = dashboard();
    let queries = queries(&dashboard);
    assert!(queries.len() > 50, "{}", queries.len());
    for [title, query, legend] in queries {
        let labels = check_query(title, query);
        check_text(title, legend, &labels);
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            let values = query.strip_prefix("label_values(").unwrap();
            let (query, label) = values.trim_end_matches(')').rsplit_once(',').unwrap();
            assert!(
                check_query("variable", query).contains(label.trim()),
                "{label}"
            );
        }
    }
}

#[test]
fn the_dashboard_shows_all_that_connect_has_no_metric_for() {
    let dashboard = dashboard();
    let queries = queries(&dashboard).into_iter();
    let asked_for: BTreeSet<String> = queries
        .flat_map(|[_, query, _]| asked(query).metrics)
        .map(|(name, _)| name)
        .collect();
    for metric in all().filter(|metric| metric.group == Group::Sluice) {
        let name = match metric.kind {
            Kind::Histogram => format!("{}_bucket", metric.exported()),
            _ => metric.exported(),
        };
        assert_ne!(asked_for.contains(&name), IN_WORDS == name, "{name}");
    }
    let of_partitions = "max by (connector, topic, partition) (sluice_partition_lag_records{";
    let dashboard = dashboard.to_string();
    assert!(dashboard.contains(IN_WORDS), "{IN_WORDS}");
    assert!(dashboard.contains(of_partitions), "no lag by partition");
}

/// One rule: its name, its query and the rest of it.
struct Rule {
    name: String,
    query: String,
    text: String,
}

/// The rules in the file, which has one form throughout.
fn rules() -> Vec<Rule> {
    let text = fs::read_to_string(ALERTS).unwrap();
    let rules = text.split("- alert: ").skip(1).map(|rule| {
        let (name, rest) = rule.split_once('\n').unwrap();
        let (_, rest) = rest.split_once("expr: ").unwrap();
        let end = ["\n        for: ", "\n        labels:"];
        let end = end.iter().filter_map(|key| rest.find(key)).min().unwrap();
        let (query, text) = rest.split_at(end);
        Rule {
            name: name.to_owned(),
            query: query.trim_start_matches(">-").to_owned(),
            text: text.to_owned(),
        }
    });
    rules.collect()
}

#[test]
fn alerts_ask_for_metrics_and_labels_that_there_are_and_lead_to_the_guide() {
    let guide = fs::read_to_string(GUIDE).unwrap();
    let headings = guide.lines().filter(|line| line.starts_with('#'));
    let anchors: BTreeSet<String> = headings.map(anchor).collect();
    let rules = rules();
    assert!(rules.len() > 15, "{}", rules.len());
    for rule in rules {
        let labels = check_query(&rule.name, &rule.query);
        check_text(&rule.name, &rule.text, &labels);
        let (_, link) = rule.text.split_once(GUIDE).unwrap();
        let anchor = link.trim_start_matches('#').lines().next().unwrap();
        assert!(
            anchors.contains(anchor),
            "{}: no section {anchor}",
            rule.name
        );
        assert!(
            guide.contains(&format!("`{}`", rule.name)),
            "{} is not in the table",
            rule.name
        );
    }
}

/// As GitHub makes it of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|at| at.is_alphanumeric() || " -_".contains(*at));
    kept.collect::<String>().replace(' ', "-")
}

#[test]
fn metrics_that_pages_name_are_there() {
    for page in PAGES {
        let text = fs::read_to_string(page).unwrap();
        let quoted = text.split('`').skip(1).step_by(2);
        let names =
            quoted.filter(|it| it.starts_with("sluice_") || it.starts_with("kafka_connect_"));
        for name in names {
            if name.ends_with('*') || name.ends_with('_') {
                let stem = name.trim_end_matches(['*', '_']);
                let mut metrics = all();
                let is_there = metrics.any(|metric| metric.exported().starts_with(stem));
                assert!(is_there, "{page}: {name}");
            } else {
                check_query(page, name);
            }
        }
    }
}
