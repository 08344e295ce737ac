//! Members that the group forgot, and groups that are gone.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_test_support::java::{SHARE_GROUP_COMMAND, run_tool};
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::process::Signal;
use sluice_test_support::produce::ids;
use sluice_test_support::wait::eventually;
use tokio::sync::OnceCell;

use super::case::{Case, PATIENCE, connector};
use crate::load::Load;
use crate::stage::{Stage, wait_for_status};

const PARTITIONS: i32 = 3;

async fn delete_group(stage: &Stage) -> Result<String> {
    let group = stage.group();
    let servers = stage.kafka.bootstrap_servers();
    let arguments = ["--bootstrap-server", servers, "--delete", "--group", &group];
    run_tool(SHARE_GROUP_COMMAND, &arguments).await
}

/// Freezes the worker until the group has forgotten its member.
async fn is_forgotten(stage: &Stage, case: &Case<'_>) -> Result<()> {
    case.worker.signal(Signal::STOP)?;
    eventually("the group is empty", PATIENCE, async || {
        let group = stage.admin.group(&stage.group()).await?;
        let state = group.context("the group is listed")?.state;
        ensure!(state == "Empty", "the group is {state}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_the_group_forgot_joins_anew() -> Result<()> {
    let stage = Stage::set("forgotten", PARTITIONS).await?;
    let load = Load::start(&stage, PARTITIONS, 500);
    let mut case = Case::start(&stage, &connector(&stage)).await?;
    is_forgotten(&stage, &case).await?;
    case.worker.signal(Signal::CONT)?;
    case.was_told_of(&[&stage.group(), "joining anew"]).await?;
    case.recovers().await?;
    stage.wait_for_assigned_members(1).await?;
    let records = load.stop().await?;
    case.ends_well(records).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_not_deleted_under_a_member_and_made_anew_after_one() -> Result<()> {
    let stage = Stage::set("deleted-group", PARTITIONS).await?;
    let load = Load::start(&stage, PARTITIONS, 500);
    let mut case = Case::start(&stage, &connector(&stage)).await?;
    let refused = delete_group(&stage).await;
    let refused = match refused {
        Ok(printed) => printed,
        Err(error) => format!("{error:#}"),
    };
    assert!(refused.contains("is not EMPTY"), "{refused}");
    case.recovers().await?;

    is_forgotten(&stage, &case).await?;
    let deleted = delete_group(&stage).await?;
    let gone = stage.admin.group(&stage.group()).await?;
    assert_eq!(gone, None, "{deleted}");
    case.worker.signal(Signal::CONT)?;
    case.was_told_of(&[&stage.group(), "joining anew"]).await?;
    case.recovers().await?;
    let records = load.stop().await?;
    stage.wait_until_consumed(PATIENCE).await?;
    case.wait_for_ids(records).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_beyond_the_size_of_the_group_is_told_and_joins_when_another_leaves() -> Result<()>
{
    static KAFKA: OnceCell<Kafka> = OnceCell::const_new();
    let options = KafkaOptions::new().property("group.share.max.size", "1");
    let kafka = KAFKA.get_or_try_init(|| Kafka::start(options)).await?;
    let stage = Stage::on(kafka, "full-group", PARTITIONS, 1).await?;
    let load = Load::start(&stage, PARTITIONS, 200);
    let case = Case::start(&stage, &connector(&stage)).await?;
    let second = stage.worker(&connector(&stage))?;
    let told = |status: &Value| {
        let trouble = status["trouble"].as_str().unwrap_or_default();
        trouble.contains(&stage.group()) && trouble.contains("group.share.max.size")
    };
    wait_for_status(&second, "it is told that the group is full", PATIENCE, told).await?;
    assert_eq!(case.worker.stop(PATIENCE).await?.code(), Some(0));
    let at_work = |status: &Value| status["accepted"].as_u64() > Some(0) && status["trouble"] == "";
    wait_for_status(&second, "it has joined", PATIENCE, at_work).await?;
    let records = load.stop().await?;
    stage.wait_until_consumed(PATIENCE).await?;
    assert_eq!(second.stop(PATIENCE).await?.code(), Some(0));
    case.tally()?.exactly_once(ids(records))
}
