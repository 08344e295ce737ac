//! The only broker is away: killed, or frozen.

use anyhow::Result;
use serde_json::json;
use sluice_test_support::process::Signal;

use super::case::{Case, PATIENCE, connector};
use super::site::Site;
use crate::load::Load;
use crate::stage::{Stage, wait_for_status};

const PARTITIONS: i32 = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_broker_is_killed_and_comes_back() -> Result<()> {
    let site = Site::alone().await?;
    let stage = Stage::on(site.kafka, "killed-broker", PARTITIONS, 1).await?;
    let load = Load::start(&stage, PARTITIONS, 500);
    let mut case = Case::start(&stage, &connector(&stage)).await?;

    site.kafka.kill_node(1)?;
    case.is_troubled_by(&["Connection refused"]).await?;
    // One that is started meanwhile waits for it.
    let mut other = stage.connector("null", 1);
    other["share.group.id"] = json!(format!("{}-other", stage.group()));
    let late = stage.worker(&other)?;
    let waits = |line: &str| line.contains("connector does not start yet, trying again");
    late.wait_for_log(waits, PATIENCE).await?;

    site.kafka.start_node(1)?;
    site.kafka.wait_for_nodes(1).await?;
    case.recovers().await?;
    let records = load.stop().await?;
    let all = |status: &serde_json::Value| status["accepted"] == records;
    wait_for_status(&late, "the late one has read all", PATIENCE, all).await?;
    case.ends_well(records).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_freezes_for_longer_than_a_request_may_take_is_met_again() -> Result<()> {
    let site = Site::alone().await?;
    let stage = Stage::on(site.kafka, "frozen-broker", PARTITIONS, 1).await?;
    let load = Load::start(&stage, PARTITIONS, 500);
    let mut connector = connector(&stage);
    connector["consumer.override.request.timeout.ms"] = json!("2000");
    let mut case = Case::start(&stage, &connector).await?;

    site.kafka.signal_node(1, Signal::STOP)?;
    case.was_troubled_by(&["the share session with broker 1 is lost"])
        .await?;
    // Requests of the old session and of new ones wait in its sockets now.
    site.kafka.signal_node(1, Signal::CONT)?;
    case.recovers().await?;
    let records = load.stop().await?;
    case.ends_well(records).await
}
