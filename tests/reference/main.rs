//! What the docs show is what the program does: the reference is what it
//! prints, and the examples are sound.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot read its data has failed"
)]

#[path = "../support/program.rs"]
mod program;
mod promql;
mod watch;

use std::fs;
use std::path::Path;

use sluice::app::plugin_tables;
use sluice::cli::Exit;

use self::program::{Program, Said, Variables};

const REFERENCES: [(&str, &str); 2] = [
    ("configuration", "docs/reference/configuration.md"),
    ("metrics", "docs/reference/metrics.md"),
];
const EXAMPLES: &str = "docs/examples";

fn sluice(arguments: &[&str]) -> Said {
    Program::default().run(arguments, Variables::new())
}

#[test]
fn the_committed_references_are_what_the_program_prints() {
    for (of, path) in REFERENCES {
        let printed = sluice(&["reference", of]);
        assert_eq!(printed.exit, Exit::Fine);
        let committed = fs::read_to_string(path).unwrap_or_default();
        let differs = printed
            .out
            .lines()
            .zip(committed.lines())
            .find(|(now, then)| now != then);
        assert!(
            printed.out == committed,
            "{path} is out of date, first at {differs:?}; renew it by\n\
             cargo run -- reference {of} > {path}"
        );
    }
}

#[test]
fn the_reference_has_the_keys_of_every_plugin() {
    let printed = sluice(&["reference"]).out;
    for section in [
        "## Sink file",
        "## Converter json",
        "## Transform InsertField$Value",
        "## Predicate TopicNameMatches",
    ] {
        assert!(printed.contains(section), "no {section}");
    }
    for table in plugin_tables() {
        for key in table.keys {
            let row = format!("| `{}` |", key.name);
            assert!(printed.contains(&row), "{}: {}", table.title, key.name);
        }
    }
}

#[test]
fn every_plugin_is_in_the_list_and_in_the_reference() {
    let reference = sluice(&["reference"]).out;
    let table = sluice(&["plugins"]);
    let json = sluice(&["plugins", "--json"]);
    assert_eq!((table.exit, json.exit), (Exit::Fine, Exit::Fine));
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let listed = json.as_array().unwrap();
    assert_eq!(table.out.lines().count(), listed.len() + 1);
    for plugin in listed {
        assert_eq!(plugin.as_object().unwrap().len(), 3, "{plugin}");
        assert_eq!(plugin["version"], env!("CARGO_PKG_VERSION"));
        let [class, kind] = ["class", "type"].map(|key| plugin[key].as_str().unwrap());
        let is_row = |line: &str| line.split_whitespace().take(2).eq([kind, class]);
        assert!(table.out.lines().any(is_row), "{class} in {}", table.out);
        assert!(reference.contains(&format!("`{class}`")), "{class}");
    }
}

#[test]
fn every_example_is_a_sound_configuration() {
    let worker = format!("{EXAMPLES}/worker.properties");
    let mut connectors = Vec::new();
    for entry in fs::read_dir(EXAMPLES).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "json") {
            connectors.push(path.to_str().unwrap().to_owned());
        }
    }
    assert!(!connectors.is_empty());
    for connector in connectors {
        let said = sluice(&["check", &worker, "--connector", &connector]);
        assert_eq!(
            (said.exit, said.err.as_str()),
            (Exit::Fine, ""),
            "{connector}"
        );
        assert!(said.out.contains("\nconnector "), "{}", said.out);
    }
}

#[test]
fn the_chain_in_the_guide_of_transforms_is_sound() {
    let guide = fs::read_to_string("docs/transforms.md").unwrap();
    let (_, block) = guide.split_once("```json\n").unwrap();
    let (connector, _) = block.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.json");
    fs::write(&path, connector).unwrap();
    let worker = format!("{EXAMPLES}/worker.properties");
    let path = path.to_str().unwrap();
    let said = sluice(&["check", &worker, "--connector", path]);
    assert_eq!((said.exit, said.err.as_str()), (Exit::Fine, ""));
    for kind in ["transform", "predicate"] {
        assert!(said.out.contains(&format!("  {kind}s.")), "{}", said.out);
    }
}

/// Variables that a page hands to containers.
#[test]
fn containers_of_the_guides_are_told_what_is_sound() {
    for page in ["docs/guides/first-run.md", "docs/operations.md"] {
        let text = fs::read_to_string(page).unwrap();
        let (_, run) = text.split_once("docker run ").unwrap();
        let (run, _) = run.split_once("\n```").unwrap();
        let set = run.split("--env ").skip(1);
        let set = set.map(|it| it.split_whitespace().next().unwrap());
        let variables: Variables = set
            .map(|it| it.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        assert!(variables.len() >= 4, "{page}: {variables:?}");
        let said = Program::default().run(&["check"], variables.clone());
        assert_eq!((said.exit, said.err.as_str()), (Exit::Fine, ""), "{page}");
        for name in variables.keys() {
            let origin = format!("(environment {name})");
            assert!(said.out.contains(&origin), "{page}: {name}");
        }
    }
}

/// Files that a page tells its reader to use.
#[test]
fn every_example_that_the_readme_uses_is_there() {
    let readme = fs::read_to_string("README.md").unwrap();
    let words = readme.split(|at: char| at.is_whitespace() || at == '`' || at == ')');
    let used: Vec<_> = words.filter(|word| word.starts_with(EXAMPLES)).collect();
    assert!(used.len() >= 2, "{used:?}");
    for path in used {
        assert!(Path::new(path).exists(), "README.md names {path}");
    }
}
