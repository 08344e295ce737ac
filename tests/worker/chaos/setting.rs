//! What kind of run a seed makes: who delivers where, and how the connectors
//! are told to bear what comes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::schedule::WORKERS;

/// Where a worker delivers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// Writes each record into a file, and keeps to the plan.
    Null,
    /// The endpoint does.
    Http,
    /// Buffers: what it has written is settled when it is flushed. It knows of
    /// no plan, and takes what others refuse.
    File,
}

/// What becomes of records that the sink refuses for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutAside {
    /// They are rejected, and so archived by the broker.
    Rejected,
    /// They get dead letters of the worker's, and the broker archives nothing.
    Letters,
}

/// What becomes of records that the sink wants again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// They are held and tried on, without end.
    Held,
    /// They are held for less time than the endpoint's bad moods last, then
    /// given back.
    GivenBack,
    /// Each time they are given back at once.
    GivenBackAtOnce,
}

/// What ends a request that the endpoint does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The time for the request.
    Request,
    /// The time for the put, which is over before the lock.
    ShortPut,
    /// The same, and longer than a lock.
    LongPut,
}

#[derive(Clone, Debug)]
pub struct Setting {
    pub seed: u64,
    pub length: Duration,
    pub nodes: usize,
    /// Of each worker.
    pub sinks: [SinkKind; WORKERS],
    pub put_aside: PutAside,
    pub retried: Retried,
    pub patience: Patience,
    /// Of what fails at the endpoint.
    pub parking: bool,
}

impl Setting {
    pub fn of(seed: u64, length: Duration, nodes: usize) -> Self {
        let mut rng = Rng::with_seed(!seed);
        let mut sinks = [SinkKind::File, SinkKind::Http, SinkKind::Null];
        rng.shuffle(&mut sinks);
        let put_aside = match rng.u8(..4) {
            0 => PutAside::Rejected,
            _ => PutAside::Letters,
        };
        let retried = match rng.u8(..3) {
            0 => Retried::GivenBack,
            1 => Retried::GivenBackAtOnce,
            _ => Retried::Held,
        };
        let patience = match rng.u8(..3) {
            0 => Patience::Request,
            1 => Patience::ShortPut,
            _ => Patience::LongPut,
        };
        Self {
            seed,
            length,
            nodes,
            sinks,
            put_aside,
            retried,
            patience,
            // What is given back is not parked: at once it never could be, and
            // after some time it would be put aside from there.
            parking: retried == Retried::Held && rng.u8(..3) > 0,
        }
    }

    /// The same with sinks as they are named: of each worker, or of all.
    pub fn into_sinks(mut self, names: &str) -> Result<Self> {
        let kinds: Result<Vec<SinkKind>> = names.split(',').map(kind).collect();
        let kinds = kinds?;
        ensure!(
            kinds.len() == 1 || kinds.len() == WORKERS,
            "{names:?} names {} sinks; name one, or {WORKERS}",
            kinds.len()
        );
        let each = kinds.iter().cycle();
        let sinks = self.sinks.iter_mut();
        sinks.zip(each).for_each(|(sink, kind)| *sink = *kind);
        Ok(self)
    }

    pub fn workers_into(&self, kind: SinkKind) -> impl Iterator<Item = usize> {
        (0..WORKERS).filter(move |worker| self.sinks[*worker] == kind)
    }

    pub fn parks(&self, worker: usize) -> bool {
        self.parking && self.sinks[worker] == SinkKind::Http
    }

    /// Whether records can be given back up to their last attempt: at once each
    /// time, and whoever gets them next has a sink that does not take them either.
    pub fn wears_out(&self) -> bool {
        let at_once = self.retried == Retried::GivenBackAtOnce;
        at_once && self.workers_into(SinkKind::Http).count() == WORKERS
    }

    pub fn parkers(&self) -> impl Iterator<Item = usize> {
        (0..WORKERS).filter(|worker| self.parks(*worker))
    }
}

fn kind(name: &str) -> Result<SinkKind> {
    let kinds = [
        ("file", SinkKind::File),
        ("http", SinkKind::Http),
        ("null", SinkKind::Null),
    ];
    let found = kinds.into_iter().find(|(known, _)| *known == name.trim());
    let (_, kind) = found.with_context(|| format!("{name:?} is none of file, http, null"))?;
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(seed: u64) -> Setting {
        Setting::of(seed, Duration::from_secs(105), 1)
    }

    #[test]
    fn each_kind_of_sink_is_in_every_run_and_each_worker_has_each_once() {
        for worker in 0..WORKERS {
            for kind in [SinkKind::File, SinkKind::Http, SinkKind::Null] {
                assert!((0..50).any(|seed| setting(seed).sinks[worker] == kind));
                assert!((0..50).all(|seed| setting(seed).workers_into(kind).count() == 1));
            }
        }
    }

    #[test]
    fn each_way_is_taken_by_some_seed_and_a_seed_takes_the_same_again() {
        let has = |is: fn(&Setting) -> bool| assert!((0..50).any(|seed| is(&setting(seed))));
        has(|it| it.put_aside == PutAside::Rejected);
        has(|it| it.put_aside == PutAside::Letters);
        has(|it| it.retried == Retried::GivenBack);
        has(|it| it.retried == Retried::GivenBackAtOnce);
        has(|it| it.retried == Retried::Held && !it.parking);
        has(|it| it.parking);
        has(|it| it.patience == Patience::Request);
        has(|it| it.patience == Patience::ShortPut);
        has(|it| it.patience == Patience::LongPut);
        for seed in 0..50 {
            let (one, same) = (setting(seed), setting(seed));
            assert_eq!(format!("{one:?}"), format!("{same:?}"));
        }
    }

    #[test]
    fn sinks_may_be_named_one_for_all_or_each() {
        use SinkKind::{File, Http, Null};
        let named = |names| setting(1).into_sinks(names).map(|it| it.sinks);
        assert_eq!(named("http").unwrap(), [Http; WORKERS]);
        assert_eq!(named("null, file,null").unwrap(), [Null, File, Null]);
        for wrong in ["", "disk", "http,file", "http,file,null,null"] {
            named(wrong).unwrap_err();
        }
    }
}
