//! An HTTP service that goes down and comes back, and what it took.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use parking_lot::Mutex;
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::ids;
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::wait::eventually;

use crate::load::Load;
use crate::stage::Stage;

/// Up at first.
#[derive(Clone)]
pub struct Service {
    reply: Arc<Mutex<Reply>>,
    taken: Arc<Mutex<Vec<Bytes>>>,
}

impl Service {
    pub fn up() -> Self {
        Self {
            reply: Arc::new(Mutex::new(Reply::ok())),
            taken: Arc::default(),
        }
    }

    pub async fn start(&self) -> Result<Receiver> {
        let service = self.clone();
        Receiver::start(move |arrival| {
            let reply = service.reply.lock().clone();
            if reply == Reply::ok() {
                service.taken.lock().push(arrival.body.clone());
            }
            reply
        })
        .await
    }

    /// To all requests from now on.
    pub fn answers(&self, reply: Reply) {
        *self.reply.lock() = reply;
    }

    pub fn tally(&self) -> Tally {
        let taken = self.taken.lock();
        Tally::from_json_values(taken.iter().map(|body| &**body), "/id")
    }

    /// Waits until it has taken what came so far and what comes until the load
    /// has ended, each record once. Returns how many records that were.
    pub async fn takes_all(&self, load: Load, stage: &Stage, patience: Duration) -> Result<usize> {
        let sent = load.sent();
        eventually("what waited is delivered", patience, async || {
            let missing = self.tally().missing(ids(sent));
            ensure!(missing.is_empty(), "{} are missing", missing.len());
            Ok(())
        })
        .await?;
        let records = load.stop().await?;
        stage.wait_until_consumed(patience).await?;
        self.tally().exactly_once(ids(records))?;
        Ok(records)
    }
}
