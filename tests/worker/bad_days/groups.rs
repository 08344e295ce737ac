//! Members that the group forgot, and groups that are gone.

use anyhow::{Context, Result, ensure};
use sluice_test_support::java::{SHARE_GROUP_COMMAND, run_tool};
use sluice_test_support::process::Signal;
use sluice_test_support::wait::eventually;

use super::case::{Case, PATIENCE, connector};
use crate::load::Load;
use crate::stage::Stage;

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
    case.was_troubled_by(&[&stage.group(), "joining anew"])
        .await?;
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
    case.was_troubled_by(&[&stage.group(), "joining anew"])
        .await?;
    case.recovers().await?;
    let records = load.stop().await?;
    stage
        .admin
        .wait_until_consumed(&stage.group(), &stage.name, PATIENCE)
        .await?;
    case.wait_for_ids(records).await
}
