use std::time::Duration;

use krafka::admin::{AlterShareGroupOffsetsOptions, TopicPartition};
use krafka::share_consumer::AcknowledgementMode;
use serde_json::json;
use sluice::kafka::admin::{
    AdminError, Direction, Migration, MigrationReport, ShareGroupCheck, Start, TopicSelection,
    WantedSettings,
};
use sluice_test_support::topics::unique_name;
use sluice_test_support::worker::run_command;

use crate::cluster::{admin, bootstrap_servers, commit, create_topic, eventually, kafka, produce};

const BINARY: &str = env!("CARGO_BIN_EXE_sluice");

async fn migration(direction: Direction, partitions: i32) -> (Migration, String) {
    let (topic, connector) = (unique_name("orders"), unique_name("migrated"));
    create_topic(&topic, partitions).await;
    let migration = Migration {
        direction,
        consumer_group: format!("connect-{connector}"),
        share_group: format!("share-{connector}"),
        topics: TopicSelection::Names(vec![topic.clone()]),
        dry_run: false,
    };
    (migration, topic)
}

/// What `sluice migrate` says about the connector of these groups.
async fn command(migration: &Migration, topic: &str, order: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (worker, file) = (path("worker.properties"), path("connector.json"));
    let servers = bootstrap_servers().await;
    std::fs::write(&worker, format!("bootstrap.servers={servers}\n")).unwrap();
    let name = migration.share_group.trim_start_matches("share-");
    let connector = json!({
        "name": name,
        "connector.class": "null",
        "topics": topic,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "consumer.override.group.protocol": "share",
    });
    std::fs::write(&file, connector.to_string()).unwrap();
    let places = ["--worker", &*worker, "--connector", &*file];
    let arguments = [&["migrate", name, "--to"], order, &places[..]].concat();
    run_command(BINARY, &arguments).await.unwrap()
}

async fn committed(migration: &Migration, topic: &str, partition: i32) -> Option<i64> {
    let committed = kafka()
        .await
        .admin()
        .list_consumer_group_offsets(&*migration.consumer_group, Default::default())
        .await
        .unwrap();
    let committed = committed.get(&TopicPartition::new(topic, partition))?;
    committed.as_ref().unwrap().offset
}

async fn set_share_start(migration: &Migration, topic: &str, partition: i32, offset: i64) {
    let start = (TopicPartition::new(topic, partition), offset);
    let answers = kafka()
        .await
        .admin()
        .alter_share_group_offsets(
            &*migration.share_group,
            [start],
            AlterShareGroupOffsetsOptions::default(),
        )
        .await
        .unwrap();
    answers.into_values().collect::<Result<(), _>>().unwrap();
}

fn starts(report: &MigrationReport) -> Vec<Start> {
    report.rows.iter().map(|row| row.start).collect()
}

#[tokio::test]
async fn positions_carried_over_are_where_the_share_group_begins() {
    let (mut migration, topic) = migration(Direction::ToShare, 2).await;
    produce(&topic, 0, 5).await;
    commit(&migration.consumer_group, &topic, &[(0, 3)]).await;
    let admin = admin().await;

    migration.dry_run = true;
    let report = admin.migrate(&migration).await.unwrap();
    assert_eq!(starts(&report), [Start::Set(3), Start::ByReset]);
    assert!(
        admin
            .share_positions(&migration.share_group)
            .await
            .unwrap()
            .is_empty()
    );

    migration.dry_run = false;
    let report = admin.migrate(&migration).await.unwrap();
    assert_eq!(starts(&report), [Start::Set(3), Start::ByReset]);
    let positions = admin.share_positions(&migration.share_group).await.unwrap();
    assert_eq!(positions.len(), 1);
    assert_eq!(
        (positions[0].start_offset, positions[0].lag),
        (Some(3), Some(2))
    );

    let again = admin.migrate(&migration).await.unwrap();
    assert_eq!(starts(&again), [Start::Already(3), Start::ByReset]);

    let check = ShareGroupCheck {
        connector: "migrated".to_owned(),
        group: migration.share_group.clone(),
        consumer_group: migration.consumer_group.clone(),
        topics: vec![topic.clone()],
        reset_given: false,
    };
    admin.check_share_group(&check).await.unwrap();
    admin
        .prepare_share_group(&migration.share_group, &WantedSettings::default())
        .await
        .unwrap();

    // The other partition has no position, so its record comes by the policy.
    produce(&topic, 1, 1).await;
    let member = kafka()
        .await
        .share_consumer(&*migration.share_group)
        .build()
        .await
        .unwrap();
    member.subscribe(&[&topic]).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let polled = member.poll(Duration::from_secs(1)).await.unwrap();
        seen.extend(
            polled
                .into_iter()
                .map(|record| (record.partition, record.offset)),
        );
    }
    seen.sort_unstable();
    assert_eq!(seen, [(0, 3), (0, 4), (1, 0)]);

    let error = admin.migrate(&migration).await.unwrap_err();
    let AdminError::HasMembers { group, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(group, &migration.share_group);
    member.close().await.unwrap();
}

#[tokio::test]
async fn consumer_group_with_members_is_refused_by_name() {
    let (migration, topic) = migration(Direction::ToShare, 1).await;
    let consumer = kafka()
        .await
        .consumer(&*migration.consumer_group)
        .build()
        .await
        .unwrap();
    consumer.subscribe(&[&topic]).await.unwrap();
    let admin = admin().await;
    eventually("the member joins", async || {
        let _ = consumer.poll(Duration::from_millis(50)).await;
        let found = admin.find_group(&migration.consumer_group).await.unwrap();
        found.is_some_and(|group| group.has_members())
    })
    .await;
    let error = admin.migrate(&migration).await.unwrap_err();
    let expected = format!("group {} still has members", migration.consumer_group);
    assert!(error.to_string().starts_with(&expected), "{error}");
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn back_to_the_consumer_group_the_start_offsets_are_committed() {
    let (migration, topic) = migration(Direction::ToConsumer, 2).await;
    produce(&topic, 1, 4).await;
    set_share_start(&migration, &topic, 1, 2).await;
    let admin = admin().await;
    let report = admin.migrate(&migration).await.unwrap();
    assert_eq!(starts(&report), [Start::ByReset, Start::Set(2)]);
    assert_eq!(committed(&migration, &topic, 1).await, Some(2));
    let again = admin.migrate(&migration).await.unwrap();
    assert_eq!(starts(&again), [Start::ByReset, Start::Already(2)]);
}

#[tokio::test]
async fn the_command_shows_first_and_carries_over_then() {
    let (migration, topic) = migration(Direction::ToShare, 1).await;
    produce(&topic, 0, 5).await;
    commit(&migration.consumer_group, &topic, &[(0, 3)]).await;
    let admin = admin().await;
    let start = async || {
        let positions = admin.share_positions(&migration.share_group).await.unwrap();
        positions.first().and_then(|position| position.start_offset)
    };

    let said = command(&migration, &topic, &["share", "--dry-run"]).await;
    assert!(said.contains("1 positions"), "{said}");
    assert!(said.contains("would be set"), "{said}");
    assert_eq!(start().await, None);

    let said = command(&migration, &topic, &["share"]).await;
    assert!(said.contains(" set for group share-"), "{said}");
    assert_eq!(start().await, Some(3));
}

/// Offset 1 is done, 0 is not: so 1 comes again.
#[tokio::test]
async fn the_command_carries_back_and_tells_what_comes_again() {
    let (migration, topic) = migration(Direction::ToConsumer, 1).await;
    produce(&topic, 0, 3).await;
    set_share_start(&migration, &topic, 0, 0).await;
    accept_of_three(&migration, &topic, 1).await;

    let said = command(&migration, &topic, &["consumer", "--dry-run"]).await;
    assert!(said.contains("would be set"), "{said}");
    assert_eq!(committed(&migration, &topic, 0).await, None);

    let said = command(&migration, &topic, &["consumer"]).await;
    assert!(said.trim_end().ends_with("come again"), "{said}");
    assert_eq!(committed(&migration, &topic, 0).await, Some(0));
}

/// As a member of the share group accepts one of three records, and leaves.
async fn accept_of_three(migration: &Migration, topic: &str, offset: i64) {
    let member = kafka()
        .await
        .share_consumer(&*migration.share_group)
        .acknowledgement_mode(AcknowledgementMode::Explicit)
        .build()
        .await
        .unwrap();
    member.subscribe(&[topic]).await.unwrap();
    let mut seen = 0;
    while seen < 3 {
        for record in member.poll(Duration::from_secs(1)).await.unwrap() {
            seen += 1;
            if record.offset == offset {
                member.ack(&record).unwrap();
            } else {
                member.release(&record).unwrap();
            }
        }
    }
    member.commit().await.unwrap();
    member.close().await.unwrap();
}

#[tokio::test]
async fn wrong_names_are_told() {
    let (mut migration, topic) = migration(Direction::ToShare, 1).await;
    let admin = admin().await;
    let error = admin.migrate(&migration).await.unwrap_err();
    let expected = format!(
        "group {} has no position for topic {topic}",
        migration.consumer_group
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
    migration.topics = TopicSelection::Names(vec![unique_name("nowhere")]);
    let error = admin.migrate(&migration).await.unwrap_err();
    assert!(matches!(error, AdminError::TopicMissing { .. }), "{error}");
}
