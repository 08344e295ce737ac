//! What strikes whom, and when: made from a seed, the same each time.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use super::fate::OUTAGE_MS;

/// How many workers share the group.
pub const WORKERS: usize = 3;
/// The worker that is never ended, so that its memory has a history. It goes
/// through proxies, which can cut its connections.
pub const VETERAN: usize = WORKERS - 1;
pub const TASKS: usize = 4;
/// How long the broker locks a record.
pub const LOCK: Duration = Duration::from_secs(4);

/// Before the first blow, and after the last repair.
const CALM: Duration = Duration::from_secs(5);
/// For so long who was struck is left alone when it is whole again.
const REST: Duration = Duration::from_secs(3);
/// In the middle nothing strikes for so long: what was struck before comes again
/// in the first part of it, nothing in the rest.
pub const STILL: Duration = Duration::from_secs(26);
/// Blows in milliseconds behind each other. So a record that is open for some
/// seconds loses few of its attempts.
const GAP: std::ops::Range<u64> = 2500..5500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Kill(usize),
    /// SIGTERM: it drains and ends.
    Terminate(usize),
    Start(usize),
    /// SIGSTOP, for longer than the locks last.
    Freeze(usize),
    Thaw(usize),
    /// By REST.
    RestartTask {
        worker: usize,
        task: usize,
    },
    /// The connections of the veteran with all brokers.
    Cut,
    KillNode(usize),
    /// SIGTERM: its leaders move, if there are others.
    StopNode(usize),
    StartNode(usize),
    /// So many records that begin an outage of the sink at whoever gets them.
    Outage(usize),
    /// All is whole, and stays so for `STILL`.
    Calm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: Duration,
    pub deed: Deed,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7.3} s  {:?}", self.at.as_secs_f64(), self.deed)
    }
}

/// The kinds of blows; a deck that is dealt to its end before it is shuffled
/// anew, so that each comes as often as it is in it.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill,
    Terminate,
    Freeze,
    RestartTask,
    Cut,
    KillNode,
    StopNode,
    Outage,
}

const DECK: [Blow; 10] = [
    Blow::Kill,
    Blow::Kill,
    Blow::Terminate,
    Blow::Freeze,
    Blow::Freeze,
    Blow::RestartTask,
    Blow::Cut,
    Blow::KillNode,
    Blow::StopNode,
    Blow::Outage,
];

/// The events of a run, by time. All is whole again at its end.
pub fn schedule(seed: u64, length: Duration, nodes: usize) -> Vec<Event> {
    let mut plan = Plan {
        rng: Rng::with_seed(seed),
        end: Duration::ZERO,
        nodes,
        busy: [Duration::ZERO; WORKERS],
        node_busy: Duration::ZERO,
        events: Vec::new(),
    };
    let middle = length.saturating_sub(STILL) / 2;
    let mut deck = Vec::new();
    plan.deal(&mut deck, CALM, middle);
    plan.add(middle, Deed::Calm);
    plan.deal(&mut deck, middle + STILL, length.saturating_sub(CALM));
    plan.events.sort_by_key(|event| event.at);
    plan.events
}

struct Plan {
    rng: Rng,
    end: Duration,
    nodes: usize,
    /// Until when each worker is struck, or rests from it.
    busy: [Duration; WORKERS],
    node_busy: Duration,
    events: Vec<Event>,
}

impl Plan {
    /// Strikes from `begin` on, so that all is whole again at `end`.
    fn deal(&mut self, deck: &mut Vec<Blow>, begin: Duration, end: Duration) {
        self.end = end;
        let mut at = begin;
        while at < end {
            if deck.is_empty() {
                deck.extend(DECK);
                self.rng.shuffle(deck);
            }
            // The next one that can be dealt now; what cannot waits for its turn.
            if let Some(place) = (0..deck.len()).find(|place| self.strike(at, deck[*place])) {
                deck.remove(place);
            }
            at += millis(&mut self.rng, GAP);
        }
    }

    /// Adds a blow and what ends it; false if it cannot be now.
    fn strike(&mut self, at: Duration, blow: Blow) -> bool {
        let mortals = 0..VETERAN;
        match blow {
            Blow::Kill => self.down(at, mortals, Deed::Kill, 500..4000, Deed::Start),
            Blow::Terminate => self.down(at, mortals, Deed::Terminate, 500..4000, Deed::Start),
            Blow::Freeze => {
                let lock = LOCK.as_millis() as u64;
                let lasts = lock + 500..lock + 3500;
                self.down(at, 0..WORKERS, Deed::Freeze, lasts, Deed::Thaw)
            }
            Blow::RestartTask => {
                let Some(worker) = self.whole(at, 0..WORKERS) else {
                    return false;
                };
                let task = self.rng.usize(..TASKS);
                self.add(at, Deed::RestartTask { worker, task });
                true
            }
            Blow::Cut => {
                let Some(worker) = self.whole(at, VETERAN..WORKERS) else {
                    return false;
                };
                self.add(at, Deed::Cut);
                self.busy[worker] = at + REST;
                true
            }
            Blow::KillNode => self.node_down(at, Deed::KillNode),
            Blow::StopNode => self.node_down(at, Deed::StopNode),
            Blow::Outage => {
                let records = self.rng.usize(1..=WORKERS);
                if at + outage(records) > self.end {
                    return false;
                }
                self.add(at, Deed::Outage(records));
                true
            }
        }
    }

    fn down(
        &mut self,
        at: Duration,
        workers: std::ops::Range<usize>,
        begin: fn(usize) -> Deed,
        lasts: std::ops::Range<u64>,
        end: fn(usize) -> Deed,
    ) -> bool {
        let until = at + millis(&mut self.rng, lasts);
        let others_down = self.busy.iter().filter(|busy| **busy > at).count();
        let Some(worker) = self.whole(at, workers) else {
            return false;
        };
        // One worker at least is whole.
        if until > self.end || others_down + 1 == WORKERS {
            return false;
        }
        self.add(at, begin(worker));
        self.add(until, end(worker));
        self.busy[worker] = until + REST;
        true
    }

    fn node_down(&mut self, at: Duration, begin: fn(usize) -> Deed) -> bool {
        let until = at + millis(&mut self.rng, 1000..4000);
        if self.node_busy > at || until > self.end {
            return false;
        }
        let node = self.rng.usize(1..=self.nodes);
        self.add(at, begin(node));
        self.add(until, Deed::StartNode(node));
        self.node_busy = until + REST;
        true
    }

    fn whole(&mut self, at: Duration, workers: std::ops::Range<usize>) -> Option<usize> {
        let whole: Vec<usize> = workers.filter(|worker| self.busy[*worker] <= at).collect();
        self.rng.choice(whole)
    }

    fn add(&mut self, at: Duration, deed: Deed) {
        self.events.push(Event { at, deed });
    }
}

/// How long an outage may last, if one worker gets all records that begin it.
pub fn outage(records: usize) -> Duration {
    Duration::from_millis(OUTAGE_MS) * records as u32
}

fn millis(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_secs(105);

    fn all_schedules() -> impl Iterator<Item = Vec<Event>> {
        (0..300).map(|seed| schedule(seed, SHORT, 1 + 2 * (seed as usize % 2)))
    }

    #[test]
    fn a_seed_has_one_schedule_and_another_seed_another() {
        assert_eq!(schedule(7, SHORT, 3), schedule(7, SHORT, 3));
        assert_ne!(schedule(7, SHORT, 3), schedule(8, SHORT, 3));
    }

    #[test]
    fn each_kind_of_blow_comes_in_every_schedule() {
        for events in all_schedules() {
            let has = |wanted: fn(&Deed) -> bool| events.iter().any(|event| wanted(&event.deed));
            assert!(has(|deed| matches!(deed, Deed::Kill(_))), "{events:?}");
            assert!(has(|deed| matches!(deed, Deed::Terminate(_))), "{events:?}");
            assert!(has(|deed| matches!(deed, Deed::Freeze(_))), "{events:?}");
            assert!(has(|deed| matches!(deed, Deed::Cut)), "{events:?}");
            assert!(has(|deed| matches!(deed, Deed::KillNode(_))), "{events:?}");
            assert!(has(|deed| matches!(deed, Deed::StopNode(_))), "{events:?}");
            assert!(has(|deed| matches!(deed, Deed::Outage(_))), "{events:?}");
            let restart = |deed: &Deed| matches!(deed, Deed::RestartTask { .. });
            assert!(has(restart), "{events:?}");
        }
    }

    #[test]
    fn only_who_is_whole_is_struck_and_all_are_whole_at_the_end() {
        for events in all_schedules() {
            let mut ends_by = [None; WORKERS];
            for event in &events {
                let (worker, ends) = match event.deed {
                    Deed::Kill(worker) | Deed::Terminate(worker) => (worker, Some("start")),
                    Deed::Freeze(worker) => (worker, Some("thaw")),
                    Deed::Start(worker) => {
                        assert_eq!(ends_by[worker], Some("start"), "{events:?}");
                        (worker, None)
                    }
                    Deed::Thaw(worker) => {
                        assert_eq!(ends_by[worker], Some("thaw"), "{events:?}");
                        (worker, None)
                    }
                    Deed::RestartTask { worker, task } => {
                        assert_eq!(ends_by[worker], None, "{events:?}");
                        assert!(task < TASKS);
                        continue;
                    }
                    Deed::Cut => {
                        assert_eq!(ends_by[VETERAN], None, "{events:?}");
                        continue;
                    }
                    _ => continue,
                };
                assert!(ends.is_none() || ends_by[worker].is_none(), "{events:?}");
                ends_by[worker] = ends;
                let whole = ends_by.iter().filter(|end| end.is_none()).count();
                assert!(whole > 0, "nobody is whole at {event}: {events:?}");
            }
            assert_eq!(ends_by, [None; WORKERS], "{events:?}");
        }
    }

    #[test]
    fn all_is_whole_in_the_middle_and_nothing_strikes_there() {
        for events in all_schedules() {
            let calm = events.iter().position(|event| event.deed == Deed::Calm);
            let (before, after) = events.split_at(calm.unwrap());
            let from = after[0].at;
            let ended = before.iter().all(|event| match event.deed {
                Deed::Outage(records) => event.at + outage(records) <= from,
                _ => event.at <= from,
            });
            assert!(ended, "{events:?}");
            assert!(after[1].at >= from + STILL, "{events:?}");
            let count = |is: fn(&Deed) -> bool| before.iter().filter(|it| is(&it.deed)).count();
            let begun = count(|deed| {
                matches!(
                    deed,
                    Deed::Kill(_)
                        | Deed::Terminate(_)
                        | Deed::Freeze(_)
                        | Deed::KillNode(_)
                        | Deed::StopNode(_)
                )
            });
            let ended =
                count(|deed| matches!(deed, Deed::Start(_) | Deed::Thaw(_) | Deed::StartNode(_)));
            assert!(begun > 0 && begun == ended, "{events:?}");
        }
    }

    #[test]
    fn one_node_at_a_time_is_down_and_comes_back() {
        for events in all_schedules() {
            let mut down = None;
            for event in &events {
                match event.deed {
                    Deed::KillNode(node) | Deed::StopNode(node) => {
                        assert_eq!(down.replace(node), None, "{events:?}");
                    }
                    Deed::StartNode(node) => assert_eq!(down.take(), Some(node), "{events:?}"),
                    _ => {}
                }
            }
            assert_eq!(down, None, "{events:?}");
        }
    }

    #[test]
    fn the_veteran_is_never_ended() {
        for event in all_schedules().flatten() {
            assert_ne!(event.deed, Deed::Kill(VETERAN));
            assert_ne!(event.deed, Deed::Terminate(VETERAN));
        }
    }

    /// Ten attempts are far more than one record can lose while it is open.
    #[test]
    fn few_blows_that_cost_an_attempt_come_within_ten_seconds() {
        for events in all_schedules() {
            let costly = |event: &&Event| {
                matches!(
                    event.deed,
                    Deed::Kill(_)
                        | Deed::Terminate(_)
                        | Deed::Freeze(_)
                        | Deed::Cut
                        | Deed::KillNode(_)
                        | Deed::StopNode(_)
                )
            };
            let times: Vec<Duration> = events.iter().filter(costly).map(|it| it.at).collect();
            for window in times.windows(6) {
                assert!(
                    window[5] - window[0] > Duration::from_secs(10),
                    "{events:?}"
                );
            }
        }
    }
}
