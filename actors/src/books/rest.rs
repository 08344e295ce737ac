//! Records that nobody works on any more.

use ahash::AHashSet;
use tokio::time::Instant;

use super::settling::key;
use super::{Books, DeliveryKey, Effects, Notice, entry};
use crate::ports::source::Settlement;
use crate::record::RecordId;

impl Books {
    /// What the gate does not let go, whoever has it: if it were given back,
    /// the broker would archive it.
    #[must_use]
    pub fn on_last_attempt(&self) -> Vec<RecordId> {
        let gate = self.policy.terms.gate;
        let open = self.ledger.unsettled();
        let last = open.filter(|(_, delivery_count)| !gate.may_release(*delivery_count));
        last.map(|(record, _)| record).collect()
    }

    /// Gives back what nobody has settled, as far as the gate lets it, and
    /// empties the queue. What puts have reported is settled first, also of
    /// those that were cut short. The rest stays locked until its session ends;
    /// the broker archives it then, so each one is named.
    pub fn release_rest(&mut self, now: Instant) -> (Effects, Vec<RecordId>) {
        let mut effects = self.task_gone(None, now);
        let gate = self.policy.terms.gate;
        self.intake.clear();
        self.queue.clear();
        self.letters.clear();
        self.withheld.clear();
        let released = self.ledger.settle_rest(Settlement::Release, |record| {
            gate.may_release(record.delivery_count)
        });
        effects.settle.extend(released);
        (effects, self.on_last_attempt())
    }

    /// Gives back what no intake, queue or put knows any more, since the actor
    /// that had it died.
    pub fn release_forgotten(&mut self, now: Instant) -> Effects {
        let mut effects = self.task_gone(None, now);
        self.take_back_letters();
        let known = self.queue.records().map(entry);
        let known = known.chain(self.intake.entries());
        let known = known.chain(self.letters.entries());
        let known: AHashSet<DeliveryKey> = known.map(key).collect();
        let gate = self.policy.terms.gate;
        let mut shut_out = 0_u64;
        let released = self.ledger.settle_rest(Settlement::Release, |record| {
            let forgotten = !record.held && !known.contains(&key(record.entry()));
            let may = gate.may_release(record.delivery_count);
            shut_out += u64::from(forgotten && !may);
            forgotten && may
        });
        effects.settle.extend(released);
        if shut_out > 0 {
            // Nobody has their payload any more, and a release would archive them.
            let notice = Notice::WentDown { records: shut_out };
            effects.notices.push(notice);
        }
        effects
    }
}
