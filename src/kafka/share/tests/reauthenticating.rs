//! What a session does about credentials that end.

use std::sync::Arc;
use std::time::Duration;

use krafka::auth::AuthConfig;
use sluice_actors::ports::source::Settlement;

use super::sim::{LOCK, Sim, batches};
use crate::kafka::share::reauthentication::Validity;
use crate::kafka::share::request::Body;
use crate::kafka::share::settlements::AckType;

const MILLI: Duration = Duration::from_millis(1);
const LIFE: Duration = Duration::from_secs(100);
/// When fresh credentials are due.
const DUE: Duration = Duration::from_secs(90);

/// A session with ten open records, at the time when fresh credentials are due.
fn due() -> Sim {
    let mut sim = Sim::joined(1000, &[1]);
    sim.validity = Some(Validity::new(sim.now, sim.now + LIFE));
    sim.fetch(1);
    sim.bring(1, 0, 0, 9);
    keep_open(&mut sim, DUE);
    assert!(sim.client.take_due_credentials().is_empty());
    sim.pass(MILLI);
    sim.news();
    sim
}

/// Lets that much time pass but for a millisecond, and renews the locks.
fn keep_open(sim: &mut Sim, time: Duration) {
    let end = sim.now + time - MILLI;
    while sim.now < end {
        sim.pass((LOCK / 2).min(end - sim.now));
        sim.settle(0, 0, 9, Settlement::Renew);
        sim.acknowledge();
        sim.accept(1, &[0]);
    }
}

fn is_asked(sim: &mut Sim) -> bool {
    let due = sim.client.take_due_credentials();
    due.iter().any(|(broker, _)| *broker == 1)
}

/// They are asked for, and come.
fn fresh(sim: &mut Sim) {
    assert!(is_asked(sim));
    let fresh = Arc::new(AuthConfig::sasl_plain("alice", "hush"));
    sim.client.credentials(1, Ok(fresh), sim.now);
}

/// They are asked for, and cannot be had.
fn none(sim: &mut Sim) {
    assert!(is_asked(sim));
    sim.client.credentials(1, Err("no token".into()), sim.now);
    sim.plan();
}

/// The broker takes what it was sent in place.
fn renewed(sim: &mut Sim) {
    sim.validity = Some(Validity::new(sim.now, sim.now + LIFE));
    sim.accept(1, &[]);
}

fn is_reauthentication(body: &Body) -> bool {
    matches!(body, Body::Reauthenticate(_))
}

#[test]
fn the_session_goes_on_where_it_was_and_nothing_is_lost() {
    let mut sim = due();
    let before = sim.request();
    fresh(&mut sim);
    assert!(sim.plan().is_empty(), "one request at a time");
    sim.accept(1, &[]);
    sim.settle(0, 0, 4, Settlement::Accept);
    assert!(is_reauthentication(&sim.request().body), "ahead of all");
    sim.pass(LOCK / 4);
    sim.settle(0, 5, 9, Settlement::Renew);
    assert!(sim.plan().is_empty(), "the broker takes nothing meanwhile");
    renewed(&mut sim);
    let after = sim.request();
    assert_eq!(after.epoch, before.epoch + 1);
    let Body::Acknowledge(sent) = after.body else {
        panic!("a renewal goes first: {after:?}");
    };
    let expected = [(0, 4, AckType::Accept), (5, 9, AckType::Renew)];
    assert_eq!(batches(&sent, 0), expected);
    sim.accept(1, &[0]);
    assert_eq!(
        sim.news(),
        ["confirmed Accept 0-4", "renewed Renew 5-9"],
        "nothing is lost, no trouble is told"
    );
    assert!(sim.client.take_due_credentials().is_empty());
}

#[test]
fn requests_do_not_wait_while_credentials_are_fetched() {
    let mut sim = due();
    sim.fetch(1);
    assert!(is_asked(&mut sim));
    sim.accept(1, &[]);
    let fetch = sim.fetch(1);
    assert!(fetch.max_wait < Duration::from_millis(100), "{fetch:?}");
    assert!(fetch.max_wait > Duration::ZERO, "{fetch:?}");
    sim.accept(1, &[]);
    assert!(
        sim.client.take_due_credentials().is_empty(),
        "they are asked for once"
    );
}

#[test]
fn a_fetch_does_not_wait_past_the_time_when_fresh_credentials_are_due() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.validity = Some(Validity::new(sim.now, sim.now + LIFE));
    sim.fetch(1);
    sim.accept(1, &[]);
    assert_eq!(sim.fetch(1).max_wait.as_millis(), 500);
    sim.accept(1, &[]);
    sim.pass(DUE - Duration::from_millis(300));
    assert_eq!(sim.fetch(1).max_wait.as_millis(), 300);
    sim.bring(1, 0, 0, 9);
    for _ in 0..3 {
        sim.fetch(1);
        sim.accept(1, &[]);
    }
    sim.pass(Duration::from_millis(297));
    let wait = sim.fetch(1).max_wait.as_millis();
    assert_eq!(wait, 3, "also while busy, for 8");
}

#[test]
fn a_session_out_of_step_authenticates_before_it_opens_anew() {
    let mut sim = due();
    sim.fetch(1);
    fresh(&mut sim);
    sim.refuse(1, krafka::error::ErrorCode::InvalidShareSessionEpoch);
    assert!(is_reauthentication(&sim.request().body));
    renewed(&mut sim);
    assert_eq!(sim.request().epoch, 0);
    assert!(sim.news().is_empty(), "what is held is still ours");
}

#[test]
fn without_fresh_credentials_the_session_is_drained_before_the_end_and_replaced() {
    let mut sim = due();
    sim.fetch(1);
    sim.accept(1, &[]);
    none(&mut sim);
    assert_eq!(
        sim.news(),
        ["troubled no fresh credentials for broker 1: no token"]
    );
    assert!(sim.plan().is_empty(), "less than half a lock is left");
    sim.settle(0, 0, 7, Settlement::Accept);
    sim.pass(MILLI);
    sim.acknowledge();
    sim.accept(1, &[0]);
    sim.pass(LIFE - DUE - 2 * MILLI);
    sim.plan();
    none(&mut sim);
    sim.pass(MILLI);
    assert_eq!(sim.request().epoch, -1);
    assert!(sim.accept(1, &[]), "the connection is replaced");
    assert!(sim.news().contains(&"lost 8-9".to_owned()));
    sim.validity = Some(Validity::new(sim.now, sim.now + LIFE));
    assert_eq!(sim.request().epoch, 0);
    sim.accept(1, &[]);
    assert_eq!(sim.news(), ["ready"], "the trouble is over");
}

#[test]
fn credentials_that_come_late_still_keep_the_session() {
    let mut sim = due();
    sim.fetch(1);
    sim.accept(1, &[]);
    none(&mut sim);
    sim.pass(LIFE - DUE - 2 * MILLI);
    sim.plan();
    sim.news();
    fresh(&mut sim);
    assert!(is_reauthentication(&sim.request().body));
    renewed(&mut sim);
    assert_eq!(sim.news(), ["ready"], "the trouble is over");
    assert!(matches!(sim.request().body, Body::Fetch(_)));
}

#[test]
fn a_worker_that_overslept_sends_its_credentials_before_anything_else() {
    let mut sim = due();
    sim.pass(LOCK / 4);
    sim.pass(LIFE - DUE);
    assert!(sim.plan().is_empty(), "the broker would take nothing");
    fresh(&mut sim);
    assert!(is_reauthentication(&sim.request().body));
    renewed(&mut sim);
    assert!(!sim.plan().is_empty());
    assert!(sim.news().is_empty());
}

#[test]
fn a_broker_that_refuses_the_credentials_has_ended_the_session() {
    let mut sim = due();
    sim.fetch(1);
    fresh(&mut sim);
    sim.accept(1, &[]);
    assert!(is_reauthentication(&sim.request().body));
    assert!(sim.disconnect(1), "it closes the connection as well");
    let news = sim.news();
    assert_eq!(news[0], "lost 0-9");
    assert!(news[1].starts_with("troubled"), "{news:?}");
}

/// As a token endpoint does that keeps its answers.
#[test]
fn a_token_that_comes_again_is_a_failure_and_the_session_is_drained() {
    let mut sim = due();
    let end = sim.now + LIFE - DUE;
    sim.fetch(1);
    sim.accept(1, &[]);
    for _ in 0..2 {
        fresh(&mut sim);
        assert!(is_reauthentication(&sim.request().body));
        sim.validity = Some(Validity::new(sim.now, end));
        sim.accept(1, &[]);
        assert!(sim.plan().is_empty(), "nothing is fetched any more");
        assert!(sim.client.take_due_credentials().is_empty());
        // Longer than the pause, and than the broker wants between two.
        sim.pass(Duration::from_secs(2));
        sim.plan();
    }
    let news = sim.news();
    assert!(news[0].starts_with("troubled fresh"), "{news:?}");
    assert_eq!(news.len(), 1, "told once: {news:?}");
    fresh(&mut sim);
    sim.request();
    renewed(&mut sim);
    assert_eq!(sim.news(), ["ready"], "a new one ends the trouble");
    assert!(matches!(sim.request().body, Body::Fetch(_)));
}

#[test]
fn a_token_endpoint_that_hangs_drains_the_session_before_the_end() {
    let mut sim = due();
    let lead = LIFE - DUE;
    sim.fetch(1);
    sim.accept(1, &[]);
    let asked = sim.client.take_due_credentials();
    assert_eq!(asked, [(1, lead + LOCK / 3)], "no longer");
    sim.pass(lead / 2 - MILLI);
    sim.fetch(1);
    sim.accept(1, &[]);
    sim.pass(MILLI);
    assert!(sim.plan().is_empty(), "nothing new is begun");
    sim.settle(0, 0, 7, Settlement::Accept);
    sim.pass(MILLI);
    sim.acknowledge();
    sim.accept(1, &[0]);
    sim.pass(lead / 2);
    assert!(sim.plan().is_empty(), "the broker would take nothing");
    sim.client.credentials(1, Err("none came".into()), sim.now);
    assert_eq!(sim.request().epoch, -1, "it is replaced at the end");
    sim.accept(1, &[]);
    assert!(sim.news().contains(&"lost 8-9".to_owned()));
}
