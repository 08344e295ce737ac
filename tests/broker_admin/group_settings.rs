use std::time::Duration;

use krafka::admin::AclOperation;
use sluice::kafka::admin::{AdminError, Setting, WantedSettings};
use sluice_test_support::topics::unique_name;

use crate::cluster::{admin, alice, alices_servers, deny_alice, set_config};

const RESET: &str = "share.auto.offset.reset";
const LIMIT: &str = "share.delivery.count.limit";

fn known<T>(value: T) -> Setting<T> {
    Setting { value, known: true }
}

#[tokio::test]
async fn fresh_group_gets_earliest_and_ten_attempts_and_the_broker_shows_both() {
    let (admin, group) = (admin().await, unique_name("share-fresh"));
    let prepared = admin
        .prepare_share_group(&group, &WantedSettings::default())
        .await
        .unwrap();
    assert_eq!(
        prepared.settings.auto_offset_reset,
        known("earliest".to_owned())
    );
    assert_eq!(prepared.settings.delivery_limit, known(10));
    assert_eq!(prepared.settings.max_record_locks, known(2000));
    assert_eq!(
        prepared.settings.lock_duration,
        known(Duration::from_secs(30))
    );
    assert_eq!(prepared.settings.renew_enabled, known(true));
    assert!(prepared.warnings.is_empty(), "{:?}", prepared.warnings);
}

#[tokio::test]
async fn settings_are_the_same_after_a_second_start() {
    let (admin, group) = (admin().await, unique_name("share-twice"));
    let wanted = WantedSettings {
        auto_offset_reset: Some("by_duration:PT1H".to_owned()),
        max_record_locks: Some(4000),
        delivery_limit: Some(7),
        lock_duration: Some(Duration::from_secs(2)),
    };
    let first = admin.prepare_share_group(&group, &wanted).await.unwrap();
    assert_eq!(first.settings.max_record_locks, known(4000));
    assert_eq!(first.settings.delivery_limit, known(7));
    assert_eq!(first.settings.lock_duration, known(Duration::from_secs(2)));
    assert_eq!(
        first.settings.auto_offset_reset,
        known("by_duration:PT1H".to_owned())
    );
    let second = admin.prepare_share_group(&group, &wanted).await.unwrap();
    assert_eq!(second.settings, first.settings);
    assert!(second.warnings.is_empty(), "{:?}", second.warnings);
}

#[tokio::test]
async fn operators_values_stay_and_a_warning_names_key_both_values_and_the_command() {
    let (admin, group) = (admin().await, unique_name("share-operator"));
    set_config(&group, RESET, "latest").await;
    set_config(&group, LIMIT, "3").await;
    let prepared = admin
        .prepare_share_group(&group, &WantedSettings::default())
        .await
        .unwrap();
    assert_eq!(
        prepared.settings.auto_offset_reset,
        known("latest".to_owned())
    );
    assert_eq!(prepared.settings.delivery_limit, known(3));
    assert_eq!(prepared.warnings.len(), 2, "{:?}", prepared.warnings);
    let warning = &prepared.warnings[0];
    assert!(
        warning.starts_with("share.auto.offset.reset=latest is set on share group"),
        "{warning}"
    );
    assert!(warning.contains("would set earliest"), "{warning}");
    let command = format!("--entity-name {group} --add-config share.auto.offset.reset=earliest`");
    assert!(warning.contains(&command), "{warning}");
}

#[tokio::test]
async fn value_out_of_bounds_names_key_and_bound_and_changes_nothing() {
    let (admin, group) = (admin().await, unique_name("share-bounds"));
    let wanted = WantedSettings {
        max_record_locks: Some(100_000),
        ..WantedSettings::default()
    };
    let error = admin
        .prepare_share_group(&group, &wanted)
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, AdminError::InvalidSetting { .. }), "{text}");
    assert!(
        text.contains("share.partition.max.record.locks=100000"),
        "{text}"
    );
    assert!(text.contains("100 to 4000"), "{text}");
    let wanted = WantedSettings {
        auto_offset_reset: Some("latest".to_owned()),
        ..WantedSettings::default()
    };
    let prepared = admin.prepare_share_group(&group, &wanted).await.unwrap();
    assert_eq!(
        prepared.settings.auto_offset_reset,
        known("latest".to_owned())
    );
}

#[tokio::test]
async fn missing_right_refuses_a_group_that_would_skip_its_backlog() {
    let servers = alices_servers().await;
    for (operation, right) in [
        (AclOperation::AlterConfigs, "ALTER_CONFIGS"),
        (AclOperation::DescribeConfigs, "DESCRIBE_CONFIGS"),
    ] {
        let group = unique_name("share-denied");
        deny_alice(&group, operation).await;
        let refused = alice()
            .await
            .prepare_share_group(&group, &WantedSettings::default())
            .await;
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains(&format!("the right {right} on group {group}")),
            "{text}"
        );
        let command = format!(
            "kafka-configs.sh --bootstrap-server {servers} --alter --entity-type groups \
             --entity-name {group} --add-config \
             share.auto.offset.reset=earliest,share.delivery.count.limit=10`"
        );
        assert!(text.contains(&command), "{text}");
    }
}

#[tokio::test]
async fn missing_right_is_a_warning_when_latest_was_asked_for() {
    let latest = WantedSettings {
        auto_offset_reset: Some("latest".to_owned()),
        ..WantedSettings::default()
    };
    let group = unique_name("share-latest");
    deny_alice(&group, AclOperation::AlterConfigs).await;
    let prepared = alice()
        .await
        .prepare_share_group(&group, &latest)
        .await
        .unwrap();
    assert_eq!(prepared.settings.delivery_limit, known(5));
    assert!(
        prepared.warnings[0].contains("ALTER_CONFIGS"),
        "{:?}",
        prepared.warnings
    );

    let group = unique_name("share-blind");
    deny_alice(&group, AclOperation::DescribeConfigs).await;
    let prepared = alice()
        .await
        .prepare_share_group(&group, &latest)
        .await
        .unwrap();
    let assumed = Setting {
        value: 2,
        known: false,
    };
    assert_eq!(prepared.settings.delivery_limit, assumed);
    assert_eq!(prepared.warnings.len(), 2, "{:?}", prepared.warnings);
    assert!(
        prepared.warnings[0].contains("DESCRIBE_CONFIGS"),
        "{:?}",
        prepared.warnings
    );
}

#[tokio::test]
async fn operators_settings_need_no_right_to_alter() {
    let group = unique_name("share-ready");
    set_config(&group, RESET, "earliest").await;
    set_config(&group, LIMIT, "10").await;
    deny_alice(&group, AclOperation::AlterConfigs).await;
    let prepared = alice()
        .await
        .prepare_share_group(&group, &WantedSettings::default())
        .await
        .unwrap();
    assert!(prepared.warnings.is_empty(), "{:?}", prepared.warnings);
    assert_eq!(prepared.settings.delivery_limit, known(10));
}
