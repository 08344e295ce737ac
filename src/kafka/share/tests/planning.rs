//! What is sent next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use krafka::error::ErrorCode::{InvalidRecordState, NotEnoughReplicas};
use sluice_actors::ports::source::Settlement;

use super::sim::{LOCK, Sim, answer, batches, key};
use crate::kafka::share::client::Client;
use crate::kafka::share::config::{AcquireMode, ShareSourceConfig};
use crate::kafka::share::layout::Place;
use crate::kafka::share::request::{Body, HasRead, Read};
use crate::kafka::share::settlements::AckType;

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn nothing_is_fetched_before_the_member_has_joined() {
    let mut sim = Sim::new(1000);
    sim.lead(&[1]);
    assert!(sim.plan().is_empty());
    sim.join(&[0]);
    assert_eq!(sim.request().epoch, 0);
}

/// Before that, the coordinator may yet set up its state once more.
#[test]
fn a_partition_is_not_fetched_before_the_group_has_assigned_it_to_somebody() {
    let mut sim = Sim::new(1000);
    sim.lead(&[1, 2, 1]);
    sim.join(&[]);
    assert!(sim.plan().is_empty());
    assert!(sim.client.assignment.is_waiting());
    sim.join(&[2]);
    assert_eq!(sim.fetch(1).delta.added, [key(2)]);
    sim.accept(1, &[]);
    assert!(sim.news().is_empty(), "not ready: two have no position");
    sim.join(&[0, 1, 2]);
    assert!(!sim.client.assignment.is_waiting());
    let requests = sim.plan();
    let added = |broker| {
        let to = requests.iter().find(|request| request.broker == broker);
        match to.map(|request| &request.body) {
            Some(Body::Fetch(fetch)) => fetch.delta.added.clone(),
            other => panic!("no fetch: {other:?}"),
        }
    };
    assert_eq!((added(1), added(2)), (vec![key(0)], vec![key(1)]));
}

#[test]
fn what_the_group_assigns_to_nobody_is_told_and_fetched_in_the_end() {
    let mut sim = Sim::new(1000);
    sim.lead(&[1, 1]);
    sim.join(&[0]);
    assert_eq!(sim.fetch(1).delta.added, [key(0)]);
    sim.accept(1, &[]);
    assert!(sim.client.wake_at(sim.now).is_some_and(|at| at > sim.now));
    sim.pass(Duration::from_secs(60));
    assert_eq!(sim.fetch(1).delta.added, [key(1)]);
    sim.accept(1, &[]);
    let news = sim.news();
    let is_told = |news: &String| news.contains("assigned orders-1");
    assert_eq!(news.len(), 3, "{news:?}");
    assert!(is_told(&news[0]) && is_told(&news[2]), "{news:?}");
    assert_eq!(news[1], "ready");
    sim.join(&[0, 1]);
    sim.plan();
    assert_eq!(sim.news(), ["ready"], "the trouble is over");
}

#[test]
fn each_leader_has_a_session_with_all_its_partitions() {
    let mut sim = Sim::joined(1000, &[1, 2, 1, 2]);
    let requests = sim.plan();
    let added: Vec<_> = requests
        .iter()
        .map(|request| match &request.body {
            Body::Fetch(fetch) => (request.broker, fetch.delta.added.clone()),
            other => panic!("a session opens with a fetch: {other:?}"),
        })
        .collect();
    assert_eq!(
        added,
        [(1, vec![key(0), key(2)]), (2, vec![key(1), key(3)])]
    );
    sim.accept(1, &[]);
    assert!(sim.news().is_empty());
    sim.accept(2, &[]);
    assert_eq!(sim.news(), ["ready"]);
}

/// It is kept for its last answer until the metadata is looked at again.
#[test]
fn a_broker_that_leads_nothing_any_more_keeps_nobody_from_being_ready() {
    let mut sim = Sim::joined(1000, &[1, 2]);
    assert_eq!(sim.plan().len(), 2);
    sim.accept(2, &[]);
    sim.lead(&[1, 1]);
    assert_eq!(sim.request().broker, 2, "it is taken leave of");
    sim.accept(2, &[]);
    sim.accept(1, &[]);
    assert_eq!(sim.fetch(1).delta.added, [key(1)]);
    sim.accept(1, &[]);
    let news = sim.news();
    assert!(news.contains(&"ready".to_owned()), "{news:?}");
}

#[test]
fn one_request_is_in_flight_at_a_time_and_epochs_are_serial() {
    let mut sim = Sim::joined(1000, &[1]);
    for epoch in 0..4 {
        assert_eq!(sim.request().epoch, epoch);
        assert!(sim.plan().is_empty());
        sim.accept(1, &[]);
    }
}

#[test]
fn a_fetch_asks_for_the_free_credit_and_carries_what_is_due() {
    let mut sim = Sim::holding(1000, 0, 599);
    let fetch = sim.fetch(1);
    assert_eq!(fetch.max_records, 400);
    sim.accept(1, &[]);
    sim.settle(0, 0, 299, Settlement::Accept);
    sim.pass(3 * MILLI);
    let fetch = sim.fetch(1);
    assert_eq!(fetch.max_records, 700);
    assert_eq!(
        batches(&fetch.acknowledgements, 0),
        [(0, 299, AckType::Accept)]
    );
    assert!(fetch.delta.added.is_empty(), "named once only");
}

#[test]
fn a_fetch_is_as_the_settings_have_it() {
    let mut sim = Sim::new(1000);
    let config = ShareSourceConfig {
        acquire_mode: AcquireMode::RecordLimit,
        fetch_max_bytes: 4000,
        fetch_max_wait: 123 * MILLI,
        ..ShareSourceConfig::new("group", vec!["orders".into()])
    };
    sim.client = Client::new(Arc::new(config), Arc::clone(&sim.credit), sim.now);
    sim.lead(&[1]);
    sim.join(&[0]);
    sim.fetch(1);
    sim.accept(1, &[]);
    let fetch = sim.fetch(1);
    assert_eq!(fetch.acquire_mode, AcquireMode::RecordLimit);
    assert_eq!((fetch.max_records, fetch.max_bytes), (1000, 4000));
    assert_eq!(fetch.max_wait, 123 * MILLI);
}

#[test]
fn in_bulk_a_partition_is_settled_as_it_was_acquired_or_after_a_moment() {
    let mut sim = Sim::holding(1000, 0, 599);
    sim.fetch(1);
    sim.accept(1, &[]);
    sim.settle(0, 0, 99, Settlement::Accept);
    let fetch = sim.fetch(1);
    assert!(
        batches(&fetch.acknowledgements, 0).is_empty(),
        "a part only"
    );
    sim.accept(1, &[]);
    sim.settle(0, 100, 599, Settlement::Accept);
    let fetch = sim.fetch(1);
    let whole = [(0, 599, AckType::Accept)];
    assert_eq!(batches(&fetch.acknowledgements, 0), whole);

    let mut slow = Sim::holding(600, 0, 599);
    slow.settle(0, 0, 99, Settlement::Accept);
    assert!(slow.plan().is_empty());
    let moment = slow.client.wake_at(slow.now).map(|at| at - slow.now);
    assert!(moment.is_some_and(|moment| moment <= 3 * MILLI));
    slow.pass(3 * MILLI);
    let fetch = slow.fetch(1);
    let part = [(0, 99, AckType::Accept)];
    assert_eq!(batches(&fetch.acknowledgements, 0), part);
}

#[test]
fn small_credit_holds_the_broker_to_the_number() {
    let mut sim = Sim::joined(499, &[1]);
    assert_eq!(sim.fetch(1).acquire_mode, AcquireMode::RecordLimit);
    let mut sim = Sim::joined(500, &[1]);
    assert_eq!(sim.fetch(1).acquire_mode, AcquireMode::BatchOptimized);
}

#[test]
fn sessions_share_the_window_and_what_is_asked_for_counts() {
    let mut sim = Sim::joined(900, &[1, 2, 3]);
    let asked: usize = sim
        .plan()
        .iter()
        .map(|request| match &request.body {
            Body::Fetch(fetch) => fetch.max_records,
            Body::Acknowledge(_) | Body::Reauthenticate(_) => 0,
        })
        .sum();
    assert!((600..=900).contains(&asked), "{asked}");
}

#[test]
fn a_session_that_finds_nothing_leaves_the_credit_to_the_others() {
    let mut sim = Sim::joined(800, &[1, 2]);
    sim.plan();
    sim.accept(1, &[]);
    assert!(sim.fetch(1).max_records <= 60);
}

#[test]
fn without_credit_a_session_opens_empty_and_settlements_go_alone_after_a_moment() {
    let mut sim = Sim::joined(10, &[1]);
    sim.fetch(1);
    sim.bring(1, 0, 0, 20);
    assert!(sim.plan().is_empty(), "a batch more than asked for");
    sim.settle(0, 0, 4, Settlement::Accept);
    assert!(sim.plan().is_empty());
    assert_eq!(sim.client.wake_at(sim.now), Some(sim.now + MILLI));
    sim.pass(MILLI);
    assert_eq!(batches(&sim.acknowledge(), 0), [(0, 4, AckType::Accept)]);

    let mut paused = Sim::joined(0, &[1]);
    let fetch = paused.fetch(1);
    assert!(fetch.delta.added.is_empty());
    assert_eq!(fetch.max_wait, Duration::ZERO);
    paused.accept(1, &[]);
    assert!(paused.plan().is_empty());
    paused.credit.set_window_records(5);
    assert_eq!(paused.fetch(1).delta.added, [key(0)]);
}

/// A group that begins at the end has no position in a partition until a fetch
/// has named it: what is produced before that is not for it.
#[test]
fn it_is_ready_when_every_partition_was_answered_for() {
    let mut sim = Sim::joined(0, &[1, 1]);
    sim.fetch(1);
    sim.accept(1, &[]);
    assert!(sim.news().is_empty(), "a session without partitions");
    sim.credit.set_window_records(5);
    assert_eq!(sim.fetch(1).delta.added, [key(0), key(1)]);
    assert!(sim.news().is_empty());
    sim.accept(1, &[]);
    assert_eq!(sim.news(), ["ready"]);
}

#[test]
fn nothing_is_fetched_while_the_bytes_are_used_up() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.fetch(1);
    sim.accept(1, &[]);
    let held = sim.credit.hold(1 << 20);
    assert!(sim.plan().is_empty());
    drop(held);
    assert!(sim.fetch(1).max_bytes > 0);
}

#[test]
fn less_is_asked_for_the_more_answers_grew() {
    let mut sim = Sim::joined(100_000, &[1]);
    let mut asked = vec![sim.fetch(1).max_bytes];
    for (round, growth) in [(0, 1), (1, 1), (2, 200)] {
        sim.growth = growth;
        for offset in 100 * round..100 * (round + 1) {
            sim.bring(1, 0, offset, offset);
            sim.settle(0, offset, offset, Settlement::Accept);
            asked.push(sim.fetch(1).max_bytes);
        }
        sim.give_back();
    }
    // Carefully at first, and never so that eight times as much would not fit.
    assert!(asked[0] <= (1 << 20) / 50, "{}", asked[0]);
    let (settled, surprised) = (asked[200], asked[201]);
    assert!(
        ((1 << 20) / 10..=(1 << 20) / 8).contains(&settled),
        "{settled}"
    );
    assert!(surprised <= (1 << 20) / 199, "{surprised}");
}

#[test]
fn a_renewal_goes_at_once_and_never_on_a_fetch() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.settle(0, 0, 4, Settlement::Renew);
    sim.settle(0, 9, 9, Settlement::Accept);
    assert_eq!(
        batches(&sim.acknowledge(), 0),
        [(0, 4, AckType::Renew), (9, 9, AckType::Accept)]
    );
    sim.news();
    sim.accept(1, &[0]);
    assert_eq!(sim.news(), ["renewed Renew 0-4", "confirmed Accept 9-9"]);
}

#[test]
fn what_waits_to_be_read_is_renewed_and_comes_with_the_new_deadline() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.fetch(1);
    let held = sim.credit.hold(1 << 20);
    sim.starved = true;
    sim.bring(1, 0, 0, 9);
    sim.news();
    assert!(sim.plan().is_empty(), "no credit, no fetch");
    sim.pass(LOCK / 4);
    assert_eq!(batches(&sim.acknowledge(), 0), [(0, 9, AckType::Renew)]);
    sim.starved = false;
    drop(held);
    sim.read();
    assert!(sim.news().is_empty(), "not while the answer is out");
    sim.accept(1, &[0]);
    sim.fetch(1);
    sim.read();
    sim.accept(1, &[]);
    assert_eq!(sim.news(), ["renewed Renew 0-9", "acquired [0]"]);
    // Beyond the first lock it is ours still.
    sim.pass(LOCK);
    sim.settle(0, 0, 9, Settlement::Accept);
    assert_eq!(
        batches(&sim.fetch(1).acknowledgements, 0),
        [(0, 9, AckType::Accept)]
    );
}

#[test]
fn ranges_that_are_renewed_apart_are_read_together_after_the_last_answer() {
    let mut sim = Sim::holding(1000, 0, 0);
    sim.fetch(1);
    let held = sim.credit.hold(1 << 20);
    sim.starved = true;
    let acquired = sim.acquired(0, &[(10, 14), (17, 19)]);
    sim.reply(1, vec![acquired]);
    sim.pass(LOCK / 4);
    sim.settle(0, 0, 0, Settlement::Accept);
    let sent = batches(&sim.acknowledge(), 0);
    let renewals = [(10, 14, AckType::Renew), (17, 19, AckType::Renew)];
    assert_eq!(sent[1..], renewals, "with what will be refused: {sent:?}");
    sim.starved = false;
    drop(held);
    sim.reply(1, vec![answer(0, None, Some(InvalidRecordState))]);
    // Each part is tried alone, and gets a deadline of its own.
    let mut renewed = 0;
    while renewed < 2 {
        assert_eq!(sim.offsets(), [0], "not while an answer is out");
        sim.pass(MILLI);
        let Body::Acknowledge(sent) = sim.request().body else {
            sim.accept(1, &[]);
            continue;
        };
        let renews = batches(&sent, 0)[0].2 == AckType::Renew;
        renewed += usize::from(renews);
        let error = (!renews).then_some(InvalidRecordState);
        sim.reply(1, vec![answer(0, None, error)]);
    }
    sim.plan();
    sim.read();
    sim.accept(1, &[]);
    assert_eq!(sim.offsets(), [0, 10, 11, 12, 13, 14, 17, 18, 19]);
    let news = sim.news();
    assert!(
        !news.iter().any(|told| told.starts_with("lost")),
        "{news:?}"
    );
}

#[test]
fn what_is_left_is_reserved_for_by_what_was_just_read() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.fetch(1);
    sim.starved = true;
    sim.bring(1, 0, 0, 9);
    let mut left = sim.client.take_unread().remove(0).unread;
    left[0].acquired.held = sim.credit.hold(1000);
    let read = Read {
        broker: 1,
        key: key(0),
        batch: None,
        gaps: Vec::new(),
        acquisition: left[0].acquired.acquisition,
        packed: 1,
        unpacked: 1000,
    };
    sim.client.read(HasRead {
        read: vec![read],
        left,
    });
    let free = (1_usize << 20) - 1000 - 999_000;
    assert_eq!(sim.fetch(1).max_bytes, free.div_ceil(1000));
}

#[test]
fn what_came_again_while_it_was_being_renewed_is_read_once() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.fetch(1);
    let held = sim.credit.hold(1 << 20);
    sim.starved = true;
    let acquired = sim.acquired(0, &[(0, 4), (7, 9)]);
    sim.reply(1, vec![acquired]);
    sim.pass(LOCK / 4);
    sim.acknowledge();
    sim.reply(1, vec![answer(0, None, Some(NotEnoughReplicas))]);
    drop(held);
    sim.fetch(1);
    sim.bring(1, 0, 0, 4);
    sim.starved = false;
    sim.pass(100 * MILLI);
    assert_eq!(batches(&sim.acknowledge(), 0), [(7, 9, AckType::Renew)]);
    sim.accept(1, &[0]);
    sim.plan();
    sim.read();
    sim.accept(1, &[]);
    let mut offsets = sim.offsets();
    offsets.sort_unstable();
    assert_eq!(offsets, [0, 1, 2, 3, 4, 7, 8, 9]);
}

#[test]
fn a_fetch_waits_briefly_while_something_is_open_and_long_when_idle() {
    let mut sim = Sim::joined(1000, &[1]);
    assert_eq!(sim.fetch(1).max_wait, Duration::from_millis(500));
    sim.bring(1, 0, 0, 9);
    let mut waits = Vec::new();
    for _ in 0..6 {
        waits.push(sim.fetch(1).max_wait.as_millis());
        sim.accept(1, &[]);
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 32]);
    sim.settle(0, 0, 9, Settlement::Accept);
    let settling = sim.fetch(1);
    assert_eq!(settling.max_wait, Duration::ZERO, "its answer is wanted");
    sim.accept(1, &[0]);
    assert_eq!(sim.fetch(1).max_wait.as_millis(), 500);
}

#[test]
fn what_was_refused_is_tried_again_alone_and_halved() {
    let mut sim = Sim::holding(1000, 0, 3);
    sim.settle(0, 0, 0, Settlement::Release);
    sim.settle(0, 1, 3, Settlement::Accept);
    sim.fetch(1);
    sim.news();
    sim.reply(1, vec![answer(0, None, Some(InvalidRecordState))]);
    let mut sent = Vec::new();
    for _ in 0..6 {
        let fetch = sim.fetch(1);
        let batches = batches(&fetch.acknowledgements, 0);
        sent.extend(batches.iter().map(|batch| (batch.0, batch.1)));
        let bad = batches
            .iter()
            .any(|(first, last, _)| (first..=last).contains(&&2));
        let error = bad.then_some(InvalidRecordState);
        sim.reply(1, vec![answer(0, None, error)]);
    }
    assert_eq!(sent, [(0, 0), (1, 3), (1, 2), (1, 1), (2, 2), (3, 3)]);
    assert_eq!(
        sim.news(),
        [
            "confirmed Release 0-0",
            "confirmed Accept 1-1",
            "unknown Accept 2-2",
            "confirmed Accept 3-3"
        ]
    );
}

#[test]
fn a_partition_that_is_not_answered_for_is_not_confirmed() {
    let mut sim = Sim::holding(1000, 0, 3);
    sim.settle(0, 0, 3, Settlement::Accept);
    sim.fetch(1);
    sim.news();
    sim.accept(1, &[]);
    assert!(sim.news().is_empty());
    sim.pass(Duration::from_millis(100));
    assert_eq!(
        batches(&sim.fetch(1).acknowledgements, 0),
        [(0, 3, AckType::Accept)]
    );
}

#[test]
fn a_topic_that_is_not_subscribed_any_more_is_forgotten_but_settled() {
    let mut sim = Sim::holding(1000, 0, 9);
    let other = Place {
        partition: super::sim::partition(5),
        leader: Some(1),
    };
    sim.survey(&["payments"], BTreeMap::from([(key(5), other)]));
    sim.join(&[0, 5]);
    sim.settle(0, 0, 4, Settlement::Accept);
    // First what is due, then the partition is forgotten.
    sim.pass(MILLI);
    assert_eq!(batches(&sim.acknowledge(), 0), [(0, 4, AckType::Accept)]);
    sim.accept(1, &[0]);
    let fetch = sim.fetch(1);
    assert_eq!(fetch.delta.forgotten, [key(0)]);
    assert_eq!(fetch.delta.added, [key(5)]);
    sim.accept(1, &[]);
    sim.settle(0, 5, 6, Settlement::Accept);
    sim.pass(MILLI);
    assert_eq!(batches(&sim.acknowledge(), 0), [(5, 6, AckType::Accept)]);
    sim.accept(1, &[0]);
    // Closing the session would not give back what was forgotten.
    sim.client.close(sim.now + LOCK);
    assert_eq!(batches(&sim.acknowledge(), 0), [(7, 9, AckType::Release)]);
}

#[test]
fn closing_settles_first_and_then_gives_back_the_rest() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.settle(0, 0, 4, Settlement::Accept);
    sim.client.close(sim.now + LOCK);
    assert_eq!(batches(&sim.acknowledge(), 0), [(0, 4, AckType::Accept)]);
    sim.accept(1, &[0]);
    let last = sim.request();
    assert_eq!(last.epoch, -1);
    assert!(matches!(&last.body, Body::Acknowledge(rest) if rest.is_empty()));
    assert!(!sim.client.is_closed());
    assert!(sim.accept(1, &[]), "the connection is not needed any more");
    assert!(sim.client.is_closed());
    assert_eq!(sim.client.finish().unconfirmed, 0);
}

#[test]
fn closing_waits_for_the_fetch_in_flight_and_gives_back_what_it_brings() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.fetch(1);
    sim.client.close(sim.now + LOCK);
    assert!(sim.plan().is_empty(), "the epoch is serial");
    assert!(!sim.client.is_closed(), "its records would stay locked");
    let acquired = sim.acquired(0, &[(0, 9)]);
    sim.reply(1, vec![acquired]);
    assert_eq!(sim.request().epoch, -1);
    sim.accept(1, &[]);
    assert!(sim.client.is_closed());
    let closed = sim.client.finish();
    assert_eq!((closed.unconfirmed, closed.cause), (0, None));
}

#[test]
fn closing_is_bounded_and_counts_what_was_not_confirmed() {
    let mut sim = Sim::holding(1000, 0, 9);
    sim.settle(0, 0, 4, Settlement::Accept);
    sim.fetch(1);
    sim.client.close(sim.now + Duration::from_secs(1));
    assert!(sim.plan().is_empty());
    let closed = sim.client.finish();
    assert_eq!(closed.unconfirmed, 5);
    assert!(closed.cause.unwrap().contains("broker 1"));
}

#[test]
fn partitions_that_only_the_group_knows_of_are_looked_for_in_the_metadata() {
    let mut sim = Sim::joined(1000, &[1]);
    sim.join(&[0]);
    assert!(!sim.client.take_metadata_is_stale());
    // With each heartbeat: the broker that was asked may not know it yet.
    for _ in 0..2 {
        sim.join(&[0, 1]);
        assert!(sim.client.take_metadata_is_stale());
    }
    sim.lead(&[1, 1]);
    sim.join(&[0, 1]);
    assert!(!sim.client.take_metadata_is_stale());
    // A topic that is gone is not looked for.
    sim.lead(&[1]);
    sim.join(&[0, 1]);
    assert!(!sim.client.take_metadata_is_stale());
}

#[test]
fn a_throttled_fetch_is_followed_by_less_and_later_and_settlements_do_not_wait() {
    let mut sim = Sim::holding(1000, 0, 9);
    let asked = sim.fetch(1).max_bytes;
    let throttle = Duration::from_secs(2);
    sim.throttle = Some(throttle);
    sim.accept(1, &[]);
    assert!(sim.plan().is_empty());
    assert!(sim.client.wake_at(sim.now) <= Some(sim.now + throttle));
    sim.settle(0, 0, 9, Settlement::Accept);
    sim.pass(Duration::from_millis(1));
    sim.acknowledge();
    sim.accept(1, &[0]);
    sim.pass(throttle);
    assert!(sim.fetch(1).max_bytes < asked);
}
