//! The configuration as the binary sees it: files, variables and arguments
//! in, text and exit code out.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot read its data has failed"
)]

mod plugins;
#[path = "../support/program.rs"]
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use sluice::cli::{App, DemoOptions, Exit, MigrationOrder, MigrationTarget};
use sluice::config::load::Configuration;
use sluice::kafka::embedded::EmbeddedBroker;
use sluice::plugins::{Plugin, PluginType};

use self::program::{Program, Said};

const GOOD_WORKER: &str = "tests/config/good/worker.properties";
const GOOD_CONNECTOR: &str = "tests/config/good/orders.json";

/// Says how it was called by its exit code.
struct FakeApp;

impl App for FakeApp {
    fn run(&self, configuration: Configuration, broker: Option<EmbeddedBroker>) -> Exit {
        assert_eq!(configuration.connectors.len(), 1);
        match broker {
            None => Exit::Unavailable,
            Some(_) => Exit::Unfinished,
        }
    }

    fn demo(&self, options: DemoOptions) -> Exit {
        let expected = DemoOptions {
            records: 10,
            tasks: 50,
            seconds: 20,
        };
        assert_eq!(options, expected);
        Exit::Interrupted
    }

    fn migrate(&self, _: Configuration, order: &MigrationOrder) -> Exit {
        assert_eq!(order.connector, "orders");
        match (order.to, order.dry_run) {
            (MigrationTarget::Share, false) => Exit::Internal,
            (MigrationTarget::Share, true) => Exit::Unfinished,
            (MigrationTarget::Consumer, false) => Exit::Interrupted,
            (MigrationTarget::Consumer, true) => Exit::Fine,
        }
    }
}

fn sluice(arguments: &[&str], variables: &[(String, String)]) -> Said {
    let program = Program {
        app: &FakeApp,
        plugins: plugins::PLUGINS,
        plugin_list: vec![Plugin {
            kind: PluginType::Sink,
            class: "file",
            aliases: vec!["FileStreamSink"],
            keys: &[],
        }],
        plugin_tables: Vec::new(),
    };
    program.run(arguments, variables.iter().cloned().collect())
}

fn variables(path: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(path).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// A case by its ending: a worker, a connector of a good worker, variables.
fn check_case(path: &Path) -> Said {
    let shown = path.to_str().unwrap();
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("properties") => sluice(&["check", shown], &[]),
        Some("json") => sluice(&["check", GOOD_WORKER, "--connector", shown], &[]),
        _ => sluice(&["check"], &variables(path)),
    }
}

fn cases() -> Vec<PathBuf> {
    let entries = fs::read_dir("tests/config/broken").unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> = paths
        .filter(|path| path.extension().is_none_or(|it| it != "expected"))
        .collect();
    cases.sort();
    cases
}

#[test]
fn every_broken_configuration_is_told_all_its_faults_at_once() {
    let cases = cases();
    assert!(cases.len() >= 10, "{cases:?}");
    for case in cases {
        let said = check_case(&case);
        let expected = fs::read_to_string(case.with_extension("expected")).unwrap();
        assert_eq!(said.err, expected, "{}", case.display());
        assert_eq!(
            (said.exit, said.out.as_str()),
            (Exit::BadConfiguration, ""),
            "{}",
            case.display()
        );
        assert!(!said.err.contains("hush"), "{}", case.display());
    }
}

#[test]
fn a_good_configuration_is_shown_with_the_origin_of_each_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let [jaas, brokers] = ["jaas", "brokers"].map(|name| format!("{path}/{name}"));
    fs::write(
        &jaas,
        "x.PlainLoginModule required username=u password=hush;",
    )
    .unwrap();
    fs::write(&brokers, "kafka=kafka-1:9092").unwrap();
    let package = "org.apache.kafka.common.config.provider";
    let servers = format!("${{file:{brokers}:kafka}}");
    let variables = [
        ("SLUICE_CLIENT_ID", "worker-1"),
        ("CONNECT_METADATA_MAX_AGE_MS", "200000"),
        ("SLUICE_SECURITY_PROTOCOL", "SASL_PLAINTEXT"),
        ("SLUICE_SASL_MECHANISM", "PLAIN"),
        ("SLUICE_SASL_JAAS_CONFIG_FILE", &jaas),
        ("SLUICE_CONFIG_PROVIDERS", "file"),
        (
            "SLUICE_CONFIG_PROVIDERS_FILE_CLASS",
            &format!("{package}.FileConfigProvider"),
        ),
        ("SLUICE_BOOTSTRAP_SERVERS", &servers),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let places = ["--worker", GOOD_WORKER, "--connector", GOOD_CONNECTOR];
    let flags = ["--set", "log.format=json", "--set", "orders:tasks.max=8"];
    let said = sluice(&[&["check"], &places[..], &flags].concat(), &variables);
    assert_eq!((said.exit, said.err.as_str()), (Exit::Fine, ""));
    // As it was written: what a provider filled in is nobody's business.
    let provided =
        format!("  bootstrap.servers = {servers}  (environment SLUICE_BOOTSTRAP_SERVERS)");
    for line in [
        "worker",
        &provided,
        "  client.id = worker-1  (environment SLUICE_CLIENT_ID)",
        "  metadata.max.age.ms = 200000  (environment CONNECT_METADATA_MAX_AGE_MS)",
        "  sasl.jaas.config = [hidden]  (environment SLUICE_SASL_JAAS_CONFIG_FILE)",
        "  log.format = json  (command line)",
        "  log.level = info  (default)",
        "  value.converter.schemas.enable = false  (file tests/config/good/worker.properties)",
        "  note: group.id: has no effect here, because workers do not form a cluster: share groups distribute the records",
        "connector orders",
        "  tasks.max = 8  (command line)",
        "  topics = orders  (file tests/config/good/orders.json)",
        "  value.converter.schemas.enable = false  (worker, file tests/config/good/worker.properties)",
        "  errors.retry.delay.max.ms = 60000  (default)",
        "  note: consumer.override.max.poll.records: is taken as max.put.records",
    ] {
        assert!(
            said.out.lines().any(|it| it == line),
            "no line {line:?} in\n{}",
            said.out
        );
    }
    for gone in ["max.put.records =", "hush", "kafka-1:9092"] {
        assert!(!said.out.contains(gone), "{gone}: {}", said.out);
    }
}

#[test]
fn no_secret_is_shown_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let identity = folder.path().join("client.pem");
    let certified = rcgen::generate_simple_self_signed(vec!["client".to_owned()]).unwrap();
    let (chain, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    fs::write(&identity, format!("{chain}{key}")).unwrap();
    let identity = format!("ssl.keystore.location={}", identity.display());

    let variables = [(
        "SLUICE_CONSUMER_SASL_JAAS_CONFIG_FILE".to_owned(),
        "tests/config/secrets/jaas".to_owned(),
    )];
    let places = [
        "--worker",
        "tests/config/secrets/worker.properties",
        "--connector",
        "tests/config/secrets/connector.json",
        "--set",
        &identity,
    ];
    let good = sluice(&[&["check"], &places[..]].concat(), &variables);
    assert_eq!((good.exit, good.err.as_str()), (Exit::Fine, ""));
    assert_eq!(good.out.matches("[hidden]").count(), 14, "{}", good.out);

    // Secrets again, where they make a fault.
    let broken = [
        "ssl.keystore.key=hush",
        "ssl.key.passwort=hush",
        "admin.sasl.jaas.config=hush",
        "hush",
        "orders:file.seals=hush",
        "orders:topics.regex=hush(",
        "orders:consumer.override.sasl.jaas.config=x required password=hush;",
        "orders:consumer.override.ssl.truststore.certificates=hush",
    ];
    let broken = broken.iter().flat_map(|assignment| ["--set", assignment]);
    let arguments: Vec<_> = ["check"].into_iter().chain(places).chain(broken).collect();
    let bad = sluice(&arguments, &variables);
    assert_eq!(bad.exit, Exit::BadConfiguration);
    assert_eq!(bad.err.lines().count(), 2 + 8, "{}", bad.err);
    for text in [good.out, bad.err] {
        assert!(!text.contains("hush"), "{text}");
        assert!(!text.contains("PRIVATE KEY"), "{text}");
    }
}

#[test]
fn commands_get_a_sound_configuration_or_none() {
    let places = ["--worker", GOOD_WORKER, "--connector", GOOD_CONNECTOR];
    assert_eq!(
        sluice(&[&["run"], &places[..]].concat(), &[]).exit,
        Exit::Unavailable
    );
    assert_eq!(
        sluice(&["run", "--connector", GOOD_CONNECTOR], &[]).exit,
        Exit::BadConfiguration
    );
    let migrate = |name, order: &[&str]| {
        let arguments = [&["migrate", name, "--to"], order, &places[..]].concat();
        sluice(&arguments, &[])
    };
    for (order, exit) in [
        (&["share"][..], Exit::Internal),
        (&["share", "--dry-run"], Exit::Unfinished),
        (&["consumer"], Exit::Interrupted),
        (&["consumer", "--dry-run"], Exit::Fine),
    ] {
        assert_eq!(migrate("orders", order).exit, exit, "{order:?}");
    }
    let unknown = migrate("refunds", &["share"]);
    assert_eq!(unknown.exit, Exit::BadConfiguration);
    assert_eq!(
        unknown.err,
        "there is no connector \"refunds\"; give its file with --connector\n"
    );
}

#[cfg(feature = "embedded-broker")]
#[test]
fn the_embedded_broker_is_taken_by_its_flag_only() {
    let run = [
        "run",
        "--worker",
        GOOD_WORKER,
        "--connector",
        GOOD_CONNECTOR,
    ];
    assert_eq!(sluice(&run, &[]).exit, Exit::Unavailable);
    let with = sluice(&[&run[..], &["--embedded-broker"]].concat(), &[]);
    assert_eq!((with.exit, with.err.as_str()), (Exit::Unfinished, ""));
}

#[test]
fn the_demo_wants_no_configuration() {
    assert_eq!(
        sluice(&["demo", "--records", "10"], &[]).exit,
        Exit::Interrupted
    );
    for wrong in ["0", "1000001", "many"] {
        let said = sluice(&["demo", "--records", wrong], &[]);
        assert_eq!(said.exit, Exit::BadConfiguration, "{wrong}");
        assert!(said.err.contains("--records"), "{}", said.err);
    }
}

#[test]
fn a_bad_command_line_is_a_bad_configuration() {
    assert_eq!(Exit::BadConfiguration as u8, 64);
    assert_eq!(sluice(&["chek"], &[]).exit, Exit::BadConfiguration);
    assert_eq!(
        sluice(&["migrate", "orders", "--to", "queue"], &[]).exit,
        Exit::BadConfiguration
    );
    let help = sluice(&["--help"], &[]);
    assert_eq!((help.exit, help.err.as_str()), (Exit::Fine, ""));
    assert!(help.out.contains("migrate"), "{}", help.out);
}

#[test]
fn plugins_are_listed_as_a_table_or_as_connect_lists_them() {
    let table = sluice(&["plugins"], &[]);
    assert_eq!(table.exit, Exit::Fine);
    assert_eq!(
        table.out,
        "TYPE  CLASS  ALIASES\nsink  file   FileStreamSink\n"
    );
    let json = sluice(&["plugins", "--json"], &[]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        json,
        serde_json::json!([{"class": "file", "type": "sink", "version": version}])
    );
}

#[test]
fn the_reference_has_every_table() {
    let said = sluice(&["reference"], &[]);
    assert_eq!(said.exit, Exit::Fine);
    for key in [
        "bootstrap.servers",
        "tasks.max",
        "share.acquire.mode",
        "consumer.group.protocol",
    ] {
        assert!(said.out.contains(&format!("| `{key}` |")), "{key}");
    }
}

/// A worker and its connector by variables alone, secrets by each of Connect's
/// config providers.
#[test]
fn config_providers_fill_in_and_only_what_they_were_asked_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    fs::write(
        folder.path().join("kafka.properties"),
        "user=alice\npassword=hush",
    )
    .unwrap();
    fs::write(folder.path().join("seal"), "hush").unwrap();
    let package = "org.apache.kafka.common.config.provider";
    let jaas = format!(
        "x.PlainLoginModule required username=\"${{file:{path}/kafka.properties:user}}\" password=\"${{file:{path}/kafka.properties:password}}\";"
    );
    let variables = [
        ("CONNECT_CONFIG_PROVIDERS", "file,env,dir"),
        (
            "CONNECT_CONFIG_PROVIDERS_FILE_CLASS",
            &format!("{package}.FileConfigProvider"),
        ),
        ("CONNECT_CONFIG_PROVIDERS_FILE_PARAM_ALLOWED_PATHS", &path),
        (
            "CONNECT_CONFIG_PROVIDERS_ENV_CLASS",
            &format!("{package}.EnvVarConfigProvider"),
        ),
        (
            "CONNECT_CONFIG_PROVIDERS_DIR_CLASS",
            &format!("{package}.DirectoryConfigProvider"),
        ),
        ("CONNECT_BOOTSTRAP_SERVERS", "${env:BROKERS}"),
        ("CONNECT_SECURITY_PROTOCOL", "SASL_PLAINTEXT"),
        ("CONNECT_SASL_MECHANISM", "PLAIN"),
        ("CONNECT_SASL_JAAS_CONFIG", &jaas),
        ("CONNECT_CONSUMER_GROUP_PROTOCOL", "share"),
        ("CONNECT_KEY_CONVERTER", "string"),
        ("CONNECT_VALUE_CONVERTER", "string"),
        ("BROKERS", "kafka:9092"),
        ("SLUICE_SINK_ORDERS_CONNECTOR_CLASS", "file"),
        ("SLUICE_SINK_ORDERS_FILE", "/data/${env:BROKERS}"),
        (
            "SLUICE_SINK_ORDERS_FILE_SEAL",
            &format!("${{dir:{path}:seal}}"),
        ),
        ("SLUICE_SINK_ORDERS_TOPICS", "orders"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let said = sluice(&["check"], &variables);
    assert_eq!((said.exit, said.err.as_str()), (Exit::Fine, ""));
    assert!(!said.out.contains("hush"), "{}", said.out);
    let seal =
        format!("  file.seal = ${{dir:{path}:seal}}  (environment SLUICE_SINK_ORDERS_FILE_SEAL)");
    for line in [
        "  bootstrap.servers = ${env:BROKERS}  (environment CONNECT_BOOTSTRAP_SERVERS)",
        "  sasl.jaas.config = [hidden]  (environment CONNECT_SASL_JAAS_CONFIG)",
        "  file = /data/${env:BROKERS}  (environment SLUICE_SINK_ORDERS_FILE)",
        &seal,
    ] {
        assert!(
            said.out.lines().any(|it| it == line),
            "no {line:?} in\n{}",
            said.out
        );
    }

    // What it was asked for is used, and does not show when it is wrong.
    let tasks = (
        "SLUICE_SINK_ORDERS_TASKS_MAX".to_owned(),
        format!("${{dir:{path}:seal}}"),
    );
    let bad = sluice(&["check"], &[&variables[..], &[tasks]].concat());
    assert_eq!(bad.exit, Exit::BadConfiguration);
    assert_eq!(
        bad.err,
        "connector orders\n  tasks.max: \"[hidden]\" is not a whole number\n"
    );
}

/// What the images of Confluent and of Debezium hand to Connect, as their users
/// and their start scripts set it.
#[test]
fn variables_of_connects_images_are_taken_and_what_does_nothing_is_told() {
    let taken = [
        ("BOOTSTRAP_SERVERS", "kafka:9092"),
        ("CONNECTOR_CLIENT_CONFIG_OVERRIDE_POLICY", "All"),
        ("CONSUMER_SECURITY_PROTOCOL", "PLAINTEXT"),
        (
            "KEY_CONVERTER",
            "org.apache.kafka.connect.storage.StringConverter",
        ),
        ("LISTENERS", "http://0.0.0.0:8083"),
        ("OFFSET_FLUSH_INTERVAL_MS", "10000"),
        ("PRODUCER_LINGER_MS", "5"),
        ("TASK_SHUTDOWN_GRACEFUL_TIMEOUT_MS", "10000"),
        (
            "VALUE_CONVERTER",
            "org.apache.kafka.connect.json.JsonConverter",
        ),
        ("VALUE_CONVERTER_SCHEMAS_ENABLE", "false"),
    ];
    let without_effect = [
        ("CONFIG_STORAGE_REPLICATION_FACTOR", "1"),
        ("CONFIG_STORAGE_TOPIC", "c"),
        ("CUB_KAFKA_TIMEOUT", "300"),
        ("GROUP_ID", "connect"),
        (
            "INTERNAL_KEY_CONVERTER",
            "org.apache.kafka.connect.json.JsonConverter",
        ),
        ("INTERNAL_KEY_CONVERTER_SCHEMAS_ENABLE", "false"),
        ("LOG4J_APPENDER_STDOUT_LAYOUT_CONVERSIONPATTERN", "%m%n"),
        ("LOG4J_LOGGERS", "org.reflections=ERROR"),
        ("LOG4J_ROOT_LOGLEVEL", "INFO"),
        ("OFFSET_FLUSH_TIMEOUT_MS", "5000"),
        ("OFFSET_STORAGE_TOPIC", "o"),
        (
            "PLUGIN_PATH",
            "/usr/share/java,/usr/share/confluent-hub-components",
        ),
        ("REST_ADVERTISED_HOST_NAME", "connect"),
        ("REST_ADVERTISED_PORT", "8083"),
        ("REST_HOST_NAME", "0.0.0.0"),
        ("REST_PORT", "8083"),
        ("STATUS_STORAGE_TOPIC", "s"),
        ("TOPIC_CREATION_ENABLE", "true"),
        ("ZOOKEEPER_CONNECT", "zookeeper:2181"),
    ];
    let variables = taken.iter().chain(&without_effect);
    let variables: Vec<_> = variables
        .map(|(name, value)| (format!("CONNECT_{name}"), (*value).to_owned()))
        .collect();
    let said = sluice(&["check"], &variables);
    assert_eq!((said.exit, said.err.as_str()), (Exit::Fine, ""));
    let key = |name: &str| name.to_lowercase().replace('_', ".");
    for (name, value) in taken {
        let line = format!("  {} = {value}  (environment CONNECT_{name})", key(name));
        assert!(
            said.out.lines().any(|it| it == line),
            "no {line:?} in\n{}",
            said.out
        );
    }
    for (name, _) in without_effect {
        let note = format!("  note: {}: has no effect here, because ", key(name));
        assert!(said.out.contains(&note), "no {note:?} in\n{}", said.out);
    }
}
