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

/// What a worker says to variables of its platform: the notes.
fn told_of(variables: &[(&str, &str)]) -> String {
    let folder = Folder::new();
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let places = Places {
        environment: Environment::of(variables.iter().map(owned).collect()),
        ..folder.places(ORDERS)
    };
    let loaded = loaded(&places);
    assert_eq!(faults(&loaded), "", "{variables:?}");
    let notes: Vec<_> = loaded.notes().iter().map(ToString::to_string).collect();
    notes.join("\n")
}

/// Platforms set them for all programs alike.
#[test]
fn what_does_not_fit_of_opentelemetrys_variables_is_told_and_stops_nobody() {
    let unfit = [
        ("OTEL_SDK_DISABLED", "1"),
        ("OTEL_TRACES_EXPORTER", "console"),
        ("OTEL_METRICS_EXPORTER", "console"),
        ("OTEL_TRACES_SAMPLER", "parentbased_jaeger_remote"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "soon"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
        ("OTEL_METRIC_EXPORT_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "no pair"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "no header=1"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere.pem"),
        ("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "Cargo.toml"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/nowhere.key"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team"),
    ];
    let ways: [&[(&str, &str)]; 3] = [
        &[],
        &[("OTEL_SDK_DISABLED", "true")],
        &[
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_METRICS_EXPORTER", "none"),
        ],
    ];
    for one in unfit {
        for way in ways.iter().filter(|way| way.iter().all(|it| it.0 != one.0)) {
            let told = told_of(&[&[one], *way].concat());
            let note = format!("worker: {}: is not used: ", one.0);
            assert!(told.starts_with(&note), "{one:?} {way:?}: {told:?}");
            assert!(!told.contains('\n'), "only that: {told}");
        }
    }
    assert_eq!(told_of(&unfit).lines().count(), unfit.len());
}

#[test]
fn what_fits_of_opentelemetrys_variables_only_with_another_goes_when_that_does() {
    let sampler = ("OTEL_TRACES_SAMPLER", "parentbased_jaeger_remote");
    let of_jaegers = (
        "OTEL_TRACES_SAMPLER_ARG",
        "endpoint=http://agent:14250,pollingIntervalMs=5000",
    );
    let told = told_of(&[sampler, of_jaegers]);
    assert!(told.contains("OTEL_TRACES_SAMPLER: is not used"), "{told}");
    assert_eq!(told_of(&[("OTEL_BSP_MAX_QUEUE_SIZE", "256")]), "");
    let batch = ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "300");
    let told = told_of(&[("OTEL_BSP_MAX_QUEUE_SIZE", "256"), batch]);
    assert!(
        told.starts_with("worker: OTEL_BSP_MAX_EXPORT_BATCH_SIZE: is not used"),
        "{told}"
    );
    let folder = Folder::new();
    let pair = rcgen::generate_simple_self_signed(vec!["worker".to_owned()]).unwrap();
    let key = folder.file("key", &pair.signing_key.serialize_pem());
    let told = told_of(&[("OTEL_EXPORTER_OTLP_CLIENT_KEY", key.to_str().unwrap())]);
    let note =
        "OTEL_EXPORTER_OTLP_CLIENT_KEY: is not used: needs otel.exporter.otlp.client.certificate";
    assert!(told.ends_with(note), "{told}");
}

/// Somebody meant this worker with them.
#[test]
fn what_is_said_to_the_worker_itself_is_refused_where_it_does_not_fit() {
    let folder = Folder::new();
    let mut places = folder.places(ORDERS);
    places.set = vec!["otel.traces.sampler.arg=2".to_owned()];
    places.environment = environment([
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "3"),
        ("SLUICE_OTEL_TRACES_EXPORTER", "console"),
        ("CONNECT_OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
    ]);
    let loaded = loaded(&places);
    let told = faults(&loaded);
    let keys = [
        "otel.exporter.otlp.endpoint",
        "otel.traces.exporter",
        "otel.traces.sampler.arg",
    ];
    let found: Vec<_> = loaded
        .worker
        .faults
        .iter()
        .map(|it| it.key.as_str())
        .collect();
    assert_eq!(found, keys, "{told}");
    assert!(told.contains("\"2\" is not a number from 0 to 1"), "{told}");
}

/// What a file says holds again when a variable over it does not fit.
#[test]
fn a_variable_that_does_not_fit_hides_nothing() {
    let folder = Folder::new();
    let mut places = folder.places(ORDERS);
    let worker = format!("{WORKER}otel.exporter.otlp.endpoint=http://ours:4317\n");
    places.worker_file = Some(folder.file("worker.properties", &worker));
    places.environment = environment([("OTEL_EXPORTER_OTLP_ENDPOINT", "theirs:4317")]);
    let loaded = loaded(&places);
    assert_eq!(faults(&loaded), "");
    let traces = loaded.worker.config.traces.unwrap();
    assert_eq!(traces.otlp.endpoint, "http://ours:4317");
}
