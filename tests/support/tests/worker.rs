//! Workers under test are started, watched and ended as promised. A shell
//! script plays the worker.

use std::time::Duration;

use anyhow::{Result, ensure};
use sluice_test_support::{
    process::Signal,
    wait::eventually,
    worker::{Worker, WorkerOptions, run_command},
};

const SOON: Duration = Duration::from_secs(10);
const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand-in-worker");

fn playing(script: &str) -> Result<Worker> {
    Worker::start(&WorkerOptions::new(STAND_IN).environment("SCRIPT", script))
}

#[tokio::test]
async fn a_worker_gets_the_named_environment_and_no_other() -> Result<()> {
    let worker = playing("env; echo END; exec sleep 600")?;
    worker.wait_for_log(|line| line == "END", SOON).await?;
    let stdout = worker.stdout()?;
    assert!(stdout.contains("SCRIPT="), "{stdout}");
    assert!(!stdout.contains("CARGO"), "{stdout}");
    Ok(())
}

#[tokio::test]
async fn lines_of_both_streams_are_found() -> Result<()> {
    let worker = playing("echo to stdout; echo to stderr >&2; exec sleep 600")?;
    let line = worker.wait_for_log(|line| line.contains("stderr"), SOON);
    assert_eq!(line.await?, "to stderr");
    let line = worker.wait_for_log(|line| line.contains("stdout"), SOON);
    assert_eq!(line.await?, "to stdout");
    Ok(())
}

#[tokio::test]
async fn a_worker_that_ends_early_is_told_at_once_with_its_output() -> Result<()> {
    let worker = playing("echo no broker; exit 64")?;
    let never = worker.wait_for_log(|line| line.contains("started"), Duration::from_secs(3600));
    let error = format!("{:#}", never.await.unwrap_err());
    assert!(
        error.contains("no broker") && error.contains("64"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn stopping_tells_how_the_worker_ended() -> Result<()> {
    let worker =
        playing("trap 'echo drained; exit 3' TERM; echo up; while :; do sleep 0.01; done")?;
    worker.wait_for_log(|line| line == "up", SOON).await?;
    assert_eq!(worker.stop(SOON).await?.code(), Some(3));
    assert_eq!(worker.stdout()?, "up\ndrained\n");
    Ok(())
}

#[tokio::test]
async fn a_frozen_worker_outlasts_the_wait_and_can_be_killed() -> Result<()> {
    let worker = playing("exec sleep 600")?;
    worker.signal(Signal::STOP)?;
    // Of two signals that are both pending, the kernel takes TERM first.
    let stat = format!("/proc/{}/stat", worker.pid());
    eventually("it is frozen", SOON, async || {
        let stat = std::fs::read_to_string(&stat)?;
        ensure!(stat.contains(") T "), "{stat}");
        Ok(())
    })
    .await?;
    worker.signal(Signal::TERM)?;
    worker
        .wait_for_exit(Duration::from_millis(200))
        .await
        .unwrap_err();
    assert_eq!(worker.kill()?.code(), None);
    assert!(worker.usage().is_err());
    Ok(())
}

#[tokio::test]
async fn work_shows_as_cpu_time() -> Result<()> {
    let worker =
        playing("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; exec sleep 600")?;
    worker.wait_for_log(|line| line == "done", SOON).await?;
    let usage = worker.usage()?;
    assert!(
        usage.cpu > Duration::ZERO && usage.peak_rss_bytes > 0,
        "{usage:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_failed_command_tells_what_it_printed() -> Result<()> {
    assert_eq!(run_command("echo", &["plugins"]).await?, "plugins\n");
    let script = ["-c", "echo bad key >&2; exit 64"];
    let error = run_command("sh", &script).await.unwrap_err().to_string();
    assert!(error.contains("bad key") && error.contains("64"), "{error}");
    Ok(())
}
