//! What a query of Prometheus asks for: metrics and labels. No parser: enough
//! to find the names in queries that Prometheus itself has found sound.

use std::collections::BTreeSet;

use regex::Regex;

/// What is no name of a metric though it stands where one could.
const WORDS: [&str; 11] = [
    "and",
    "or",
    "unless",
    "by",
    "on",
    "without",
    "ignoring",
    "bool",
    "offset",
    "group_left",
    "group_right",
];

/// The names in a query.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Each with the labels that it is chosen by.
    pub metrics: BTreeSet<(String, Vec<String>)>,
    /// Labels that series are grouped or matched by.
    pub grouped_by: BTreeSet<String>,
}

pub fn asked(query: &str) -> Asked {
    let mut asked = Asked::default();
    let query = without(query, r#""[^"]*"|'[^']*'"#);
    let query = without(&query, r"\[[^\]]*\]");
    let grouping = regex(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)");
    for group in grouping.captures_iter(&query) {
        asked.grouped_by.extend(names(&group[1]));
    }
    let query = grouping.replace_all(&query, " ");
    let series = regex(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\}|\()?");
    for found in series.captures_iter(&query) {
        let chosen = found.get(2).map_or("", |it| it.as_str());
        if chosen == "(" || WORDS.contains(&&found[1]) {
            continue;
        }
        let labels = names(chosen.trim_matches(['{', '}']));
        asked.metrics.insert((found[1].to_owned(), labels));
    }
    asked
}

/// The texts between double braces: labels in a text for people.
pub fn labels_in_text(text: &str) -> Vec<String> {
    let labels = regex(r"\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}");
    let found = labels.captures_iter(text).map(|it| it[1].to_owned());
    found.collect()
}

fn names(list: &str) -> Vec<String> {
    let items = list.split(',');
    let names = items.map(|item| item.split(['=', '!']).next().unwrap_or_default().trim());
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn without(text: &str, pattern: &str) -> String {
    regex(pattern).replace_all(text, "").into_owned()
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

#[test]
fn names_are_found_in_every_place_of_a_query() {
    let found = asked(
        "max by (job, connector) (rate(a_total{x=\"b{c}\",y!~'d'}[5m])) > 1e3 unless on (z) e:f == 0",
    );
    let grouped: Vec<_> = found.grouped_by.iter().map(String::as_str).collect();
    assert_eq!(grouped, ["connector", "job", "z"]);
    let metrics: Vec<_> = found
        .metrics
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(metrics, ["a_total", "e:f"]);
    let (_, labels) = found.metrics.first().unwrap();
    assert_eq!(labels, &["x", "y"]);
    assert_eq!(
        labels_in_text("{{x}} of {{ $labels.y }}, {{ $value }}"),
        ["x", "y"]
    );
}
