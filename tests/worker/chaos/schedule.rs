//! What strikes whom, and when: made from a seed, the same each time.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use super::connectors::{DELIVERY_LIMIT, RAISED_LIMIT};
use super::deed::{Deed, Event};
use super::fate::OUTAGE_MS;
use super::mood::Mood;
use super::setting::{Retried, Setting, SinkKind};

/// How many workers share the group.
pub const WORKERS: usize = 3;
/// The worker that is never ended, so that its memory has a history. It goes
/// through proxies, which can cut its connections.
pub const VETERAN: usize = WORKERS - 1;
pub const TASKS: usize = 4;
/// How long the broker locks a record, but for a while.
pub const LOCK: Duration = Duration::from_secs(4);
const SHORTER_LOCK: Duration = Duration::from_secs(3);

/// Before the first blow, and after the last repair.
const CALM: Duration = Duration::from_secs(5);
/// For so long who was struck is left alone when it is whole again.
const REST: Duration = Duration::from_secs(3);
/// Likewise brokers: so long they take to be back, and workers to deliver. What
/// needs them would wait for it, and all that comes after that.
const NODE_REST: Duration = Duration::from_secs(16);
/// In the middle nothing strikes for so long: what was struck before comes again
/// in the first part of it, nothing in the rest.
pub const STILL: Duration = Duration::from_secs(26);
/// When in it records are worn out, and when all of them are taken.
const WEAR: Range<Duration> = Duration::from_secs(10)..Duration::from_secs(21);
pub const WORN: usize = 5;
/// Blows in milliseconds behind each other. So a record that is open for some
/// seconds loses few of its attempts.
const BLOW_GAP: Range<u64> = 3000..6000;
/// Likewise troubles, which cost no attempt, or one.
const TROUBLE_GAP: Range<u64> = 3000..7000;
/// Likewise what is done to brokers, or asked of them; they take longer than that
/// to be back.
const BROKER_GAP: Range<u64> = 3000..8000;

/// Where none of a deck could be dealt it is tried again so soon.
const NEXT_TRY: Duration = Duration::from_millis(500);

/// The kinds of blows, and of troubles.
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
    Endpoint,
    TakeFile,
    SetLimit,
    SetLock,
}

const BLOWS: [Blow; 7] = [
    Blow::Kill,
    Blow::Kill,
    Blow::Terminate,
    Blow::Freeze,
    Blow::Freeze,
    Blow::RestartTask,
    Blow::Cut,
];

const OF_BROKERS: [Blow; 4] = [
    Blow::KillNode,
    Blow::StopNode,
    Blow::SetLimit,
    Blow::SetLock,
];

/// A deck that is dealt to its end before it is shuffled anew, so that each kind
/// comes as often as it is in it.
struct Dealer {
    kinds: Vec<Blow>,
    deck: Vec<Blow>,
    gap: Range<u64>,
    at: Duration,
}

impl Dealer {
    fn new(kinds: impl Into<Vec<Blow>>, gap: Range<u64>) -> Self {
        Self {
            kinds: kinds.into(),
            deck: Vec::new(),
            gap,
            at: Duration::ZERO,
        }
    }
}

/// Those that these sinks can have.
fn troubles(setting: &Setting) -> Vec<Blow> {
    let has = |kind| setting.workers_into(kind).next().is_some();
    let mut troubles = Vec::new();
    if has(SinkKind::File) {
        troubles.push(Blow::TakeFile);
    }
    if has(SinkKind::Http) {
        troubles.extend([Blow::Endpoint; 3]);
    }
    if has(SinkKind::Http) || has(SinkKind::Null) {
        troubles.push(Blow::Outage);
    }
    troubles
}

/// The events of a run, by time. All is whole again at its end.
pub fn schedule(setting: &Setting) -> Vec<Event> {
    let mut plan = Plan {
        rng: Rng::with_seed(setting.seed),
        end: Duration::ZERO,
        setting,
        busy: [Duration::ZERO; WORKERS],
        node_busy: Duration::ZERO,
        moods: Vec::new(),
        events: Vec::new(),
    };
    let length = setting.length;
    let middle = length.saturating_sub(STILL) / 2;
    let mut dealers = [
        Dealer::new(BLOWS, BLOW_GAP),
        Dealer::new(troubles(setting), TROUBLE_GAP),
        Dealer::new(OF_BROKERS, BROKER_GAP),
    ];
    plan.deal(&mut dealers, CALM, middle);
    plan.add(middle, Deed::Calm);
    if setting.wears_out() {
        plan.add(middle + WEAR.start, Deed::WearOut(WORN));
        plan.add(middle + WEAR.end, Deed::AwaitWorn);
    }
    plan.deal(&mut dealers, middle + STILL, length.saturating_sub(CALM));
    plan.events.sort_by_key(|event| event.at);
    plan.events
}

struct Plan<'a> {
    rng: Rng,
    end: Duration,
    setting: &'a Setting,
    /// Until when each worker is struck, or rests from it.
    busy: [Duration; WORKERS],
    /// Likewise the brokers, also by what they are asked to change.
    node_busy: Duration,
    /// Those that the endpoint has not been in.
    moods: Vec<Mood>,
    events: Vec<Event>,
}

impl Plan<'_> {
    /// Strikes from `begin` on, so that all is whole again at `end`.
    fn deal(&mut self, dealers: &mut [Dealer], begin: Duration, end: Duration) {
        self.end = end;
        dealers.iter_mut().for_each(|dealer| dealer.at = begin);
        while let Some(dealer) = dealers.iter_mut().min_by_key(|dealer| dealer.at)
            && dealer.at < end
        {
            if dealer.deck.is_empty() {
                dealer.deck.clone_from(&dealer.kinds);
                self.rng.shuffle(&mut dealer.deck);
            }
            let (at, deck) = (dealer.at, &mut dealer.deck);
            // The next one that can be dealt now; what cannot waits for its turn.
            let place = (0..deck.len()).find(|place| self.strike(at, deck[*place]));
            dealer.at += match place {
                Some(place) => {
                    deck.remove(place);
                    millis(&mut self.rng, dealer.gap.clone())
                }
                None => NEXT_TRY,
            };
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
            Blow::Endpoint => self.endpoint(at),
            Blow::TakeFile => {
                let files = self.setting.workers_into(SinkKind::File);
                self.down(at, files, Deed::TakeFile, 500..3000, Deed::GiveFileBack)
            }
            Blow::SetLimit => {
                let (raised, back) = (RAISED_LIMIT, DELIVERY_LIMIT);
                self.change(at, Deed::SetLimit(raised), Deed::SetLimit(back))
            }
            Blow::SetLock => {
                let (shorter, back) = (SHORTER_LOCK, LOCK);
                self.change(at, Deed::SetLock(shorter), Deed::SetLock(back))
            }
        }
    }

    fn down(
        &mut self,
        at: Duration,
        workers: impl Iterator<Item = usize>,
        begin: fn(usize) -> Deed,
        lasts: Range<u64>,
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
        let node = self.rng.usize(1..=self.setting.nodes);
        self.add(at, begin(node));
        self.add(until, Deed::StartNode(node));
        self.node_busy = until + NODE_REST;
        true
    }

    /// Changes a setting of the group and sets it back: no broker is struck
    /// meanwhile, which would have to be started before it can be set back.
    fn change(&mut self, at: Duration, there: Deed, back: Deed) -> bool {
        let until = at + millis(&mut self.rng, 2000..6000);
        if self.node_busy > at || until > self.end {
            return false;
        }
        self.add(at, there);
        self.add(until, back);
        self.node_busy = until;
        true
    }

    fn endpoint(&mut self, at: Duration) -> bool {
        if self.moods.is_empty() {
            self.moods.extend(Mood::ALL);
            // What is given back each time would use up its attempts.
            let at_once = self.setting.retried == Retried::GivenBackAtOnce;
            self.moods.retain(|mood| !(at_once && mood.fails_again()));
            self.rng.shuffle(&mut self.moods);
        }
        let Some(mood) = self.moods.last().copied() else {
            return false;
        };
        let lasts = millis(&mut self.rng, mood.lasts());
        if at + lasts + mood.aftermath() > self.end {
            return false;
        }
        self.moods.pop();
        self.add(at, Deed::Endpoint(mood, lasts));
        true
    }

    fn whole(&mut self, at: Duration, workers: impl Iterator<Item = usize>) -> Option<usize> {
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

fn millis(rng: &mut Rng, range: Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}
