use krafka::admin::{AclOperation, AlterShareGroupOffsetsOptions, TopicPartition};
use sluice::kafka::admin::{AdminError, ShareGroupCheck};
use sluice_test_support::topics::unique_name;

use crate::cluster::{admin, alice, commit, create_topic, deny_alice, kafka};

async fn check(stem: &str) -> ShareGroupCheck {
    let topic = unique_name("orders");
    create_topic(&topic, 2).await;
    let connector = unique_name(stem);
    ShareGroupCheck {
        group: format!("share-{connector}"),
        consumer_group: format!("connect-{connector}"),
        connector,
        topics: vec![topic],
        reset_given: false,
    }
}

#[tokio::test]
async fn id_of_an_empty_consumer_group_is_refused_with_its_kind() {
    let check = check("taken").await;
    commit(&check.group, &check.topics[0], &[(0, 0)]).await;
    let error = admin().await.check_share_group(&check).await.unwrap_err();
    let expected = format!(
        "group id {} belongs to a classic group (state Empty)",
        check.group
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test]
async fn new_group_is_refused_while_its_connectors_committed_offsets_wait() {
    let mut check = check("waiting").await;
    let admin = admin().await;
    assert!(admin.check_share_group(&check).await.unwrap().is_empty());

    commit(&check.consumer_group, &check.topics[0], &[(1, 0)]).await;
    let error = admin.check_share_group(&check).await.unwrap_err();
    assert!(matches!(error, AdminError::NotMigrated { .. }), "{error}");

    check.reset_given = true;
    assert!(admin.check_share_group(&check).await.unwrap().is_empty());
}

#[tokio::test]
async fn group_with_start_offsets_counts_as_migrated() {
    let check = check("migrated").await;
    commit(&check.consumer_group, &check.topics[0], &[(0, 0)]).await;
    let start = (TopicPartition::new(check.topics[0].clone(), 0), 0);
    let answers = kafka()
        .await
        .admin()
        .alter_share_group_offsets(
            &*check.group,
            [start],
            AlterShareGroupOffsetsOptions::default(),
        )
        .await
        .unwrap();
    answers.into_values().collect::<Result<(), _>>().unwrap();
    assert!(
        admin()
            .await
            .check_share_group(&check)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn consumer_group_out_of_sight_is_a_warning_that_names_right_and_command() {
    let check = check("unseen").await;
    commit(&check.consumer_group, &check.topics[0], &[(0, 0)]).await;
    deny_alice(&check.consumer_group, AclOperation::All).await;
    let warnings = alice().await.check_share_group(&check).await.unwrap();
    let named = format!("grant DESCRIBE on group {}", check.consumer_group);
    assert!(warnings[0].contains(&named), "{warnings:?}");
    assert!(warnings[0].contains("sluice migrate"), "{warnings:?}");
}
