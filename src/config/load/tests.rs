use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::*;
use crate::config::testing::PLUGINS;

const WORKER: &str = "bootstrap.servers=kafka:9092\nconsumer.group.protocol=share\nkey.converter=string\nvalue.converter=string\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn places(&self, connector: &str) -> Places {
        Places {
            worker_file: Some(self.file("worker.properties", WORKER)),
            connector_files: vec![self.file("connector.json", connector)],
            ..Places::default()
        }
    }
}

fn environment<const N: usize>(variables: [(&str, &str); N]) -> Environment {
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Environment::of(BTreeMap::from(variables))
}

fn loaded(places: &Places) -> Loaded {
    load(places, &PLUGINS).unwrap()
}

fn faults(loaded: &Loaded) -> String {
    let connectors = loaded.connectors.iter().map(|it| it.faults.to_string());
    let all = std::iter::once(loaded.worker.faults.to_string()).chain(connectors);
    all.filter(|it| !it.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

const ORDERS: &str = r#"{"name": "orders-to-file", "config": {
    "connector.class": "file", "file": "/tmp/orders", "topics": "orders", "tasks.max": 2}}"#;

#[test]
fn later_places_win_and_each_value_tells_its_own() {
    let folder = Folder::new();
    let mut places = folder.places(ORDERS);
    places.environment = environment([
        ("CONNECT_TASK_SHUTDOWN_GRACEFUL_TIMEOUT_MS", "1"),
        ("SLUICE_TASK_SHUTDOWN_GRACEFUL_TIMEOUT_MS", "2"),
        ("SLUICE_CLIENT_ID", "from-environment"),
        ("SLUICE_SINK_ORDERSTOFILE_TOPICS", "from-environment"),
        ("SLUICE_SINK_ORDERSTOFILE_TASKS_MAX", "3"),
    ]);
    places.set = vec![
        "client.id=from-command-line".into(),
        "orders-to-file:topics=from-command-line".into(),
    ];
    let loaded = loaded(&places);
    assert_eq!(faults(&loaded), "");

    let worker = &loaded.worker;
    assert_eq!(worker.config.admin.client_id, "from-command-line");
    assert_eq!(worker.settings.origin("client.id"), "command line");
    assert_eq!(worker.config.shutdown_timeout.as_millis(), 2);
    assert!(
        worker
            .settings
            .origin("bootstrap.servers")
            .starts_with("file ")
    );
    assert_eq!(worker.settings.origin("metadata.max.age.ms"), "default");

    assert_eq!(loaded.connectors.len(), 1);
    let connector = &loaded.connectors[0];
    assert_eq!(connector.config.name, "orders-to-file");
    assert_eq!(connector.config.tasks_max, 3);
    let settings = &connector.settings;
    assert_eq!(settings.get("topics"), Some("from-command-line"));
    assert_eq!(
        settings.origin("tasks.max"),
        "environment SLUICE_SINK_ORDERSTOFILE_TASKS_MAX"
    );
    assert!(
        settings
            .origin("key.converter")
            .starts_with("worker, file ")
    );
}

/// Keys that dotted paths or lower-casing lose, through every layer.
#[test]
fn hard_keys_reach_the_settings_whole_from_every_place() {
    let keys = [
        ("key.converter", "KEY_CONVERTER"),
        (
            "key.converter.schemas.enable",
            "KEY_CONVERTER_SCHEMAS_ENABLE",
        ),
        ("transforms", "TRANSFORMS"),
        (
            "transforms.InsertSource.type",
            "TRANSFORMS_INSERTSOURCE_TYPE",
        ),
    ];
    let values = |place: &str| ["json", "true", "InsertSource", place].map(str::to_owned);
    let folder = Folder::new();
    for place in ["file", "environment", "command line"] {
        let mut places = folder.places(
            r#"{"name": "n", "connector.class": "file", "file": "/f", "topics": "t",
                "key.converter": "json", "key.converter.schemas.enable": "true",
                "transforms": "InsertSource", "transforms.InsertSource.type": "file"}"#,
        );
        if place == "environment" {
            let variables = keys.iter().zip(values(place));
            let variables =
                variables.map(|((_, name), value)| (format!("SLUICE_SINK_N_{name}"), value));
            places.environment = Environment::of(variables.collect());
        }
        if place == "command line" {
            let set = keys.iter().zip(values(place));
            places.set = set
                .map(|((key, _), value)| format!("n:{key}={value}"))
                .collect();
        }
        let loaded = loaded(&places);
        let settings = &loaded.connectors[0].settings;
        for ((key, _), value) in keys.iter().zip(values(place)) {
            assert_eq!(
                settings.get(key),
                Some(value.as_str()),
                "{key} from {place}"
            );
            assert!(
                settings.origin(key).starts_with(place),
                "{key} from {place}"
            );
        }
        let chained = settings
            .properties()
            .keys()
            .filter(|key| key.starts_with("transforms"));
        assert_eq!(chained.count(), 2, "{place}");
    }
}

/// Variables cannot tell these two apart, files can.
#[test]
fn names_of_transforms_that_differ_in_case_only_keep_their_keys() {
    let folder = Folder::new();
    let places = folder.places(
        r#"{"name": "n", "connector.class": "file", "file": "/f", "topics": "t",
            "transforms": "Route,route",
            "transforms.Route.type": "RegexRouter", "transforms.Route.regex": "a",
            "transforms.Route.replacement": "b", "transforms.route.type": "RegexRouter",
            "transforms.route.regex": "c", "transforms.route.replacement": "d"}"#,
    );
    let loaded = loaded(&places);
    assert_eq!(faults(&loaded), "");
    let settings = &loaded.connectors[0].settings;
    assert_eq!(settings.get("transforms.Route.regex"), Some("a"));
    assert_eq!(settings.get("transforms.route.regex"), Some("c"));
}

#[test]
fn a_connector_may_live_in_the_environment_alone() {
    let folder = Folder::new();
    let places = Places {
        worker_file: Some(folder.file("worker.properties", WORKER)),
        environment: environment([
            (
                "SLUICE_SINK_A_JSON",
                r#"{"name": "a-1", "config": {"connector.class": "file", "file": "/a", "topics": "a"}}"#,
            ),
            ("SLUICE_SINK_B_CONNECTOR_CLASS", "file"),
            ("SLUICE_SINK_B_FILE", "/b"),
            ("SLUICE_SINK_B_TOPICS", "b"),
        ]),
        ..Places::default()
    };
    let configuration = loaded(&places).sound().unwrap();
    let names: Vec<_> = configuration
        .connectors
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["a-1", "b"]);
}

#[test]
fn connectors_are_told_apart_by_name() {
    let folder = Folder::new();
    let mut places = folder.places(ORDERS);
    places
        .connector_files
        .push(folder.file("again.json", ORDERS));
    places
        .connector_files
        .push(folder.file("nameless.json", "{}"));
    places.environment = environment([
        ("SLUICE_SINK_X_NAME", "orders-to-file"),
        ("SLUICE_SINK_Y_NAME", "orders-to-file"),
    ]);
    places.set = vec!["nobody:topics=t".into(), "nonsense".into()];
    let folder = folder.0.path().display().to_string();
    let faults = faults(&loaded(&places)).replace(&format!("{folder}/"), "");
    assert_eq!(
        faults,
        "--set: is not key=value or CONNECTOR:key=value\n\
         --set: there is no connector \"nobody\"\n\
         again.json: connector \"orders-to-file\" is in another file too\n\
         nameless.json: has no name; add the key name\n\
         SLUICE_SINK_Y: is connector \"orders-to-file\", and so is another alias"
    );
}

#[test]
fn two_connectors_do_not_share_a_group() {
    let folder = Folder::new();
    let mut places = folder.places(ORDERS);
    let other = ORDERS.replace("orders-to-file", "other").replace(
        "\"tasks.max\": 2",
        "\"share.group.id\": \"share-orders-to-file\"",
    );
    places
        .connector_files
        .push(folder.file("other.json", &other));
    assert_eq!(
        faults(&loaded(&places)),
        "share.group.id: share-orders-to-file is the group of connector orders-to-file too; give each its own"
    );
}

#[test]
fn what_is_wrong_with_the_worker_is_told_once() {
    let folder = Folder::new();
    let mut places = folder.places(ORDERS);
    let worker = WORKER.replace("bootstrap.servers=kafka:9092", "consumer.fetch.min.bytes=x")
        + "value.converter.schemas.enable=x\nvalue.converter=json\n";
    places.worker_file = Some(folder.file("worker.properties", &worker));
    let told = faults(&loaded(&places));
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].starts_with("bootstrap.servers: is required and not set"));
    assert_eq!(
        lines[1..],
        [
            "consumer.fetch.min.bytes: \"x\" is not a whole number",
            "value.converter.schemas.enable: \"x\" is neither true nor false"
        ]
    );
}

#[test]
fn notes_name_their_place() {
    let folder = Folder::new();
    let mut places = folder.places(ORDERS);
    places.environment = environment([("CONNECT_GROUP_ID", "g")]);
    places.set = vec!["orders-to-file:consumer.override.check.crcs=true".into()];
    let notes = loaded(&places).sound().unwrap().notes;
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].starts_with("worker: group.id: has no effect here"));
    assert!(notes[1].starts_with("connector orders-to-file: consumer.override.check.crcs: "));
}
