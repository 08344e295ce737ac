//! A broker that throttles.

use anyhow::Result;
use krafka::admin::{AlterClientQuotasOptions, ClientQuotaAlteration, ClientQuotaEntity};
use serde_json::json;
use sluice_test_support::produce::{json_records, produce_with};
use tokio::time::Instant;

use super::case::{Case, PATIENCE, connector};
use super::site::Site;
use crate::stage::Stage;

const PARTITIONS: i32 = 3;

/// Bounds, or frees again, what a client may fetch in a second.
async fn set_quota(stage: &Stage, client: &str, bytes: Option<f64>) -> Result<()> {
    let entity = ClientQuotaEntity::from_iter([("client-id", Some(client))]);
    let operation = ("consumer_byte_rate".to_owned(), bytes);
    let change = ClientQuotaAlteration::new(entity, vec![operation]);
    let client = stage.admin.client();
    let changed = client.alter_client_quotas(vec![change], AlterClientQuotasOptions::default());
    for (_, result) in changed.await? {
        result?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_slows_it_down_and_costs_no_record() -> Result<()> {
    const RECORDS: usize = 3000;
    let site = Site::alone().await?;
    let stage = Stage::on(site.kafka, "quota", PARTITIONS, 1).await?;
    set_quota(&stage, &stage.name, Some(100_000.0)).await?;
    let records = json_records(RECORDS, PARTITIONS, 100);
    let servers = stage.kafka.bootstrap_servers();
    // A batch comes as a whole, or not at all.
    produce_with(servers, &stage.name, records, &[("batch.size", "5000")]).await?;
    let mut connector = connector(&stage);
    connector["consumer.override.client.id"] = json!(stage.name);
    let began = Instant::now();
    let case = Case::start(&stage, &connector).await?;
    case.wait_for_ids(RECORDS).await?;
    // No storm of requests that are refused.
    let (took, used) = (began.elapsed(), case.worker.usage()?.cpu);
    assert!(used < took / 2, "{used:?} of processor in {took:?}");
    let told = |line: &str| line.contains("a quota is used up");
    case.worker.wait_for_log(told, PATIENCE).await?;
    let again = case.count("redelivered")?;
    assert!(again < RECORDS as u64 / 4, "{again} came again");
    case.ends_well(RECORDS).await
}
