use std::time::Duration;

use krafka::admin::{CreatePartitionsOptions, DeleteTopicsOptions};
use sluice::kafka::admin::{TopicPattern, TopicSelection, TopicWatch};
use sluice_test_support::topics::unique_name;
use tokio::time::Instant;

use crate::cluster::{admin, commit, create_topic, eventually, kafka};

#[tokio::test]
async fn pattern_finds_whole_names_and_no_internal_topic() {
    let stem = unique_name("paid");
    let (orders, other) = (format!("{stem}.orders"), format!("{stem}.orders.old"));
    create_topic(&orders, 2).await;
    create_topic(&other, 1).await;
    // Makes the broker create its internal topic of offsets.
    commit(&unique_name("connect-any"), &orders, &[(0, 0)]).await;
    let admin = admin().await;

    let pattern = TopicPattern::compile(&format!(r"{stem}\.(orders|refunds)")).unwrap();
    let found = admin
        .resolve_topics(&TopicSelection::Pattern(pattern))
        .await
        .unwrap();
    assert_eq!(found.topics.keys().collect::<Vec<_>>(), [&orders]);
    assert_eq!(found.topics[&orders].partitions, 2);
    assert_ne!(found.topics[&orders].id.0, [0; 16]);

    let all = TopicSelection::Pattern(TopicPattern::compile(".*").unwrap());
    let found = admin.resolve_topics(&all).await.unwrap();
    assert!(found.topics.contains_key(&other));
    assert!(!found.topics.keys().any(|name| name.starts_with("__")));
}

#[tokio::test]
async fn missing_topics_are_named_and_the_others_found() {
    let (there, gone) = (unique_name("there"), unique_name("gone"));
    create_topic(&there, 1).await;
    let names = TopicSelection::Names(vec![gone.clone(), there.clone()]);
    let found = admin().await.resolve_topics(&names).await.unwrap();
    assert_eq!(found.topics.keys().collect::<Vec<_>>(), [&there]);
    assert_eq!(found.missing, [gone]);
}

#[tokio::test]
async fn looking_again_sees_new_grown_and_deleted_topics() {
    let stem = unique_name("watched");
    let (first, second) = (format!("{stem}.a"), format!("{stem}.b"));
    create_topic(&first, 1).await;
    let pattern = TopicPattern::compile(&format!("{stem}.*")).unwrap();
    let selection = TopicSelection::Pattern(pattern);
    let admin = admin().await;
    let resolved = admin.resolve_topics(&selection).await.unwrap();
    let mut watch = TopicWatch::new(Duration::from_secs(300), Instant::now(), resolved);

    create_topic(&second, 1).await;
    let grown = kafka()
        .await
        .admin()
        .create_partitions([(first.clone(), 3)], CreatePartitionsOptions::default())
        .await
        .unwrap();
    grown.into_values().collect::<Result<(), _>>().unwrap();
    eventually("growth shows", async || {
        admin.resolve_topics(&selection).await.unwrap().topics[&first].partitions == 3
    })
    .await;
    let changes = watch.look(
        Instant::now(),
        admin.resolve_topics(&selection).await.unwrap(),
    );
    assert_eq!(changes.added[0].name, second);
    assert_eq!(changes.grown[0].name, first);

    let deleted = kafka()
        .await
        .admin()
        .delete_topics([&first], DeleteTopicsOptions::default())
        .await
        .unwrap();
    deleted.into_values().collect::<Result<(), _>>().unwrap();
    eventually("the deletion shows", async || {
        !admin
            .resolve_topics(&selection)
            .await
            .unwrap()
            .topics
            .contains_key(&first)
    })
    .await;
    let changes = watch.look(
        Instant::now(),
        admin.resolve_topics(&selection).await.unwrap(),
    );
    assert_eq!(changes.removed[0].name, first);
    assert!(changes.added.is_empty());
}
