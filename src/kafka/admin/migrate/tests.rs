use super::*;
use sluice_actors::record::TopicId;

use crate::kafka::admin::topics::Topic;

fn migration(direction: Direction) -> Migration {
    Migration {
        direction,
        consumer_group: "connect-orders".to_owned(),
        share_group: "share-orders".to_owned(),
        topics: TopicSelection::Names(vec!["orders".to_owned()]),
        dry_run: false,
    }
}

fn orders() -> ResolvedTopics {
    let topic = Topic {
        name: "orders".to_owned(),
        id: TopicId::default(),
        partitions: 3,
    };
    ResolvedTopics {
        topics: BTreeMap::from([("orders".to_owned(), topic)]),
        missing: Vec::new(),
    }
}

fn at(offsets: &[(i32, i64)]) -> Positions {
    offsets
        .iter()
        .map(|(partition, offset)| (("orders".to_owned(), *partition), *offset))
        .collect()
}

fn stand(from: &[(i32, i64)], to: &[(i32, i64)]) -> Stand {
    Stand {
        ends: at(&[(0, 100), (1, 100), (2, 100)]),
        from: at(from),
        to: at(to),
    }
}

fn starts(stand: &Stand) -> Vec<Start> {
    let rows = plan(&migration(Direction::ToShare), &orders(), stand).unwrap();
    rows.into_iter().map(|row| row.start).collect()
}

#[test]
fn committed_offsets_become_starts_and_the_rest_is_left_to_the_reset_policy() {
    let stand = stand(&[(0, 40), (2, 0)], &[]);
    assert_eq!(
        starts(&stand),
        [Start::Set(40), Start::ByReset, Start::Set(0)]
    );
}

#[test]
fn second_run_changes_nothing() {
    let again = stand(&[(0, 40), (1, 7)], &[(0, 40), (1, 7)]);
    let rows = plan(&migration(Direction::ToShare), &orders(), &again).unwrap();
    assert_eq!(rows[0].start, Start::Already(40));
    assert!(changes(&rows).is_empty());
}

#[test]
fn partition_that_only_the_target_knows_stays_where_it_is() {
    let stand = stand(&[(0, 40)], &[(1, 7)]);
    assert_eq!(
        starts(&stand),
        [Start::Set(40), Start::Already(7), Start::ByReset]
    );
}

#[test]
fn target_moves_forward_but_never_back() {
    assert_eq!(starts(&stand(&[(0, 40)], &[(0, 10)]))[0], Start::Set(40));
    let ahead = stand(&[(0, 40)], &[(0, 50)]);
    let error = plan(&migration(Direction::ToShare), &orders(), &ahead).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("group share-orders stands at offset 50 of orders-0"),
        "{text}"
    );
    assert!(text.contains("offset 40 of group connect-orders"), "{text}");
}

#[test]
fn position_past_the_end_would_skip_records_and_is_not_carried() {
    let stand = stand(&[(0, 500), (1, 100)], &[]);
    let past = Start::PastEnd {
        position: 500,
        end: 100,
    };
    assert_eq!(starts(&stand), [past, Start::Set(100), Start::ByReset]);
}

#[test]
fn group_without_any_position_is_refused_by_name() {
    for (direction, group) in [
        (Direction::ToShare, "connect-orders"),
        (Direction::ToConsumer, "share-orders"),
    ] {
        let error = plan(&migration(direction), &orders(), &stand(&[], &[])).unwrap_err();
        let expected = format!("group {group} has no position for topic orders");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[test]
fn groups_in_use_or_of_the_wrong_kind_are_refused() {
    let known = |kind: &str, state: &str| KnownGroup {
        kind: kind.to_owned(),
        protocol: String::new(),
        state: state.to_owned(),
    };
    let refuse = |consumer: Option<KnownGroup>, share: Option<KnownGroup>| {
        let migration = migration(Direction::ToShare);
        refuse_owners(&migration, consumer.as_ref(), share.as_ref())
    };
    assert!(refuse(None, None).is_ok());
    assert!(
        refuse(
            Some(known("classic", "Empty")),
            Some(known("share", "Empty"))
        )
        .is_ok()
    );
    for (consumer, share, text) in [
        (
            Some(known("consumer", "Stable")),
            None,
            "group connect-orders still has members",
        ),
        (
            None,
            Some(known("share", "Stable")),
            "group share-orders still has members",
        ),
        (
            None,
            Some(known("classic", "Empty")),
            "group id share-orders belongs to a classic",
        ),
        (
            Some(known("share", "Empty")),
            None,
            "group id connect-orders belongs to a share",
        ),
    ] {
        let error = refuse(consumer, share).unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
}

#[test]
fn reading_back_another_offset_is_an_error_that_names_the_partition() {
    let wanted = at(&[(0, 40), (1, 7)]);
    assert!(compare("share-orders", &wanted, &wanted).is_ok());
    let error = compare("share-orders", &wanted, &at(&[(0, 40)])).unwrap_err();
    assert!(
        error.to_string().contains("offset 7 of orders-1"),
        "{error}"
    );
    assert!(error.to_string().contains("shows none"), "{error}");
}

#[test]
fn group_that_filled_meanwhile_is_told_as_having_members() {
    let refusal = KrafkaError::broker(ErrorCode::NonEmptyGroup, "not empty");
    let error = not_carried("share-orders", None, refusal);
    assert!(matches!(error, AdminError::HasMembers { .. }), "{error}");
}

#[test]
fn right_on_the_topic_is_asked_for_on_the_topic() {
    let refusal = KrafkaError::broker(ErrorCode::TopicAuthorizationFailed, "no");
    let place = TopicPartition::new("orders", 1);
    let error = not_carried("share-orders", Some(&place), refusal).to_string();
    assert!(error.contains("grant READ on topic orders"), "{error}");
}

#[test]
fn report_is_a_table_of_topic_partition_and_offset() {
    let stand = stand(&[(0, 40)], &[]);
    let report = |direction, dry_run| MigrationReport {
        direction,
        from: "connect-orders".to_owned(),
        to: "share-orders".to_owned(),
        dry_run,
        rows: plan(&migration(Direction::ToShare), &orders(), &stand).unwrap(),
    };
    assert_eq!(
        report(Direction::ToShare, true).to_string(),
        "TOPIC   PARTITION  START OFFSET\n\
         orders          0  40\n\
         orders          1  by the reset policy (no position)\n\
         orders          2  by the reset policy (no position)\n\
         1 positions of group connect-orders would be set for group share-orders"
    );
    let back = report(Direction::ToConsumer, false).to_string();
    assert!(back.contains(" set for group"), "{back}");
    assert!(back.ends_with("has finished already come again"), "{back}");
}
