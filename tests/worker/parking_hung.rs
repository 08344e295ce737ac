//! A record that the service never answers, while it answers all others: parked
//! like one that it refuses, and delivered when it is answered.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use sluice_test_support::produce::ids;
use sluice_test_support::receiver::Reply;

use crate::parking::{answering, fill, parked_of, parking, taken};
use crate::stage::{Stage, wait_for_status};

const PATIENCE: Duration = Duration::from_secs(120);
/// More than may be open in its partition: without parking they would never all
/// be delivered.
const COUNT: usize = 1500;
const HANGS: &str = "id-000007";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_never_answered_holds_up_nobody_and_arrives_in_the_end() -> Result<()> {
    let stage = Stage::set("parked-hung", 1).await?;
    let service = answering(|id| id == HANGS, Reply::Hang).await?;
    let mut connector = parking(&stage, &service);
    // It is not the time that parks it.
    connector["share.park.after.ms"] = json!("600000");
    connector["share.delivery.timeout.ms"] = json!("2000");
    connector["http.request.timeout.ms"] = json!("600000");
    fill(&stage, COUNT).await?;
    let worker = stage.worker(&connector)?;
    let others = |status: &Value| status["accepted"] == COUNT - 1;
    let status = wait_for_status(&worker, "the others are accepted", PATIENCE, others).await?;
    assert!(status["parked"].as_u64() >= Some(1), "{status}");
    service.answers(Reply::ok());
    let done = |status: &Value| status["accepted"] == COUNT && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "it is delivered", PATIENCE, done).await?;
    for field in ["rejected", "released", "redelivered", "lost"] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    taken(&service).exactly_once(ids(COUNT))?;
    let parked = parked_of(&stage);
    stage
        .admin
        .wait_until_consumed(&parked, &parked, PATIENCE)
        .await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}
