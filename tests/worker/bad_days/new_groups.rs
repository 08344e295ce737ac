//! The coordinator of new groups is killed while it sets them up. The next one
//! may set up their positions once more, half a minute later, and what was
//! accepted by then would come again.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_test_support::counting::Tally;
use sluice_test_support::java::{SHARE_GROUP_COMMAND, run_tool};
use sluice_test_support::kafka::Kafka;
use sluice_test_support::produce::{NewRecord, ids, json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use super::case::{PATIENCE, connector, is_well};
use super::site::Site;
use crate::crew::status_of;
use crate::history::number;
use crate::stage::Stage;

const GROUPS: usize = 6;
const PARTITIONS: i32 = 4;
/// In each topic, before the strikes and once more after them.
const RECORDS: usize = 60;

/// New groups, each of a topic of its own, that one worker joins at once.
struct Lot {
    stages: Vec<Stage>,
    worker: Worker,
}

impl Lot {
    async fn start(kafka: &'static Kafka) -> Result<Self> {
        let mut stages = Vec::new();
        for _ in 0..GROUPS {
            let stage = Stage::on(kafka, "set-up", PARTITIONS, 3).await?;
            write(&stage, 0).await?;
            stages.push(stage);
        }
        let first = stages[0].worker_options(&connector(&stages[0]));
        let with = |options: WorkerOptions, stage: &Stage| {
            options.connector(&stage.name, &connector(stage))
        };
        let options = stages[1..].iter().fold(first, with);
        let worker = Worker::start(&options)?;
        Ok(Self { stages, worker })
    }

    /// Kills the coordinator of one of the groups as soon as it knows it, and
    /// starts it again when there is another one.
    async fn strike(&self, kafka: &Kafka, place: usize) -> Result<()> {
        let stage = &self.stages[place];
        eventually("the group is there", PATIENCE, async || {
            let group = stage.admin.group(&stage.group()).await?;
            ensure!(group.is_some(), "not yet");
            Ok(())
        })
        .await?;
        let node = coordinator(stage).await?;
        kafka.kill_node(node)?;
        eventually("there is another coordinator", PATIENCE, async || {
            let next = coordinator(stage).await?;
            ensure!(next != node, "it is still {next}");
            Ok(())
        })
        .await?;
        kafka.start_node(node)?;
        kafka.wait_for_nodes(3).await
    }

    /// Waits until so many records of each topic are delivered and accepted.
    async fn settles(&self, records: usize) -> Result<()> {
        for stage in &self.stages {
            eventually("all is accepted", PATIENCE, async || {
                let missing = tally(stage)?.missing(ids(records));
                let status = status_of(&self.worker, &stage.name)?;
                ensure!(
                    missing.is_empty() && status["in_flight"] == 0 && is_well(&status),
                    "{} are missing, {status}",
                    missing.len()
                );
                Ok(())
            })
            .await?;
            let (group, topic) = (stage.group(), &stage.name);
            let admin = &stage.admin;
            admin.wait_until_consumed(&group, topic, PATIENCE).await?;
        }
        Ok(())
    }

    /// Waits until the coordinators have set up and assigned all partitions.
    async fn is_assigned(&self, kafka: &Kafka) -> Result<()> {
        let servers = kafka.bootstrap_servers();
        let arguments = [
            "--bootstrap-server",
            servers,
            "--describe",
            "--members",
            "--all-groups",
        ];
        let all: Vec<String> = (0..PARTITIONS).map(|it| it.to_string()).collect();
        let all = all.join(",");
        eventually("all is assigned", PATIENCE, async || {
            let printed = run_tool(SHARE_GROUP_COMMAND, &arguments).await?;
            let is_assigned = |stage: &Stage| printed.contains(&format!("{}:{all}", stage.name));
            ensure!(self.stages.iter().all(is_assigned), "{printed}");
            Ok::<_, anyhow::Error>(())
        })
        .await
    }

    /// What came twice was open when a lock was lost.
    async fn ends_well(self) -> Result<()> {
        for stage in &self.stages {
            let tally = tally(stage)?;
            tally.at_least_once(ids(2 * RECORDS))?;
            let status: Value = status_of(&self.worker, &stage.name)?;
            let open = number(&status, "lost")? + number(&status, "unknown")?;
            ensure!(
                tally.duplicates() as u64 <= open,
                "{} came twice, {open} were open: {status}",
                tally.duplicates()
            );
        }
        let ended = self.worker.stop(PATIENCE).await?;
        assert_eq!(ended.code(), Some(0), "{}", self.worker.output()?);
        Ok(())
    }
}

fn tally(stage: &Stage) -> Result<Tally> {
    match stage.file().exists() {
        true => Tally::from_json_lines(&stage.file(), "/id"),
        false => Ok(Tally::default()),
    }
}

/// Writes the records of one half.
async fn write(stage: &Stage, half: usize) -> Result<()> {
    let all = json_records(2 * RECORDS, PARTITIONS, 100);
    let records: Vec<NewRecord> = all.skip(half * RECORDS).take(RECORDS).collect();
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    Ok(())
}

/// The node that coordinates the stage's group, also before it is there.
async fn coordinator(stage: &Stage) -> Result<usize> {
    let offsets = stage.admin.describe_topic("__consumer_offsets").await?;
    let partitions = offsets.partitions;
    let place = java_hash(&stage.group()) as usize % partitions.len();
    let leader = partitions.iter().find(|it| it.partition as usize == place);
    let leader = leader.and_then(|it| it.leader);
    Ok(usize::try_from(leader.context("no coordinator")?)?)
}

/// As Java has it, without its sign.
fn java_hash(text: &str) -> u32 {
    let hash = |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte));
    text.bytes().fold(0, hash) & 0x7fff_ffff
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_killed_while_it_sets_groups_up_has_nothing_accepted_come_again() -> Result<()>
{
    let site = Site::of_three().await?;
    let mut lots = Vec::new();
    for place in [0, GROUPS - 1] {
        let lot = Lot::start(site.kafka).await?;
        lot.strike(site.kafka, place).await?;
        lots.push(lot);
    }
    for lot in &lots {
        lot.settles(RECORDS).await?;
        lot.is_assigned(site.kafka).await?;
    }
    // A leader learns of a position that was set up anew when it writes the next.
    for lot in &lots {
        for stage in &lot.stages {
            write(stage, 1).await?;
        }
    }
    for lot in lots {
        lot.settles(2 * RECORDS).await?;
        lot.ends_well().await?;
    }
    Ok(())
}
