use krafka::Kafka;
use krafka::testing::{ApiKey, FakeBroker};

use super::*;
use crate::kafka::admin::ShareGroupCheck;

async fn without_group_apis() -> (FakeBroker, Admin) {
    let broker = FakeBroker::start().await.unwrap();
    let servers = broker.bootstrap_servers();
    let kafka = Kafka::builder(servers.clone()).connect().await.unwrap();
    (broker, Admin::new(kafka.admin(), servers))
}

#[tokio::test]
async fn broker_without_group_settings_means_warnings_and_assumptions() {
    let (_broker, admin) = without_group_apis().await;
    let prepared = admin
        .prepare_share_group("share-orders", &WantedSettings::default())
        .await
        .unwrap();
    assert!(!prepared.settings.delivery_limit.known);
    assert_eq!(prepared.settings.delivery_limit.value, 2);
    assert_eq!(prepared.warnings.len(), 2, "{:?}", prepared.warnings);
    assert!(prepared.warnings[0].contains("does not offer the API"));
}

#[tokio::test]
async fn broker_that_lists_no_groups_is_warned_of_and_gone_on_with() {
    let (_broker, admin) = without_group_apis().await;
    let check = ShareGroupCheck {
        connector: "orders".to_owned(),
        group: "share-orders".to_owned(),
        consumer_group: "connect-orders".to_owned(),
        topics: vec!["orders".to_owned()],
        reset_given: false,
    };
    let warnings = admin.check_share_group(&check).await.unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

#[tokio::test]
async fn broker_that_is_not_there_is_an_error_that_names_the_group() {
    let broker = FakeBroker::start().await.unwrap();
    broker.set_api_versions(ApiKey::DescribeConfigs, 1, 4);
    let servers = broker.bootstrap_servers();
    let kafka = Kafka::builder(servers.clone()).connect().await.unwrap();
    broker.crash(0);
    let client = kafka
        .admin()
        .default_api_timeout(Duration::from_millis(300));
    let admin = Admin::new(client, servers);
    let error = admin
        .prepare_share_group("share-orders", &WantedSettings::default())
        .await
        .unwrap_err();
    assert!(error.is_retriable(), "{error}");
    assert!(error.to_string().contains("group share-orders"), "{error}");
}
