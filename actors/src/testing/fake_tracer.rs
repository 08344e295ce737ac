//! A tracer that keeps what it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::life::{Choice, FinishedLife, FinishedPut};
use crate::ports::tracer::Tracer;
use crate::sampling::Sampling;

/// See the module.
#[derive(Debug)]
pub struct FakeTracer {
    sampling: Sampling,
    room: AtomicUsize,
    admitted: AtomicUsize,
    left_out: AtomicUsize,
    ended: AtomicUsize,
    lives: Mutex<Vec<FinishedLife>>,
    puts: Mutex<Vec<FinishedPut>>,
}

impl FakeTracer {
    #[must_use]
    pub fn new(sampling: Sampling) -> Arc<Self> {
        Arc::new(Self {
            sampling,
            room: AtomicUsize::new(usize::MAX),
            admitted: AtomicUsize::new(0),
            left_out: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            lives: Mutex::default(),
            puts: Mutex::default(),
        })
    }

    /// Admits no more than so many in all.
    pub fn set_room(&self, lives: usize) {
        self.room.store(lives, Ordering::SeqCst);
    }

    /// How many lives have begun.
    #[must_use]
    pub fn admitted(&self) -> usize {
        self.admitted.load(Ordering::SeqCst)
    }

    /// How many there was no room for.
    #[must_use]
    pub fn without_room(&self) -> usize {
        self.left_out.load(Ordering::SeqCst)
    }

    /// How many have ended.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    /// Those that have ended, in their order.
    #[must_use]
    pub fn take_lives(&self) -> Vec<FinishedLife> {
        std::mem::take(&mut self.lives.lock())
    }

    #[must_use]
    pub fn take_puts(&self) -> Vec<FinishedPut> {
        std::mem::take(&mut self.puts.lock())
    }
}

impl Tracer for FakeTracer {
    fn sampling(&self) -> Sampling {
        self.sampling
    }

    fn admits(&self, _choice: Choice, _now: Instant) -> bool {
        let admits = self.admitted() < self.room.load(Ordering::SeqCst);
        self.admitted
            .fetch_add(usize::from(admits), Ordering::SeqCst);
        admits
    }

    fn left_out(&self, deliveries: usize) {
        self.left_out.fetch_add(deliveries, Ordering::SeqCst);
    }

    fn ended(&self, life: FinishedLife) {
        self.lives.lock().push(life);
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    fn put_ended(&self, put: FinishedPut) {
        self.puts.lock().push(put);
    }
}
