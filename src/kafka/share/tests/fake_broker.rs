//! The whole source, and what becomes of it when the broker fails.

use std::time::Duration;

use krafka::error::ErrorCode;
use krafka::testing::{ApiKey, Control, FakeBroker, ShareAckType};
use sluice_actors::ports::source::{Settlement, SourceClosed};

use super::bed::{Bed, GROUP, PATIENCE, TOPIC};

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_settlement_arrives_as_it_was_meant() {
    let mut bed = Bed::start(1).await;
    bed.produce(5).await;
    bed.records(5).await;
    bed.settle(0, 1, Settlement::Accept);
    bed.settle(2, 2, Settlement::Reject);
    bed.settle(3, 3, Settlement::Renew);
    bed.until(&[
        "confirmed Accept 0-1",
        "confirmed Reject 2-2",
        "renewed Renew 3-3",
    ])
    .await;
    bed.settle(4, 4, Settlement::Release);
    bed.until(&["confirmed Release 4-4"]).await;
    bed.records(6).await;
    bed.settle(3, 4, Settlement::Accept);
    bed.until(&["confirmed Accept 3-4"]).await;
    use ShareAckType::{Accept, Reject, Release, Renew};
    assert_eq!(
        bed.acknowledged(),
        [
            (0, vec![Accept]),
            (1, vec![Accept]),
            (2, vec![Reject]),
            (3, vec![Renew, Accept]),
            (4, vec![Release, Accept])
        ]
    );
    assert_eq!(bed.batches.last().unwrap().records[0].delivery_count, 2);
    assert_eq!(bed.close().await, SourceClosed::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_one_connection_that_heartbeats_do_not_use() {
    let mut bed = Bed::start(1).await;
    bed.produce(5).await;
    bed.records(5).await;
    bed.settle(0, 4, Settlement::Renew);
    bed.until(&["renewed"]).await;
    let mut session = bed.connections(ApiKey::ShareFetch);
    session.extend(bed.connections(ApiKey::ShareAcknowledge));
    assert_eq!(session.len(), 1);
    let others = [
        bed.connections(ApiKey::ShareGroupHeartbeat),
        bed.connections(ApiKey::Metadata),
    ];
    assert!(others.iter().all(|other| other.is_disjoint(&session)));
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_out_of_step_costs_nothing() {
    for code in [
        ErrorCode::InvalidShareSessionEpoch,
        ErrorCode::ShareSessionNotFound,
    ] {
        let mut bed = Bed::start(1).await;
        bed.produce(5).await;
        bed.records(5).await;
        bed.broker
            .on_times(ApiKey::ShareFetch, 2, move |_| Control::Error(code));
        bed.settle(0, 4, Settlement::Accept);
        bed.until(&["confirmed Accept 0-4"]).await;
        assert!(
            bed.told.iter().all(|told| !told.contains("lost")),
            "{:?}",
            bed.told
        );
        assert!(bed.acknowledged().iter().all(|(_, types)| types.len() == 1));
        assert_eq!(bed.connections(ApiKey::ShareFetch).len(), 1);
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_whose_answer_is_lost_is_unknown_and_never_sent_again() {
    let mut bed = Bed::start(1).await;
    bed.produce(5).await;
    bed.records(5).await;
    let applied = || Control::ApplyThen(Box::new(Control::Disconnect));
    bed.broker
        .on_once(ApiKey::ShareAcknowledge, move |_| applied());
    bed.settle(0, 0, Settlement::Renew);
    bed.until(&["unknown Renew 0-0", "lost 0-4", "troubled", "broker 0"])
        .await;
    bed.told.clear();
    bed.until(&["ready"]).await;
    assert_eq!(bed.connections(ApiKey::ShareFetch).len(), 2);
    bed.settle(1, 1, Settlement::Accept);
    bed.until(&["unknown Accept 1-1"]).await;
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_restarts_is_met_again() {
    let mut bed = Bed::start(1).await;
    bed.produce(5).await;
    bed.records(5).await;
    bed.broker.crash(0);
    bed.until(&["lost 0-4", "troubled", "cannot be reached"])
        .await;
    bed.told.clear();
    bed.broker.restart(0);
    bed.until(&["ready"]).await;
    bed.produce(1).await;
    bed.records(6).await;
    bed.settle(5, 5, Settlement::Accept);
    bed.until(&["confirmed Accept 5-5"]).await;
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_does_not_answer_in_time_counts_as_lost() {
    let broker = FakeBroker::start_cluster(1).await.unwrap();
    broker.create_topic(TOPIC, 1);
    let mut bed = Bed::on(broker, |config| {
        config.request_timeout = Duration::from_millis(800);
    })
    .await;
    bed.produce(5).await;
    bed.records(5).await;
    bed.broker.on_once(ApiKey::ShareFetch, |_| Control::Silence);
    bed.settle(0, 0, Settlement::Accept);
    bed.until(&["lost 1-4", "no answer within 800 ms"]).await;
    bed.told.clear();
    bed.until(&["ready"]).await;
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_partition_is_tried_again_until_the_record_is_found() {
    let mut bed = Bed::start(1).await;
    bed.produce(4).await;
    bed.records(4).await;
    // Somebody else has settled one of the records.
    bed.broker.with_state(|state| {
        let group = state.share_groups.get_mut(GROUP).unwrap();
        let partition = group.partitions.get_mut(&(TOPIC.to_owned(), 0)).unwrap();
        partition.acquired.remove(&2);
        partition.archived.insert(2);
    });
    bed.settle(0, 3, Settlement::Accept);
    bed.until(&["unknown Accept 2-2", "confirmed Accept 3-3"])
        .await;
    assert!(!bed.told.iter().any(|told| told.contains("lost")));
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_leader_is_followed_after_the_loss_was_told() {
    let mut bed = Bed::start(2).await;
    bed.produce(3).await;
    bed.records(3).await;
    let before = bed.broker.request_nodes(ApiKey::ShareFetch)[0];
    let after = 1 - before;
    bed.broker.set_leader(TOPIC, 0, after);
    bed.until(&["lost 0-2"]).await;
    bed.broker.with_state(|state| {
        let group = state.share_groups.get_mut(GROUP).unwrap();
        let partition = group.partitions.get_mut(&(TOPIC.to_owned(), 0)).unwrap();
        partition.acquired.clear();
    });
    bed.records(6).await;
    assert!(
        bed.broker
            .request_nodes(ApiKey::ShareFetch)
            .contains(&after)
    );
    bed.settle(0, 2, Settlement::Accept);
    bed.until(&["confirmed Accept 0-2"]).await;
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_the_group_forgot_joins_anew_and_reads_on() {
    for code in [ErrorCode::UnknownMemberId, ErrorCode::FencedMemberEpoch] {
        let mut bed = Bed::start(1).await;
        bed.until(&["ready"]).await;
        bed.told.clear();
        bed.broker
            .on_once(ApiKey::ShareGroupHeartbeat, move |_| Control::Error(code));
        // Another subscription makes the member beat at once.
        bed.source.set_topics(vec![TOPIC.into(), "more".into()]);
        bed.broker.create_topic("more", 1);
        bed.until(&[&format!("{code:?}"), "ready"]).await;
        bed.produce(1).await;
        bed.records(1).await;
        let members = bed.broker.with_state(|state| {
            let group = &state.share_groups[GROUP];
            group.members.keys().cloned().collect::<Vec<_>>()
        });
        assert_eq!(members, [bed.source.member_id()]);
        assert!(bed.told.iter().all(|told| !told.contains("lost")));
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_moved_is_found_again() {
    let mut bed = Bed::start(2).await;
    bed.until(&["ready"]).await;
    let before = bed.broker.request_nodes(ApiKey::ShareGroupHeartbeat)[0];
    bed.broker.set_group_coordinator(GROUP, 1 - before);
    bed.source.set_topics(vec![TOPIC.into(), "more".into()]);
    let moved =
        bed.broker
            .wait_for_request_on_node(ApiKey::ShareGroupHeartbeat, 1 - before, PATIENCE);
    assert!(moved.await);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_the_operator_fails_the_source_by_name() {
    let cases = [
        (ErrorCode::GroupIdNotFound, "consumer group"),
        (ErrorCode::GroupAuthorizationFailed, "grant READ"),
        (ErrorCode::InvalidRequest, "InvalidRequest"),
    ];
    for (code, words) in cases {
        let broker = FakeBroker::start().await.unwrap();
        broker.create_topic(TOPIC, 1);
        broker.on(ApiKey::ShareGroupHeartbeat, move |_| Control::Error(code));
        let mut bed = Bed::on(broker, |_| {}).await;
        bed.until(&["failed", GROUP, words]).await;
        assert_eq!(bed.broker.request_count(ApiKey::ShareFetch), 0);
        bed.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_without_renewals_is_refused_by_version() {
    let broker = FakeBroker::start().await.unwrap();
    broker.create_topic(TOPIC, 1);
    broker.set_api_versions(ApiKey::ShareFetch, 1, 1);
    let mut bed = Bed::on(broker, |_| {}).await;
    bed.until(&["failed", "Kafka 4.2"]).await;
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_named_and_read_once_it_is_there() {
    let broker = FakeBroker::start().await.unwrap();
    let mut bed = Bed::on(broker, |_| {}).await;
    bed.until(&["topic orders does not exist"]).await;
    bed.broker.create_topic(TOPIC, 1);
    bed.produce(1).await;
    bed.records(1).await;
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_closes_the_session_and_leaves_the_group() {
    let mut bed = Bed::start(1).await;
    bed.produce(3).await;
    bed.records(3).await;
    bed.settle(0, 1, Settlement::Accept);
    let (first, second) = tokio::join!(bed.close(), bed.close());
    assert_eq!((first, second), Default::default());
    bed.until(&["confirmed Accept 0-1"]).await;
    assert!(
        bed.events.recv().await.is_none(),
        "the last event is the last"
    );
    assert_eq!(bed.broker.share_session_closes().len(), 1);
    let left = bed
        .broker
        .with_state(|state| state.share_groups[GROUP].members.is_empty());
    assert!(left);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_dropped_leaves_the_group_too() {
    let Bed {
        broker,
        source,
        mut events,
        ..
    } = Bed::start(1).await;
    drop(source);
    while events.recv().await.is_some() {}
    let left = broker.with_state(|state| {
        let group = state.share_groups.get(GROUP);
        group.is_none_or(|group| group.members.is_empty())
    });
    assert!(left);
}
