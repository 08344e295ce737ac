//! What came twice: each must have been in flight at a blow, no blow explains
//! more than that, and none explains anything in the calm.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::schedule::LOCK;
use super::verdict::{Blow, Delivery, Evidence, Limits, Stretch, told};

/// A delivery counts as confirmed after so long, if nothing strikes.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);
/// Puts that were under way at a blow have ended so long after it.
const LATE: Duration = Duration::from_secs(5);
/// What was in flight at a blow has come again so long after it, unless
/// something else is in the way.
pub const SETTLED_WITHIN: Duration = LOCK.saturating_add(LATE);
/// A shorter calm shows nothing.
const SHORTEST_CALM: Duration = Duration::from_secs(15);

/// A delivery beyond the first, with the one before.
pub type Duplicate<'a> = (&'a str, Delivery, Delivery);

impl Evidence {
    pub fn duplicate_faults(&self) -> Vec<String> {
        [
            self.unexplained("delivered again without a cause", self.delivered_again()),
            self.unexplained(
                "with one more letter without a cause",
                repeated(&self.letters),
            ),
            self.beyond_in_flight(),
        ]
        .concat()
    }

    /// Nothing that came in the calm had come before or comes again, and the
    /// workers were at work.
    pub fn calm_faults(&self) -> Vec<String> {
        let Some(calm) = self.calm else {
            return vec!["there was no calm".to_owned()];
        };
        let mut faults = Vec::new();
        if calm.length() <= SHORTEST_CALM {
            faults.push(format!("the calm lasted for {:?} only", calm.length()));
        }
        let deliveries = || self.deliveries.values().flatten();
        let in_calm = deliveries().filter(|one| calm.holds(one)).count();
        let begin = deliveries().map(|one| one.from).min().unwrap_or_default();
        let end = deliveries().map(|one| one.until).max().unwrap_or_default();
        let per_second = |count: usize, time: Duration| count as f64 / time.as_secs_f64();
        let usual = per_second(deliveries().count(), end.saturating_sub(begin));
        if per_second(in_calm, calm.length()) < usual / 2.0 {
            faults.push(format!(
                "{in_calm} deliveries only in the calm, usual are {usual:.1} in a second"
            ));
        }
        // Who came at its very end may be struck by what comes next.
        let confirmed = Stretch {
            until: calm.until.saturating_sub(CONFIRMED_WITHIN),
            ..calm
        };
        let again = self.duplicates();
        let again = again.filter(|(_, first, again)| confirmed.holds(first) || calm.holds(again));
        faults.extend(told("delivered again in the calm", again.map(named)));
        faults
    }

    fn duplicates(&self) -> impl Iterator<Item = Duplicate<'_>> {
        let again = self.delivered_again().into_iter();
        again.chain(repeated(&self.letters))
    }

    /// Who parks a record is done with it, as who delivers it; from where it is
    /// parked it is delivered once more.
    pub fn delivered_again(&self) -> Vec<Duplicate<'_>> {
        let mut again = Vec::new();
        for (id, deliveries) in &self.deliveries {
            let parkings = self.parkings.get(id).map_or(&[][..], Vec::as_slice);
            let mut done = [deliveries, parkings].concat();
            done.sort_by_key(|one| one.until);
            let mut pairs: Vec<Duplicate<'_>> = pairs(id, &done).collect();
            for _ in parkings {
                let without = pairs.iter().position(|pair| self.causes(pair).is_empty());
                let expected = without.or(pairs.len().checked_sub(1));
                expected.map(|place| pairs.remove(place));
            }
            again.extend(pairs);
        }
        again
    }

    fn unexplained<'a>(
        &self,
        what: &str,
        duplicates: impl IntoIterator<Item = Duplicate<'a>>,
    ) -> Vec<String> {
        let unexplained = duplicates
            .into_iter()
            .filter(|duplicate| self.causes(duplicate).is_empty());
        told(what, unexplained.map(named))
    }

    /// Blames each duplicate on one blow, and names those for which no blow is
    /// left at which they can have been in flight.
    fn beyond_in_flight(&self) -> Vec<String> {
        let blows = self.blows.iter();
        let mut blame = Blame {
            causes: self.duplicates().map(|one| self.causes(&one)).collect(),
            room: blows.map(|blow| blow.most(&self.limits)).collect(),
            of_blow: vec![Vec::new(); self.blows.len()],
        };
        let beyond = self.duplicates().enumerate().filter(|(number, _)| {
            !blame.causes[*number].is_empty() && !blame.place(*number, &mut BTreeSet::new())
        });
        let beyond: Vec<String> = beyond.map(|(_, one)| named(one)).collect();
        told(
            "delivered again beyond what was in flight at the blows",
            beyond.iter(),
        )
    }

    /// The blows at which it can have been in flight.
    fn causes(&self, (_, first, again): &Duplicate<'_>) -> Vec<usize> {
        let blows = self.blows.iter().enumerate();
        let causes = blows.filter(|(_, blow)| {
            let in_time = || again.from <= self.settled_after(blow);
            let ended = self.ended_after(blow);
            blow.unconfirmed(first, again, ended) && in_time() || blow.late(first, again, ended)
        });
        causes.map(|(number, _)| number).collect()
    }

    /// When all that was in flight at a blow has come again. What happened
    /// before that may have held it up.
    fn settled_after(&self, blow: &Blow) -> Duration {
        let blows = self.blows.iter().map(|blow| (blow.from, blow.until));
        let outages = self.outages.iter().map(|it| (it.from, it.until));
        held_up(blow.until, SETTLED_WITHIN, blows.chain(outages))
    }

    /// When the puts have ended that were under way at a blow.
    fn ended_after(&self, blow: &Blow) -> Duration {
        let outages = self.outages.iter().map(|it| (it.from, it.until));
        held_up(blow.until, LATE, outages)
    }
}

/// What takes so long from `begin` on if nothing is in the way, and anew after
/// all that is.
fn held_up(
    begin: Duration,
    takes: Duration,
    in_the_way: impl Iterator<Item = (Duration, Duration)>,
) -> Duration {
    let mut in_the_way: Vec<_> = in_the_way.collect();
    in_the_way.sort_unstable();
    let each = in_the_way.into_iter();
    each.fold(begin + takes, |end, (from, until)| match from <= end {
        true => end.max(until + takes),
        false => end,
    })
}

impl Stretch {
    fn length(&self) -> Duration {
        self.until.saturating_sub(self.from)
    }

    fn holds(&self, delivery: &Delivery) -> bool {
        self.from <= delivery.from && delivery.until <= self.until
    }
}

impl Blow {
    fn strikes(&self, worker: usize) -> bool {
        self.worker.is_none_or(|struck| struck == worker)
    }

    /// How many duplicates it may be blamed for. What a worker told is older
    /// than the blow, so that a batch of each partition may have come since;
    /// and a broker takes its time until it is back.
    fn most(&self, limits: &Limits) -> u64 {
        match self.worker {
            Some(_) => limits.in_flight.min(self.in_flight + limits.beyond_window),
            None => limits.in_flight * limits.workers as u64,
        }
    }

    /// Its worker was struck before it could tell the broker.
    /// Its puts have ended at `ended`.
    fn unconfirmed(&self, first: &Delivery, again: &Delivery, ended: Duration) -> bool {
        self.strikes(first.worker)
            && self.from <= first.until + CONFIRMED_WITHIN
            && first.from <= ended
            && self.from <= again.until
    }

    /// The second is a put that was under way when its worker was struck; the
    /// record had gone to another one meanwhile.
    fn late(&self, first: &Delivery, again: &Delivery, ended: Duration) -> bool {
        self.strikes(again.worker) && self.from <= first.until && again.from <= ended
    }
}

/// Which duplicate is blamed on which blow.
struct Blame {
    /// Of each duplicate, the blows that explain it.
    causes: Vec<Vec<usize>>,
    /// Of each blow, how many it may explain, and which it does.
    room: Vec<u64>,
    of_blow: Vec<Vec<usize>>,
}

impl Blame {
    /// Finds room for one more, and for that moves others to other blows that
    /// explain them.
    fn place(&mut self, duplicate: usize, tried: &mut BTreeSet<usize>) -> bool {
        for blow in self.causes[duplicate].clone() {
            if !tried.insert(blow) {
                continue;
            }
            if (self.of_blow[blow].len() as u64) < self.room[blow] {
                self.of_blow[blow].push(duplicate);
                return true;
            }
            for place in 0..self.of_blow[blow].len() {
                if self.place(self.of_blow[blow][place], tried) {
                    self.of_blow[blow][place] = duplicate;
                    return true;
                }
            }
        }
        false
    }
}

pub fn repeated(all: &BTreeMap<String, Vec<Delivery>>) -> impl Iterator<Item = Duplicate<'_>> {
    all.iter()
        .flat_map(|(id, deliveries)| pairs(id, deliveries))
}

/// Each with the one before.
fn pairs<'a>(id: &'a str, done: &[Delivery]) -> impl Iterator<Item = Duplicate<'a>> {
    done.windows(2).map(move |pair| (id, pair[0], pair[1]))
}

fn named((id, first, again): Duplicate<'_>) -> String {
    format!("{id} by {first:?} and {again:?}")
}
