//! The test clusters keep their promises, or no other test can be believed.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use krafka::admin::{DeleteRecordsOptions, TopicPartition};
use sluice_test_support::{
    consume::{Follower, read_topic},
    counting::Tally,
    java::{self, Figures},
    kafka::{Kafka, KafkaOptions},
    process::{Process, Signal},
    produce::{NewRecord, ids, json_records, produce, produce_with},
    topics::unique_name,
    wait::eventually,
};

const PID_FILE: &str = "SLUICE_TEST_PID_FILE";
const SOON: Duration = Duration::from_secs(30);

fn runs(pid: u32) -> bool {
    // An orphan's zombie may wait for a parent that is in no hurry.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn all_produced_records_are_in_the_topic_spread_evenly() -> Result<()> {
    let kafka = Kafka::shared().await?;
    let admin = kafka.admin().await?;
    let topic = unique_name("spread");
    admin.create_topic(&topic, 3).await?;
    let confirmed = produce(kafka.bootstrap_servers(), &topic, json_records(300, 3, 100)).await?;
    assert_eq!(confirmed, 300);
    let ends = admin.end_offsets(&topic).await?;
    assert_eq!(ends.into_values().collect::<Vec<_>>(), [100, 100, 100]);
    Ok(())
}

#[tokio::test]
async fn a_follower_reads_on_as_its_topic_grows_and_tells_of_what_it_missed() -> Result<()> {
    let kafka = Kafka::shared().await?;
    let (servers, admin) = (kafka.bootstrap_servers(), kafka.admin().await?);
    let topic = unique_name("followed");
    admin.create_topic(&topic, 2).await?;
    let follower = Follower::start(servers, &topic);
    for _ in 0..3 {
        produce(servers, &topic, json_records(10, 2, 100)).await?;
    }
    assert_eq!(follower.stop().await?.len(), 30);

    let below = [(TopicPartition::new(&topic, 1), 5)];
    let options = DeleteRecordsOptions::default();
    let deleted = admin.client().delete_records(below, options).await?;
    deleted.into_values().collect::<krafka::Result<Vec<_>>>()?;
    let missed = Follower::start(servers, &topic).stop().await.unwrap_err();
    let told = format!("{missed:#}");
    assert!(
        told.contains("1@0 was deleted before it was read, 5 came"),
        "{told}"
    );
    Ok(())
}

#[tokio::test]
async fn records_come_back_with_key_headers_and_timestamp() -> Result<()> {
    let kafka = Kafka::shared().await?;
    let topic = unique_name("whole");
    kafka.admin().await?.create_topic(&topic, 2).await?;
    let full = NewRecord::value("v")
        .key("k")
        .header("trace", "t-1")
        .partition(1)
        .timestamp(1_700_000_000_000);
    let records = [full, NewRecord::tombstone("gone").partition(1)];
    produce(kafka.bootstrap_servers(), &topic, records).await?;
    let read = read_topic(kafka.bootstrap_servers(), &topic).await?;
    let [first, second] = read.as_slice() else {
        panic!("two records, not {read:?}");
    };
    assert_eq!((first.partition, first.offset), (1, 0));
    assert_eq!(first.key.as_deref(), Some(b"k".as_slice()));
    assert_eq!(first.header("trace").as_deref(), Some("t-1"));
    assert_eq!(first.timestamp, Some(1_700_000_000_000));
    assert_eq!((second.offset, &second.value), (1, &None));
    Ok(())
}

#[tokio::test]
async fn a_million_records_are_counted_in_a_topic() -> Result<()> {
    let kafka = Kafka::shared().await?;
    let topic = unique_name("million");
    kafka.admin().await?.create_topic(&topic, 4).await?;
    produce(
        kafka.bootstrap_servers(),
        &topic,
        json_records(1_000_000, 4, 100),
    )
    .await?;
    let read = read_topic(kafka.bootstrap_servers(), &topic).await?;
    let values = read.iter().filter_map(|record| record.value.as_deref());
    Tally::from_json_values(values, "/id").exactly_once(ids(1_000_000))
}

#[tokio::test]
async fn reading_a_topic_that_does_not_exist_is_an_error() -> Result<()> {
    let kafka = Kafka::shared().await?;
    let error = read_topic(kafka.bootstrap_servers(), "nowhere")
        .await
        .unwrap_err();
    assert!(format!("{error:#}").contains("nowhere"), "{error:#}");
    Ok(())
}

#[tokio::test]
async fn producing_to_a_topic_that_does_not_exist_is_an_error() -> Result<()> {
    let kafka = Kafka::shared().await?;
    let records = [NewRecord::value("lost")];
    let properties = [("topic.metadata.propagation.max.ms", "100")];
    let error = produce_with(kafka.bootstrap_servers(), "nowhere", records, &properties)
        .await
        .unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("nowhere"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_share_group_is_seen_with_its_type_its_lag_and_short_locks() -> Result<()> {
    let kafka = Kafka::shared().await?;
    let admin = kafka.admin().await?;
    let (topic, group) = (unique_name("lag"), unique_name("share-lag"));
    admin.create_topic(&topic, 2).await?;
    let settings = [
        ("share.auto.offset.reset", "earliest"),
        ("share.record.lock.duration.ms", "1000"),
    ];
    admin.alter_group(&group, &settings).await?;
    produce(kafka.bootstrap_servers(), &topic, json_records(200, 2, 100)).await?;
    let printed = java::run_tool(
        java::SHARE_CONSUMER_PERFORMANCE,
        &[
            "--bootstrap-server",
            kafka.bootstrap_servers(),
            "--topic",
            &topic,
            "--group",
            &group,
            "--num-records",
            "200",
        ],
    )
    .await?;
    let consumed = Figures::parse(&printed)?.number("data.consumed.in.nMsg")?;
    assert!(consumed >= 200.0, "{printed}");
    admin.wait_until_consumed(&group, &topic, SOON).await?;
    let state = admin.group(&group).await?.context("group is listed")?;
    assert_eq!(state.group_type, "share");
    assert_eq!(admin.group("never-used").await?, None);
    Ok(())
}

#[tokio::test]
async fn a_dropped_cluster_leaves_no_process_behind() -> Result<()> {
    let kafka = Kafka::start(KafkaOptions::new()).await?;
    let pid = kafka.node_pid(1)?.context("node 1 runs")?;
    assert!(runs(pid));
    drop(kafka);
    assert!(!runs(pid));
    Ok(())
}

/// What the next test does in the process that it kills.
async fn hold_a_broker(pid_file: &Path) -> Result<()> {
    let kafka = Kafka::shared().await?;
    let pid = kafka.node_pid(1)?.context("node 1 runs")?;
    std::fs::write(pid_file, pid.to_string())?;
    std::future::pending().await
}

#[tokio::test]
async fn the_death_of_the_test_process_ends_its_broker() -> Result<()> {
    if let Some(pid_file) = std::env::var_os(PID_FILE) {
        return hold_a_broker(Path::new(&pid_file)).await;
    }
    let folder = tempfile::tempdir()?;
    let pid_file = folder.path().join("pid");
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--exact", "the_death_of_the_test_process_ends_its_broker"])
        .env(PID_FILE, &pid_file)
        .env("TMPDIR", folder.path())
        // Its lines are not this run's results.
        .stdout(Stdio::null());
    let holder = Process::spawn("holder", command, folder.path())?;
    let pid = eventually("the broker is up", SOON, async || {
        let pid: u32 = std::fs::read_to_string(&pid_file)?.parse()?;
        anyhow::Ok(pid)
    })
    .await?;
    assert!(runs(pid));
    holder.kill()?;
    eventually("broker and data are gone", SOON, async || {
        std::fs::remove_file(&pid_file).ok();
        let left: Vec<_> = std::fs::read_dir(folder.path())?.collect();
        anyhow::ensure!(!runs(pid) && left.is_empty(), "{pid} {left:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_wrong_broker_property_is_told_with_the_log() {
    let options = KafkaOptions::new().property("num.io.threads", "none");
    let error = format!("{:#}", Kafka::start(options).await.unwrap_err());
    assert!(error.contains("num.io.threads"), "{error}");
}

#[tokio::test]
async fn one_of_three_nodes_may_die_and_come_back() -> Result<()> {
    let kafka = Kafka::start(KafkaOptions::new().nodes(3)).await?;
    let admin = kafka.admin().await?;
    admin.create_topic_with("replicated", 3, 3, &[]).await?;
    produce(
        kafka.bootstrap_servers(),
        "replicated",
        json_records(30, 3, 0),
    )
    .await?;
    kafka.kill_node(2)?;
    kafka.wait_for_nodes(2).await?;
    eventually("node 2 leads nothing", SOON, async || {
        let partitions = admin.describe_topic("replicated").await?.partitions;
        let leaders: Vec<_> = partitions.iter().filter_map(|it| it.leader).collect();
        anyhow::ensure!(leaders.len() == 3 && !leaders.contains(&2), "{leaders:?}");
        Ok(())
    })
    .await?;
    produce(
        kafka.bootstrap_servers(),
        "replicated",
        json_records(30, 3, 0),
    )
    .await?;
    kafka.start_node(2)?;
    kafka.wait_for_nodes(3).await?;
    let total: i64 = admin.end_offsets("replicated").await?.into_values().sum();
    assert_eq!(total, 60);
    Ok(())
}

#[tokio::test]
async fn a_frozen_node_wakes_with_its_data() -> Result<()> {
    let kafka = Kafka::start(KafkaOptions::new()).await?;
    kafka.admin().await?.create_topic("kept", 1).await?;
    kafka.signal_node(1, Signal::STOP)?;
    kafka.signal_node(1, Signal::CONT)?;
    produce(kafka.bootstrap_servers(), "kept", json_records(10, 1, 0)).await?;
    kafka.kill_node(1)?;
    kafka.start_node(1)?;
    kafka.wait_for_nodes(1).await?;
    let ends = kafka.admin().await?.end_offsets("kept").await?;
    assert_eq!(ends[&0], 10);
    Ok(())
}

#[tokio::test]
async fn the_secure_listener_takes_a_known_user_over_tls_and_nobody_else() -> Result<()> {
    let kafka = Kafka::start(KafkaOptions::new().user("alice", "alice-secret")).await?;
    kafka.admin().await?.create_topic("guarded", 1).await?;
    let servers = kafka.secure_bootstrap_servers()?;
    let ca_file = kafka.ca_file().to_string_lossy().into_owned();
    let login = |password, patience| {
        [
            ("security.protocol", "SASL_SSL"),
            ("sasl.mechanism", "SCRAM-SHA-512"),
            ("sasl.username", "alice"),
            ("sasl.password", password),
            ("ssl.ca.location", ca_file.as_str()),
            ("message.timeout.ms", patience),
        ]
    };
    let one = || json_records(1, 1, 0);
    produce_with(servers, "guarded", one(), &login("alice-secret", "30000")).await?;
    produce_with(servers, "guarded", one(), &login("wrong", "2000"))
        .await
        .unwrap_err();
    let ends = kafka.admin().await?.end_offsets("guarded").await?;
    assert_eq!(ends[&0], 1);
    Ok(())
}

#[tokio::test]
async fn the_plain_listener_takes_a_known_user_and_nobody_else() -> Result<()> {
    let kafka = Kafka::start(KafkaOptions::new().plain_user("alice", "alice-secret")).await?;
    kafka.admin().await?.create_topic("guarded", 1).await?;
    let servers = kafka.plain_bootstrap_servers()?;
    let login = |password, patience| {
        [
            ("security.protocol", "SASL_PLAINTEXT"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", "alice"),
            ("sasl.password", password),
            ("message.timeout.ms", patience),
        ]
    };
    let one = || json_records(1, 1, 0);
    produce_with(servers, "guarded", one(), &login("alice-secret", "30000")).await?;
    produce_with(servers, "guarded", one(), &login("wrong", "2000"))
        .await
        .unwrap_err();
    let ends = kafka.admin().await?.end_offsets("guarded").await?;
    assert_eq!(ends[&0], 1);
    Ok(())
}
