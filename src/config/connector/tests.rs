use std::collections::BTreeMap;

use super::*;
use crate::config::connector_keys::DEAD_LETTER_HEADERS;
use crate::config::overrides::AcquireMode;
use crate::config::testing::{PLUGINS, layer};

const GOOD: &[(&str, &str)] = &[
    ("name", "orders"),
    ("connector.class", "file"),
    ("file", "/tmp/orders"),
    ("topics", "orders"),
];

fn worker(pairs: &[(&str, &str)]) -> WorkerConfig {
    let base = layer(&[
        ("bootstrap.servers", "kafka:9092"),
        ("key.converter", "string"),
        ("value.converter", "json"),
        ("value.converter.schemas.enable", "false"),
        ("consumer.group.protocol", "share"),
    ]);
    let settings = Settings::merge([WorkerConfig::defaults(), base, layer(pairs)]).unwrap();
    let worker = WorkerConfig::read(settings, &PLUGINS);
    assert_eq!(worker.faults.to_string(), "");
    worker.config
}

fn read_in(worker: &WorkerConfig, pairs: &[(&str, &str)]) -> Checked<ConnectorConfig> {
    ConnectorConfig::read(vec![layer(GOOD), layer(pairs)], worker, &PLUGINS).unwrap()
}

pub(super) fn read(pairs: &[(&str, &str)]) -> Checked<ConnectorConfig> {
    read_in(&worker(&[]), pairs)
}

pub(crate) fn good(pairs: &[(&str, &str)]) -> ConnectorConfig {
    let connector = read(pairs);
    assert_eq!(connector.faults.to_string(), "");
    connector.config
}

pub(super) fn faults(pairs: &[(&str, &str)]) -> String {
    read(pairs).faults.to_string()
}

#[test]
fn what_is_shown_of_a_connector_is_what_was_given_without_secrets() {
    let connector = read(&[
        ("tasks.max", "3"),
        ("consumer.override.ssl.key.password", "hush"),
    ]);
    let shown = connector.config.shown;
    assert_eq!(shown["tasks.max"], "3");
    assert_eq!(shown["consumer.override.ssl.key.password"], "[hidden]");
    assert!(!shown.contains_key("value.converter"), "the worker's");
    assert!(!shown.contains_key("max.put.records"), "a default");
}

#[test]
fn errors_are_logged_and_records_quoted_by_two_settings() {
    for (enable, include_messages) in [(true, false), (false, true)] {
        let [on, quoted] = [enable, include_messages].map(|it| it.to_string());
        let pairs = [
            ("errors.log.enable", on.as_str()),
            ("errors.log.include.messages", quoted.as_str()),
        ];
        let log = ErrorLog {
            enable,
            include_messages,
        };
        assert_eq!(good(&pairs).errors.log, log);
    }
}

#[test]
fn defaults_are_connects_or_the_tables() {
    let connector = good(&[]);
    assert_eq!(connector.tasks_max, 1);
    assert_eq!(connector.max_put_records, 500);
    assert_eq!(
        connector.errors,
        ErrorsConfig {
            tolerates: false,
            retry_timeout: None,
            retry_delay_max: Duration::from_secs(60),
            log: ErrorLog::default(),
        }
    );
    assert_eq!(
        connector.share,
        ShareConfig {
            group_id: "share-orders".into(),
            max_in_flight_records: None,
            max_in_flight_bytes: 64 << 20,
            partition_max_record_locks: None,
            delivery_count_limit: None,
            record_lock_duration: None,
            auto_offset_reset: OffsetReset {
                strategy: "earliest".into(),
                is_given: false,
            },
            delivery_timeout: Duration::from_secs(300),
            releases_retriable: false,
        }
    );
    assert_eq!(
        connector.consumer.client.client_id,
        "connector-consumer-orders"
    );
    assert_eq!(connector.value_converter.class, "json");
    assert_eq!(connector.value_converter.properties().len(), 1);
}

#[test]
fn what_is_given_is_typed() {
    let connector = good(&[
        ("tasks.max", "8"),
        ("topics", "b, a,b"),
        ("errors.tolerance", "all"),
        ("errors.retry.timeout", "250"),
        ("share.group.id", "g"),
        ("share.max.in.flight.records", "4000"),
        ("share.delivery.count.limit", "10"),
        ("share.auto.offset.reset", "earliest"),
        ("share.acknowledge.after", "flush"),
        ("consumer.override.share.acquire.mode", "RECORD_LIMIT"),
    ]);
    assert!(matches!(&connector.topics, Topics::Named(topics) if *topics == ["a", "b"]));
    assert_eq!(connector.tasks_max, 8);
    assert!(connector.errors.tolerates);
    assert_eq!(
        connector.errors.retry_timeout,
        Some(Duration::from_millis(250))
    );
    assert_eq!(connector.share.group_id, "g");
    assert_eq!(connector.share.max_in_flight_records, Some(4000));
    assert_eq!(connector.share.delivery_count_limit, Some(10));
    assert!(connector.share.auto_offset_reset.is_given);
    assert_eq!(connector.consumer.acquire_mode, AcquireMode::RecordLimit);
}

#[test]
fn retries_end_never_at_once_or_in_time() {
    let timeout = |text| good(&[("errors.retry.timeout", text)]).errors.retry_timeout;
    assert_eq!(timeout("-1"), None);
    assert_eq!(timeout("0"), Some(Duration::ZERO));
    assert_eq!(faults(&[("errors.retry.timeout", "-2")]).lines().count(), 1);
}

#[test]
fn topics_are_named_or_matched() {
    let topics = |pattern| good(&[("topics", ""), ("topics.regex", pattern)]).topics;
    let Topics::Matching(pattern) = topics("orders-[a-z]+|x") else {
        panic!("no pattern");
    };
    assert!(pattern.is_match("orders-eu") && pattern.is_match("x"));
    assert!(!pattern.is_match("my-orders-eu") && !pattern.is_match("xy"));
    for (pairs, key) in [
        (
            &[("topics.regex", "a.*")][..],
            "topics.regex: excludes topics",
        ),
        (&[("topics", "")], "topics: is required and not set"),
        (&[("topics", "a b")], "topics: \"a b\" is no topic's name"),
        (
            &[("topics", ""), ("topics.regex", "(?=x)")],
            "topics.regex: is not a regular expression",
        ),
    ] {
        assert!(faults(pairs).starts_with(key), "{}", faults(pairs));
    }
}

#[test]
fn both_names_of_a_number_are_taken_but_not_together() {
    assert_eq!(
        good(&[("consumer.override.max.poll.records", "7")]).max_put_records,
        7
    );
    let lock = good(&[("share.acquisition.lock.timeout.ms", "40000")])
        .share
        .record_lock_duration;
    assert_eq!(lock, Some(Duration::from_secs(40)));
    assert_eq!(
        faults(&[
            ("max.put.records", "1"),
            ("consumer.override.max.poll.records", "2")
        ]),
        "consumer.override.max.poll.records: is another name of max.put.records, which is set too; remove one of them"
    );
    // The fault names the name that was used.
    let fault = faults(&[("consumer.override.max.poll.records", "0")]);
    assert_eq!(
        fault,
        "consumer.override.max.poll.records: 0 is not between 1 and 100000"
    );
}

#[test]
fn the_workers_put_size_is_a_default() {
    let worker = worker(&[("consumer.max.poll.records", "50")]);
    assert_eq!(read_in(&worker, &[]).config.max_put_records, 50);
    assert_eq!(
        read_in(&worker, &[("max.put.records", "9")])
            .config
            .max_put_records,
        9
    );
    let alias = read_in(&worker, &[("consumer.override.max.poll.records", "8")]);
    assert_eq!((alias.faults.len(), alias.config.max_put_records), (0, 8));
}

#[test]
fn consumer_groups_are_refused_with_the_key_to_set() {
    let plain = worker(&[("consumer.group.protocol", "consumer")]);
    let words = "reading as a consumer group is still to come; set consumer.override.group.protocol=share here, or consumer.group.protocol=share in the worker";
    assert_eq!(
        read_in(&plain, &[]).faults.to_string(),
        format!("consumer.override.group.protocol: is consumer in the worker: {words}")
    );
    assert_eq!(
        faults(&[("consumer.override.group.protocol", "consumer")]),
        format!("consumer.override.group.protocol: is consumer: {words}")
    );
    let own = read_in(&plain, &[("consumer.override.group.protocol", "share")]);
    assert_eq!(own.faults.to_string(), "");
    assert_eq!(
        faults(&[("consumer.override.group.protocol", "classic")]),
        "consumer.override.group.protocol: \"classic\" is not one of consumer, share"
    );
}

#[test]
fn features_to_come_are_refused_unless_they_are_off() {
    for (key, value) in [("share.order", "key"), ("exactly.once.mode", "ledger")] {
        let fault = faults(&[(key, value)]);
        assert_eq!(fault.lines().count(), 1, "{fault}");
        assert!(
            fault.starts_with(&format!("{key}: ")) && fault.contains("still to come"),
            "{fault}"
        );
    }
    good(&[("share.order", "none"), ("exactly.once.mode", "off")]);
}

#[test]
fn what_is_to_be_tried_again_is_held_unless_it_is_to_be_released() {
    assert!(!good(&[]).share.releases_retriable);
    assert!(
        good(&[("share.retriable", "release")])
            .share
            .releases_retriable
    );
}

#[test]
fn records_are_accepted_after_the_flush_unless_after_the_put_is_said() {
    let after = |value| {
        good(&[("share.acknowledge.after", value)])
            .flush
            .accepts_after_put
    };
    assert!(!good(&[]).flush.accepts_after_put && !after("flush"));
    assert!(after("put"));
}

#[test]
fn a_flush_that_could_never_come_is_refused() {
    let fits = [
        ("share.flush.records", "500"),
        ("share.flush.bytes", "1048576"),
        ("share.max.in.flight.records", "500"),
    ];
    let flush = good(&fits).flush;
    assert_eq!((flush.records, flush.bytes), (Some(500), Some(1 << 20)));
    assert_eq!(
        faults(&[
            ("share.flush.records", "501"),
            ("share.max.in.flight.records", "500"),
            ("share.flush.bytes", "2048"),
            ("share.max.in.flight.bytes", "1024"),
        ]),
        "share.flush.records: is more than share.max.in.flight.records, so it is never reached; set it lower\n\
         share.flush.bytes: is more than share.max.in.flight.bytes, so it is never reached; set it lower"
    );
}

#[test]
fn unknown_keys_are_refused_with_the_one_meant() {
    assert_eq!(
        faults(&[
            ("errors.deadletterqueue.context.header.enable", "true"),
            ("fil", "x"),
            ("group.protocol", "share"),
            ("consumer.group.protocol", "share"),
        ]),
        "consumer.group.protocol: is not known here; it is a worker's key\n\
         errors.deadletterqueue.context.header.enable: is not a known key; did you mean errors.deadletterqueue.context.headers.enable?\n\
         fil: is not a known key; did you mean file?\n\
         group.protocol: is not a known key; did you mean consumer.override.group.protocol?"
    );
}

/// Whoever misspells one of these believes his records to be safe.
#[test]
fn no_slip_in_a_key_of_error_handling_passes() {
    let of_errors = KEYS.iter().filter(|key| key.name.starts_with("errors."));
    let without_a_sign = |name: &'static str| {
        let cut = move |place| (format!("{}{}", &name[..place], &name[place + 1..]), name);
        (0..name.len()).map(cut)
    };
    let words = [
        ("errors.tolerence", "errors.tolerance"),
        ("error.tolerance", "errors.tolerance"),
        ("errors.retry.timeout.ms", "errors.retry.timeout"),
        ("errors.retry.delay.max", "errors.retry.delay.max.ms"),
        ("errors.log.enabled", "errors.log.enable"),
        ("errors.logs.include.message", "errors.log.include.messages"),
        ("errors.deadletterqueue.topic", DEAD_LETTER_TOPIC),
        ("errors.dead.letter.queue.topic.name", DEAD_LETTER_TOPIC),
        (
            "errors.deadletterqueue.topic.replication",
            DEAD_LETTER_REPLICATION,
        ),
        (
            "errors.deadletterqueue.context.headers",
            DEAD_LETTER_HEADERS,
        ),
    ];
    let words = words.map(|(wrong, right)| (wrong.to_owned(), right));
    let slips = of_errors.flat_map(|key| without_a_sign(key.name));
    let slips: BTreeMap<String, &str> = slips.chain(words).collect();
    assert!(slips.len() > 200, "{}", slips.len());
    let pairs: Vec<_> = slips.keys().map(|wrong| (wrong.as_str(), "all")).collect();
    let told = faults(&pairs);
    let mut told = told.lines();
    for (wrong, right) in &slips {
        let fault = format!("{wrong}: is not a known key; did you mean {right}?");
        assert_eq!(told.next(), Some(fault.as_str()));
    }
    assert_eq!(told.next(), None);
}

#[test]
fn an_unknown_class_does_not_make_all_its_keys_unknown() {
    assert_eq!(
        faults(&[
            ("connector.class", "fiel"),
            ("any.key", "x"),
            ("value.converter", "jsn"),
            ("value.converter.any", "x")
        ]),
        "connector.class: \"fiel\" is no sink; did you mean file?\n\
         value.converter: \"jsn\" is no converter; did you mean JsonConverter?"
    );
}

#[test]
fn plugins_find_their_own_faults() {
    assert_eq!(
        faults(&[
            ("value.converter", "json"),
            ("value.converter.schemas.enable", "perhaps")
        ]),
        "value.converter.schemas.enable: \"perhaps\" is neither true nor false"
    );
}

/// Connect drops these without a word, and users wonder.
#[test]
fn converter_keys_without_their_converter_are_refused() {
    assert_eq!(
        faults(&[("value.converter.schemas.enable", "true")]),
        "value.converter.schemas.enable: has no effect without value.converter in the same connector; the worker's converter has the worker's keys"
    );
}

#[test]
fn an_own_converter_leaves_the_workers_keys_behind() {
    let connector = good(&[("value.converter", "json")]);
    assert!(connector.value_converter.properties().is_empty());
}

#[test]
fn a_converter_is_needed_somewhere() {
    let settings = Settings::merge([
        WorkerConfig::defaults(),
        layer(&[
            ("bootstrap.servers", "kafka:9092"),
            ("consumer.group.protocol", "share"),
        ]),
    ]);
    let bare = WorkerConfig::read(settings.unwrap(), &PLUGINS).config;
    assert_eq!(
        read_in(&bare, &[]).faults.to_string(),
        "key.converter: is required: set it here, or in the worker for all connectors\n\
         value.converter: is required: set it here, or in the worker for all connectors"
    );
}

#[test]
fn the_workers_policy_binds_its_connectors() {
    let strict = worker(&[("connector.client.config.override.policy", "None")]);
    assert_eq!(
        read_in(&strict, &[("consumer.override.fetch.min.bytes", "1")])
            .faults
            .to_string(),
        "consumer.override.fetch.min.bytes: is not allowed by the worker's connector.client.config.override.policy=None"
    );
}

#[test]
fn other_clients_overrides_are_told_where_to_go() {
    assert_eq!(
        faults(&[("admin.override.sasl.mechanism", "PLAIN")]),
        "admin.override.sasl.mechanism: is not taken: there is one client for all; use consumer.override.sasl.mechanism"
    );
    let connector = read(&[("producer.override.acks", "all")]);
    assert_eq!(
        (connector.faults.len(), connector.notes.iter().count()),
        (0, 1)
    );
}

#[test]
fn nothing_that_is_printed_shows_a_secret() {
    let connector = read(&[
        ("file.seal", "hush"),
        ("consumer.override.security.protocol", "SASL_PLAINTEXT"),
        (
            "consumer.override.sasl.jaas.config",
            "x.PlainLoginModule required username=u password=hush;",
        ),
    ]);
    assert_eq!(connector.faults.to_string(), "");
    let shown: Vec<_> = connector.shown().collect();
    let printed = format!("{connector:?} {shown:?}");
    assert!(!printed.contains("hush"), "{printed}");
    assert!(
        shown
            .iter()
            .any(|(key, value, _)| *key == "file.seal" && value == "[hidden]")
    );
}
