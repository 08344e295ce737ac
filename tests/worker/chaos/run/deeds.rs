//! Does what the schedule says.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::timeout;

use super::{Run, WayBack};
use crate::chaos::connectors::GROUP;
use crate::chaos::deed::Deed;
use crate::chaos::duplicates::SETTLED_WITHIN;
use crate::chaos::schedule::{STILL, VETERAN, WORKERS, WORN, outage};
use crate::chaos::verdict::{Blow, Stretch};

/// Brokers that are whole answer within it.
const ANSWER: Duration = Duration::from_secs(30);
pub const LIMIT: &str = "share.delivery.count.limit";

impl Run {
    /// False if it cannot be done yet.
    pub(super) async fn does(&mut self, deed: Deed) -> Result<bool> {
        match deed {
            Deed::Kill(worker) => {
                let blow = self.blow(deed, Some(worker))?;
                self.cast.kill(worker)?;
                self.over(blow);
            }
            Deed::Terminate(worker) => self.cast.terminate(worker)?,
            Deed::Start(worker) => return self.cast.begin(worker),
            Deed::Freeze(worker) => {
                self.struck[worker] = Some(self.blow(deed, Some(worker))?);
                self.cast.freeze(worker)?;
            }
            Deed::Thaw(worker) => {
                self.cast.thaw(worker)?;
                self.whole_again(worker);
            }
            Deed::TakeFile(worker) => {
                let blow = self.blow(deed, Some(worker))?;
                // With a broker away nothing may come for long.
                let may_wait = self.node.is_none() && blow.in_flight == 0;
                if may_wait || !self.cast.take_file(worker)? {
                    return Ok(false);
                }
                self.struck[worker] = Some(blow);
            }
            Deed::GiveFileBack(worker) => {
                self.cast.give_file_back(worker)?;
                self.whole_again(worker);
            }
            Deed::RestartTask { worker, task } => {
                return self.cast.restart_task(worker, task).await;
            }
            Deed::Cut => {
                let blow = self.blow(deed, Some(VETERAN))?;
                if !self.cluster.cut() {
                    return Ok(false);
                }
                self.over(blow);
            }
            Deed::KillNode(_) | Deed::StopNode(_) if self.node.is_some() => return Ok(false),
            Deed::KillNode(node) => {
                let blow = self.blow(deed, None)?;
                self.cluster.kafka.kill_node(node)?;
                self.node = Some((WayBack::Down(blow.from), blow));
            }
            Deed::StopNode(node) => {
                let blow = self.blow(deed, None)?;
                self.cluster.stop_node(node)?;
                self.node = Some((WayBack::Down(blow.from), blow));
            }
            Deed::StartNode(node) => {
                if !self.cluster.start_node(node)? {
                    return Ok(false);
                }
                if let Some((way_back, _)) = &mut self.node {
                    *way_back = WayBack::Coming(self.clock.elapsed());
                }
            }
            Deed::Outage(records) => {
                self.holds_up(outage(records));
                self.wanted.outages.fetch_add(records, Ordering::AcqRel);
            }
            Deed::WearOut(records) => {
                self.wanted.worn.fetch_add(records, Ordering::AcqRel);
            }
            Deed::AwaitWorn => {
                let is_sent = self.wanted.worn.load(Ordering::Acquire) == 0;
                return Ok(is_sent && self.cast.is_done_with_worn(WORN));
            }
            Deed::Endpoint(mood, lasts) => {
                self.holds_up(lasts + mood.aftermath());
                self.cast.set_endpoint(mood, lasts);
            }
            Deed::SetLimit(limit) => return self.set_limit(limit).await,
            Deed::SetLock(lock) => {
                let milliseconds = lock.as_millis().to_string();
                return self
                    .set("share.record.lock.duration.ms", &milliseconds)
                    .await;
            }
            // The rest of the schedule moves with it, so it has its length.
            Deed::Calm if self.node.is_some() => return Ok(false),
            Deed::Calm => {
                let now = self.clock.elapsed();
                let (from, until) = (now + SETTLED_WITHIN, now + STILL);
                self.calm = Some(Stretch { from, until });
            }
        }
        Ok(true)
    }

    /// False as long as no worker keeps to the limit that is set, or the brokers
    /// are not whole.
    async fn set_limit(&mut self, limit: u16) -> Result<bool> {
        let is_set =
            self.cast.follows(self.delivery_limit)? && self.set(LIMIT, &limit.to_string()).await?;
        if is_set {
            self.delivery_limit = limit;
        }
        Ok(is_set)
    }

    async fn set(&self, key: &str, value: &str) -> Result<bool> {
        if self.node.is_some() {
            return Ok(false);
        }
        let kafka = &self.cluster.kafka;
        let setting = async {
            kafka
                .admin()
                .await?
                .alter_group(GROUP, &[(key, value)])
                .await
        };
        let set = timeout(ANSWER, setting).await;
        set.with_context(|| format!("no answer to {key}={value}"))??;
        Ok(true)
    }

    /// The sink takes nothing, or late, for so long at most.
    fn holds_up(&mut self, lasts: Duration) {
        let from = self.clock.elapsed();
        let until = from + lasts;
        self.sink_outages.push(Stretch { from, until });
    }

    fn whole_again(&mut self, worker: usize) {
        let blow = self.struck[worker].take();
        blow.into_iter().for_each(|blow| self.over(blow));
    }

    fn blow(&self, deed: Deed, worker: Option<usize>) -> Result<Blow> {
        let from = self.clock.elapsed();
        let struck = (0..WORKERS).filter(|one| worker.is_none_or(|worker| worker == *one));
        let mut in_flight = 0;
        for worker in struck {
            in_flight += self.cast.in_flight(worker)?;
        }
        Ok(Blow {
            what: format!("{deed:?}"),
            worker,
            from,
            until: from,
            in_flight,
        })
    }

    pub(super) fn over(&mut self, blow: Blow) {
        let until = self.clock.elapsed();
        let (from, in_flight) = (blow.from.as_secs_f64(), blow.in_flight);
        eprintln!(
            "{} from {from:.3} s for {:.3} s at {in_flight} in flight",
            blow.what,
            until.as_secs_f64() - from
        );
        self.blows.push(Blow { until, ..blow });
    }
}
