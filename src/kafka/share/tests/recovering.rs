//! What becomes of locks and settlements when something breaks.

use std::time::Duration;

use krafka::error::ErrorCode;
use sluice_actors::ports::source::Settlement;

use super::sim::{LOCK, Sim, answer, batches, key};
use crate::kafka::share::client::Membership;
use crate::kafka::share::layout::Survey;
use crate::kafka::share::request::{Body, Failure};
use crate::kafka::share::settlements::AckType;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_session_out_of_step_is_opened_anew_and_the_settlements_are_sent_again() {
    for code in [
        ErrorCode::ShareSessionNotFound,
        ErrorCode::InvalidShareSessionEpoch,
    ] {
        let mut sim = Sim::holding(1000, 0, 9);
        sim.settle(0, 0, 4, Settlement::Accept);
        sim.fetch(1);
        sim.news();
        assert!(!sim.refuse(1, code), "the connection lives");
        assert!(sim.news().is_empty(), "what is held is still ours");
        let opening = sim.request();
        assert_eq!(opening.epoch, 0);
        let Body::Fetch(fetch) = opening.body else {
            panic!("a session opens with a fetch");
        };
        assert_eq!(fetch.delta.added, [key(0)]);
        assert!(batches(&fetch.acknowledgements, 0).is_empty());
        sim.accept(1, &[]);
        let fetch = sim.fetch(1);
        assert_eq!(
            batches(&fetch.acknowledgements, 0),
            [(0, 4, AckType::Accept)]
        );
    }
}

#[test]
fn a_session_that_stays_out_of_step_is_opened_with_back_off() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.request();
    sim.refuse(1, ErrorCode::InvalidShareSessionEpoch);
    sim.request();
    sim.refuse(1, ErrorCode::InvalidShareSessionEpoch);
    assert!(sim.plan().is_empty());
    let wake_at = sim.client.wake_at(sim.now).unwrap();
    assert!(wake_at > sim.now);
    sim.now = wake_at;
    assert_eq!(sim.request().epoch, 0);
}

#[test]
fn a_lost_connection_is_told_before_anything_comes_again() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.settle(0, 0, 1, Settlement::Accept);
    sim.fetch(1);
    sim.settle(0, 2, 3, Settlement::Release);
    sim.settle(0, 4, 4, Settlement::Accept);
    sim.news();
    assert!(sim.disconnect(1));
    let news = sim.news();
    assert_eq!(
        news[..4],
        [
            "unknown Accept 0-1",
            "unknown Release 2-3",
            "unknown Accept 4-4",
            "lost 5-9"
        ]
    );
    assert!(
        news[4].starts_with("troubled") && news[4].contains("broker 1"),
        "{news:?}"
    );
    assert!(sim.plan().is_empty(), "with back-off");
    sim.pass(SOON);
    let fetch = sim.fetch(1);
    assert!(
        batches(&fetch.acknowledgements, 0).is_empty(),
        "nothing of the old session"
    );
    assert_eq!(fetch.max_records, 1000);
    sim.bring(1, 0, 0, 9);
    assert_eq!(sim.news(), ["ready", "acquired [0]"]);
}

#[test]
fn any_other_refusal_of_a_request_ends_the_session_with_its_connection() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.fetch(1);
    sim.news();
    assert!(sim.refuse(1, ErrorCode::UnknownServerError));
    assert_eq!(sim.news(), ["lost 0-9"]);
}

#[test]
fn too_many_sessions_is_a_trouble_that_passes() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.request();
    sim.refuse(1, ErrorCode::ShareSessionLimitReached);
    assert!(sim.plan().is_empty());
    sim.pass(SOON);
    sim.request();
    sim.refuse(1, ErrorCode::ShareSessionLimitReached);
    assert!(sim.news()[0].contains("ShareSessionLimitReached"));
    sim.pass(SOON);
    sim.request();
    sim.accept(1, &[]);
    assert_eq!(sim.news(), ["ready"]);
}

#[test]
fn a_partition_moves_only_after_its_records_are_lost() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.fetch(1);
    sim.news();
    sim.lead(&[2]);
    // Broker 1 may still bring records of it.
    assert!(sim.plan().iter().all(|request| request.broker != 2));
    assert!(sim.news().is_empty());
    sim.accept(1, &[]);
    let requests = sim.plan();
    assert_eq!(sim.news(), ["lost 0-9"]);
    let to_2 = requests.iter().find(|request| request.broker == 2).unwrap();
    assert!(matches!(&to_2.body, Body::Fetch(fetch) if fetch.delta.added == [key(0)]));
}

#[test]
fn a_broker_that_is_lost_is_looked_for_in_the_metadata() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.fetch(1);
    assert!(!sim.client.take_metadata_is_stale());
    sim.disconnect(1);
    assert!(sim.client.take_metadata_is_stale());
    // Another one leads meanwhile: the lost one is nobody's trouble any more.
    sim.lead(&[2]);
    sim.fetch(2);
    sim.news();
    sim.accept(2, &[]);
    assert_eq!(sim.news(), Vec::<String>::new());
}

#[test]
fn a_broker_that_is_lost_when_it_leads_nothing_is_no_trouble() {
    let mut sim = Sim::joined(1000, &[1, 2]);
    sim.plan();
    sim.accept(1, &[]);
    sim.accept(2, &[]);
    sim.plan();
    sim.news();
    sim.lead(&[1, 1]);
    sim.plan();
    sim.accept(2, &[]);
    // It leads nothing now, and is lost while its session is being closed.
    let requests = sim.plan();
    assert!(requests.iter().any(|request| request.epoch == -1));
    sim.news();
    sim.disconnect(2);
    assert!(sim.news()[0].contains("broker 2"));
    sim.plan();
    assert_eq!(sim.news(), ["ready"]);
}

#[test]
fn a_partition_without_a_leader_stays_where_it_is() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.lead(&[0]);
    sim.plan();
    sim.news();
    sim.settle(0, 0, 9, Settlement::Accept);
    sim.pass(Duration::from_millis(1));
    sim.plan();
    sim.accept(1, &[0]);
    assert_eq!(sim.news(), ["confirmed Accept 0-9"]);
}

#[test]
fn a_broker_that_does_not_lead_a_partition_has_lost_its_locks() {
    let mut sim = Sim::joined(1000, &[1, 1]);
    sim.fetch(1);
    sim.bring(1, 0, 0, 9);
    sim.settle(0, 0, 4, Settlement::Accept);
    sim.fetch(1);
    sim.news();
    let refused = answer(
        0,
        Some(ErrorCode::NotLeaderForPartition),
        Some(ErrorCode::NotLeaderForPartition),
    );
    sim.reply(1, vec![refused]);
    assert_eq!(sim.news(), ["unknown Accept 0-4", "lost 5-9"]);
    assert!(sim.client.take_metadata_is_stale());
    // The other partition goes on; this one is left out for a while.
    assert_eq!(sim.fetch(1).delta.forgotten, [key(0)]);
    sim.accept(1, &[]);
    sim.pass(SOON);
    assert_eq!(sim.fetch(1).delta.added, [key(0)]);
}

#[test]
fn an_acknowledgement_that_meets_no_leader_loses_the_partition_too() {
    let mut sim = Sim::holding(10, 0, 9);
    sim.news();
    sim.settle(0, 0, 4, Settlement::Renew);
    sim.acknowledge();
    let error = Some(ErrorCode::NotLeaderForPartition);
    sim.reply(1, vec![answer(0, None, error)]);
    assert_eq!(sim.news(), ["unknown Renew 0-4", "lost 0-9"]);
    assert!(sim.client.take_metadata_is_stale());
}

#[test]
fn a_topic_without_rights_is_named_and_the_others_go_on() {
    let mut sim = Sim::joined(1000, &[1, 1]);
    sim.fetch(1);
    sim.news();
    let refused = answer(0, Some(ErrorCode::TopicAuthorizationFailed), None);
    sim.bring_also(1, 1, 0, 9, vec![refused]);
    let news = sim.news();
    assert!(
        news.iter()
            .any(|told| told.contains("orders-0") && told.contains("grant READ"))
    );
    assert!(news.contains(&"acquired [1]".to_owned()));
    // Granted: told, and fetched again.
    sim.pass(SOON);
    sim.fetch(1);
    sim.accept(1, &[]);
    assert_eq!(sim.news(), ["ready"]);
}

#[test]
fn a_failure_of_the_broker_is_not_laid_to_the_assignment() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.fetch(1);
    let failed = answer(0, Some(ErrorCode::UnknownServerError), None);
    sim.reply(1, vec![failed]);
    let news = sim.news();
    let told = news.iter().find(|told| told.starts_with("troubled"));
    assert!(told.is_some_and(|told| told.contains("broker's log") && !told.contains("assignment")));
}

#[test]
fn a_refusal_to_serve_a_partition_speaks_of_the_assignment() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.fetch(1);
    sim.reply(1, vec![answer(0, Some(ErrorCode::InvalidRequest), None)]);
    assert!(
        sim.news()
            .iter()
            .any(|told| told.contains("beyond the assignment"))
    );
}

#[test]
fn a_deleted_topic_loses_what_is_open() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.news();
    sim.lead(&[]);
    sim.plan();
    assert_eq!(sim.news(), ["lost 0-9"]);
}

#[test]
fn a_failed_source_settles_on_and_fetches_no_more() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.news();
    sim.client
        .membership(Membership::Failed("no rights".into()), sim.now);
    sim.settle(0, 0, 9, Settlement::Accept);
    sim.pass(Duration::from_millis(1));
    assert_eq!(batches(&sim.acknowledge(), 0), [(0, 9, AckType::Accept)]);
    sim.accept(1, &[0]);
    assert_eq!(sim.news(), ["failed no rights", "confirmed Accept 0-9"]);
    assert!(sim.plan().is_empty());
}

#[test]
fn rights_on_the_group_that_are_gone_are_named_and_tried_again() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.fetch(1);
    sim.news();
    sim.refuse(1, ErrorCode::GroupAuthorizationFailed);
    assert_eq!(sim.news(), ["lost 0-9"]);
    sim.pass(SOON);
    sim.fetch(1);
    sim.refuse(1, ErrorCode::GroupAuthorizationFailed);
    let news = sim.news();
    assert!(news[0].starts_with("troubled") && news[0].contains("grant READ on the group"));
    sim.pass(SOON);
    sim.fetch(1);
    sim.accept(1, &[]);
    assert_eq!(sim.news(), ["ready"]);
}

#[test]
fn an_old_broker_fails_the_source() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.request();
    sim.fail(1, Failure::Impossible("needs Kafka 4.2".into()));
    assert!(
        sim.news()
            .iter()
            .any(|told| told.starts_with("failed") && told.contains("4.2"))
    );
}

#[test]
fn locks_that_ended_are_lost_by_the_next_sweep() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.fetch(1);
    sim.accept(1, &[]);
    sim.news();
    sim.pass(LOCK + Duration::from_secs(1));
    assert_eq!(sim.fetch(1).max_records, 1000);
    assert_eq!(sim.news(), ["lost 0-9"]);
    sim.settle(0, 0, 9, Settlement::Accept);
    assert_eq!(sim.news(), ["unknown Accept 0-9"]);
}

#[test]
fn a_trouble_is_told_before_ready_and_after_it_when_it_lasts() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.client
        .surveyed(Survey::Blind("no broker answers".into()), sim.now);
    sim.request();
    sim.accept(1, &[]);
    assert_eq!(
        sim.news(),
        [
            "troubled no broker answers",
            "ready",
            "troubled no broker answers"
        ]
    );
    sim.lead(&[1]);
    sim.plan();
    assert_eq!(sim.news(), ["ready"]);
}
