//! An HTTP service that refuses requests and takes them again, and what it took.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::ids;
use sluice_test_support::receiver::{Arrival, Receiver, Reply};
use sluice_test_support::wait::eventually;

use crate::load::Load;
use crate::stage::Stage;

/// Takes all requests at first.
pub struct Service {
    pub receiver: Receiver,
    moods: Arc<Moods>,
}

struct Moods {
    /// To the requests that are meant.
    reply: Mutex<Reply>,
    /// How many of them are taken all the same.
    spared: AtomicUsize,
    taken: Mutex<Vec<Arrival>>,
}

impl Moods {
    /// Whether it is taken is settled here, once.
    fn refusal(&self, arrival: &Arrival, is_meant: bool) -> Option<Reply> {
        let reply = self.reply.lock().clone();
        let spare = |left: usize| left.checked_sub(1);
        let is_refused = is_meant
            && reply != Reply::ok()
            && self
                .spared
                .try_update(Ordering::SeqCst, Ordering::SeqCst, spare)
                .is_err();
        if is_refused {
            return Some(reply);
        }
        self.taken.lock().push(arrival.clone());
        None
    }
}

impl Service {
    pub async fn up() -> Result<Self> {
        Self::start(|_| true, Duration::ZERO).await
    }

    /// One that can refuse only the requests that are meant, and takes its time
    /// for those that it takes.
    pub async fn start(
        is_meant: impl Fn(&Arrival) -> bool + Send + Sync + 'static,
        latency: Duration,
    ) -> Result<Self> {
        let moods = Arc::new(Moods {
            reply: Mutex::new(Reply::ok()),
            spared: AtomicUsize::new(0),
            taken: Mutex::default(),
        });
        let plan = Arc::clone(&moods);
        let receiver = Receiver::start(move |arrival| {
            plan.refusal(arrival, is_meant(arrival))
                .unwrap_or_else(|| match latency.is_zero() {
                    true => Reply::ok(),
                    false => Reply::After(latency, Box::new(Reply::ok())),
                })
        });
        Ok(Self {
            receiver: receiver.await?,
            moods,
        })
    }

    /// To the requests that are meant from now on; `Reply::ok` takes them.
    pub fn answers(&self, reply: Reply) {
        *self.moods.reply.lock() = reply;
    }

    /// Takes the next one that it would refuse.
    pub fn spares_one(&self) {
        self.moods.spared.store(1, Ordering::SeqCst);
    }

    /// The records that it took, by their ids.
    pub fn tally(&self) -> Tally {
        let taken = self.moods.taken.lock();
        Tally::from_json_values(taken.iter().map(|it| &*it.body), "/id")
    }

    /// The same by what is the id in a request.
    pub fn tally_by(&self, id: impl Fn(&Arrival) -> Option<String>) -> Tally {
        self.moods.taken.lock().iter().filter_map(id).collect()
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
