//! Workers that are killed or frozen under load: the others deliver what they
//! had, soon, and nothing is lost.

use std::time::Duration;

use anyhow::Result;
use sluice_test_support::process::Signal;
use sluice_test_support::produce::{ids, json_records, produce};
use tokio::time::Instant;

use crate::crew::{Member, sum, tally, wait_for_ids};
use crate::load::Load;
use crate::stage::Stage;

const PARTITIONS: i32 = 12;
const PATIENCE: Duration = Duration::from_secs(30);
/// How many records a worker has in flight at most.
const WINDOW: u64 = 200;
const WINDOW_OF_200: (&str, &str) = ("share.max.in.flight.records", "200");

/// A worker that takes as many records as it may, and delivers none of them.
async fn hoarder(stage: &Stage) -> Result<Member> {
    let settings = [WINDOW_OF_200, ("latency.ms", "600000")];
    let hoarder = Member::forgetting(stage, "hoarder", &settings).await?;
    let is_full = |records| records == WINDOW;
    hoarder.wait_for("in_flight", PATIENCE, is_full).await?;
    Ok(hoarder)
}

/// A third of the lock that they would wait for otherwise, or longer if the dead
/// one counted until the end of its session.
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_worker_held_is_delivered_by_the_others_at_once() -> Result<()> {
    let stage = Stage::set("killed", PARTITIONS).await?;
    // As brokers have it by default: until then the dead one counts as alive,
    // and keeps the partitions that it was assigned.
    let time_out = Duration::from_secs(45);
    let millis = time_out.as_millis().to_string();
    let group = [
        ("share.session.timeout.ms", millis.as_str()),
        ("share.record.lock.duration.ms", "30000"),
    ];
    stage.admin.alter_group(&stage.group(), &group).await?;

    let load = Load::start(&stage, PARTITIONS, 1500);
    let first = Member::writing(&stage, "first", &[]).await?;
    let second = Member::writing(&stage, "second", &[]).await?;
    let survivors = [&first, &second];
    let victim = hoarder(&stage).await?;
    // The victim too, or the law of assignment would not be at stake.
    stage.wait_for_assigned_members(3).await?;
    assert_eq!(sum(&survivors, "redelivered")?, 0);

    let (before, killed_at) = (load.sent(), Instant::now());
    victim.worker.kill()?;
    wait_for_ids(&survivors, before, AT_ONCE).await?;
    // In all partitions, so in those of the dead one too.
    let after = load.sent();
    wait_for_ids(&survivors, after, AT_ONCE).await?;
    assert!(killed_at.elapsed() < time_out);

    let records = load.stop().await?;
    wait_for_ids(&survivors, records, PATIENCE).await?;
    stage.wait_until_consumed(PATIENCE).await?;
    tally(&survivors)?.exactly_once(ids(records))?;
    // A third delivery of any of them would count once more.
    assert_eq!(sum(&survivors, "redelivered")?, WINDOW);
    Ok(())
}

/// Checks the files after a worker ended while it was writing: nothing is
/// lost, and what came twice was in flight with the victim, which wrote it, and
/// was written once more by one of the others.
fn only_the_victims_records_came_twice(
    victim: &Member,
    survivors: &[&Member; 2],
    records: usize,
) -> Result<usize> {
    let (mine, theirs) = (victim.tally()?, tally(survivors)?);
    tally(&[victim, survivors[0], survivors[1]])?.at_least_once(ids(records))?;
    assert_eq!((mine.duplicates(), theirs.duplicates()), (0, 0));
    let twice = |id: &String| mine.count(id) + theirs.count(id) > 1;
    Ok(ids(records).filter(twice).count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_while_writing_loses_nothing_and_repeats_its_window_at_most() -> Result<()>
{
    const RECORDS: usize = 60_000;
    let stage = Stage::set("killed-writing", PARTITIONS).await?;
    let first = Member::lingering(&stage, "first", &[WINDOW_OF_200]).await?;
    let second = Member::lingering(&stage, "second", &[WINDOW_OF_200]).await?;
    let victim = Member::lingering(&stage, "victim", &[WINDOW_OF_200]).await?;
    let survivors = [&first, &second];
    let records = json_records(RECORDS, PARTITIONS, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    victim.wait_for("accepted", PATIENCE, |n| n > 0).await?;
    victim.worker.kill()?;
    assert!(tally(&survivors)?.distinct() < RECORDS, "the load was over");

    stage.wait_until_consumed(PATIENCE).await?;
    let twice = only_the_victims_records_came_twice(&victim, &survivors, RECORDS)? as u64;
    let redelivered = sum(&survivors, "redelivered")?;
    assert!(
        (1..=WINDOW).contains(&redelivered) && twice <= redelivered,
        "{redelivered} were delivered again, {twice} of them had been written"
    );
    Ok(())
}

/// How many ids `value=id-00` holds for.
const SLOW_IDS: usize = 10_000;
/// Longer than anything that a loaded machine does to a running worker.
const LOCK: Duration = Duration::from_secs(2);

async fn stage_with_short_locks(stem: &str) -> Result<Stage> {
    let stage = Stage::set(stem, PARTITIONS).await?;
    let millis = LOCK.as_millis().to_string();
    let group = [("share.record.lock.duration.ms", millis.as_str())];
    stage.admin.alter_group(&stage.group(), &group).await?;
    Ok(stage)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_frozen_worker_held_is_delivered_by_the_others_and_its_late_results_are_fenced()
-> Result<()> {
    let stage = stage_with_short_locks("frozen").await?;
    let first = Member::writing(&stage, "first", &[]).await?;
    let second = Member::writing(&stage, "second", &[]).await?;
    let survivors = [&first, &second];
    // Its first results come long after its locks have ended, the ids from
    // `SLOW_IDS` on take no time.
    let slow = [("slow.match", "value=id-00"), ("slow.ms", "8000")];
    let victim = Member::lingering(&stage, "victim", &[WINDOW_OF_200, slow[0], slow[1]]).await?;
    let load = Load::start(&stage, PARTITIONS, 2000);
    let is_full = |records| records == WINDOW;
    victim.wait_for("in_flight", PATIENCE, is_full).await?;

    let before = load.sent();
    victim.worker.signal(Signal::STOP)?;
    wait_for_ids(&survivors, before, 5 * LOCK).await?;

    // None of the slow ones is left for it, so it is quick from now on.
    wait_for_ids(&survivors, SLOW_IDS, PATIENCE).await?;
    victim.worker.signal(Signal::CONT)?;
    victim.wait_for("fenced", PATIENCE, |n| n > 0).await?;
    let status = victim.wait_for("accepted", PATIENCE, |n| n > 0).await?;
    assert_eq!(status["lost"], WINDOW);

    let records = load.stop().await?;
    stage.wait_until_consumed(PATIENCE).await?;
    let twice = only_the_victims_records_came_twice(&victim, &survivors, records)? as u64;
    assert!(twice <= WINDOW, "{twice} were written twice");
    assert_eq!(sum(&survivors, "redelivered")?, WINDOW);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_frozen_while_writing_loses_nothing_and_works_on() -> Result<()> {
    const RECORDS: usize = 60_000;
    let stage = stage_with_short_locks("frozen-writing").await?;
    let first = Member::lingering(&stage, "first", &[WINDOW_OF_200]).await?;
    let second = Member::lingering(&stage, "second", &[WINDOW_OF_200]).await?;
    let victim = Member::lingering(&stage, "victim", &[WINDOW_OF_200]).await?;
    let survivors = [&first, &second];
    let servers = stage.kafka.bootstrap_servers();
    let records = json_records(RECORDS, PARTITIONS, 100);
    produce(servers, &stage.name, records).await?;
    victim.wait_for("accepted", PATIENCE, |n| n > 0).await?;
    victim.worker.signal(Signal::STOP)?;
    assert!(tally(&survivors)?.distinct() < RECORDS, "the load was over");
    stage.wait_until_consumed(PATIENCE).await?;

    victim.worker.signal(Signal::CONT)?;
    victim.wait_for("in_flight", PATIENCE, |n| n == 0).await?;
    let written = victim.tally()?.distinct();
    let more = json_records(2 * RECORDS, PARTITIONS, 100).skip(RECORDS);
    produce(servers, &stage.name, more).await?;
    stage.wait_until_consumed(PATIENCE).await?;
    assert!(victim.tally()?.distinct() > written);
    let twice = only_the_victims_records_came_twice(&victim, &survivors, 2 * RECORDS)? as u64;
    let redelivered = sum(&survivors, "redelivered")?;
    assert!(
        (1..=WINDOW).contains(&redelivered) && twice <= redelivered,
        "{redelivered} were delivered again, {twice} of them had been written"
    );
    Ok(())
}
