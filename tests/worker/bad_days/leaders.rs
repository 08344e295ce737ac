//! One of three brokers is away: leaders and the group's coordinator move, and
//! move back.

use anyhow::{Context, Result, bail, ensure};
use krafka::admin::{ElectLeadersOptions, ElectionType};
use sluice_test_support::java::{SHARE_GROUP_COMMAND, run_tool};
use sluice_test_support::process::Signal;
use sluice_test_support::wait::eventually;

use super::case::{Case, PATIENCE, connector};
use super::site::Site;
use crate::load::Load;
use crate::stage::Stage;

const PARTITIONS: i32 = 6;

/// The node that coordinates the stage's group.
async fn coordinator(stage: &Stage) -> Result<usize> {
    let group = stage.group();
    let servers = stage.kafka.bootstrap_servers();
    let arguments = [
        "--bootstrap-server",
        servers,
        "--describe",
        "--state",
        "--group",
        &group,
    ];
    let printed = run_tool(SHARE_GROUP_COMMAND, &arguments).await?;
    // GROUP  127.0.0.1:9092 (1)  Stable  1
    let line = printed.lines().find(|line| line.contains(&group));
    let id = line.and_then(|line| line.split_once('(')?.1.split_once(')'));
    let (id, _) = id.with_context(|| format!("no coordinator in {printed}"))?;
    Ok(id.parse()?)
}

/// The leader of each partition.
async fn leaders(stage: &Stage, topic: &str) -> Result<Vec<Option<i32>>> {
    let topic = stage.admin.describe_topic(topic).await?;
    Ok(topic.partitions.iter().map(|it| it.leader).collect())
}

/// Waits until a node leads partitions, or none any more.
async fn wait_until_it_leads(stage: &Stage, node: usize, leads: bool) -> Result<()> {
    let node = i32::try_from(node)?;
    eventually("leaders have moved", PATIENCE, async || {
        let leaders = leaders(stage, &stage.name).await?;
        let all_led = leaders.iter().all(Option::is_some);
        ensure!(
            all_led && leaders.contains(&Some(node)) == leads,
            "{leaders:?}"
        );
        Ok(())
    })
    .await
}

async fn elect_preferred_leaders(stage: &Stage) -> Result<()> {
    let client = stage.admin.client();
    let elected = client
        .elect_leaders(
            ElectionType::Preferred,
            None,
            ElectLeadersOptions::default(),
        )
        .await?;
    for (partition, result) in elected {
        if let Err(error) = result {
            bail!("{partition:?}: {error}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_and_coordinator_move_from_a_killed_broker_and_back() -> Result<()> {
    let site = Site::of_three().await?;
    let stage = Stage::on(site.kafka, "moved", PARTITIONS, 3).await?;
    let load = Load::start(&stage, PARTITIONS, 600);
    let mut case = Case::start(&stage, &connector(&stage)).await?;
    elect_preferred_leaders(&stage).await?;
    let node = coordinator(&stage).await?;
    wait_until_it_leads(&stage, node, true).await?;

    site.kafka.kill_node(node)?;
    let name = format!("broker {node}");
    case.was_troubled_by(&[&name]).await?;
    wait_until_it_leads(&stage, node, false).await?;
    let after = load.sent();
    case.recovers().await?;
    case.wait_for_ids(after).await?;

    site.kafka.start_node(node)?;
    site.kafka.wait_for_nodes(3).await?;
    eventually("all lead as before", PATIENCE, async || {
        elect_preferred_leaders(&stage).await?;
        let moved = coordinator(&stage).await?;
        ensure!(moved == node, "coordinated by {moved}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    wait_until_it_leads(&stage, node, true).await?;
    let after = load.sent();
    case.recovers().await?;
    case.wait_for_ids(after).await?;
    // It beats at the new coordinator, or it would be a member no more.
    stage.wait_for_assigned_members(1).await?;
    let records = load.stop().await?;
    case.ends_well(records).await
}

/// Its leaders have moved before it goes, so nothing breaks off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_restarted_in_good_order_costs_no_record() -> Result<()> {
    let site = Site::of_three().await?;
    let stage = Stage::on(site.kafka, "restarted", PARTITIONS, 3).await?;
    let load = Load::start(&stage, PARTITIONS, 600);
    let mut case = Case::start(&stage, &connector(&stage)).await?;
    elect_preferred_leaders(&stage).await?;
    wait_until_it_leads(&stage, 1, true).await?;
    site.kafka.signal_node(1, Signal::TERM)?;
    wait_until_it_leads(&stage, 1, false).await?;
    eventually("it has ended", PATIENCE, async || {
        let live = stage.admin.live_nodes().await?;
        ensure!(live.len() == 2, "{live:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    case.recovers().await?;
    site.kafka.start_node(1)?;
    site.kafka.wait_for_nodes(3).await?;
    case.recovers().await?;
    let records = load.stop().await?;
    case.ends_well(records).await
}
