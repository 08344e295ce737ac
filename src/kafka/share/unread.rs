//! What is acquired and not read yet: how much of it may be decompressed, and
//! how far it grows.
//!
//! A fetch is bounded in bytes as they lie in the log, memory in bytes as they
//! are read, and records of a megabyte may come in a few bytes each. So less
//! is asked for the more the last answers grew, and what grows further than
//! that is read batch by batch, as the credit allows.

use std::collections::VecDeque;
use std::sync::Arc;

use sluice_actors::credit::{BytesHeld, Credit};
use tokio::time::Instant;

use super::request::{Read, ToRead, Unread};

/// How far answers grow before any was read.
const GUESS: usize = 64;
/// An answer that grows so far unexpectedly fits into the credit all the same.
const CAUTION: usize = 8;
/// Bytes that are read at once: some tenths of a millisecond.
const PIECE: usize = 128 << 10;
/// When this part of its lock's time has passed, what waits is renewed.
const RENEWAL: u32 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct UnreadQueue {
    waiting: VecDeque<Unread>,
    /// Something came since the last look. Its first batch is read whatever
    /// the credit, and all of it if it does not grow: it is in memory already.
    fresh: bool,
    /// How many times larger than in the log records are, at most and lately.
    growth: usize,
    /// For what waits, see [`Unread::reserved`], and for what is being read, see
    /// [`ToRead::room`].
    reserved: Arc<Credit>,
}

impl Default for UnreadQueue {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            fresh: false,
            growth: GUESS,
            reserved: Credit::new(0),
        }
    }
}

impl UnreadQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Takes in what was acquired.
    pub(super) fn push(&mut self, unread: Vec<Unread>) {
        for mut one in unread {
            self.reserve(&mut one);
            self.waiting.push_back(one);
            self.fresh = true;
        }
    }

    /// Takes back what there was no credit for.
    pub(super) fn put_back(&mut self, left: Vec<Unread>) {
        for mut one in left.into_iter().rev() {
            self.reserve(&mut one);
            self.waiting.push_front(one);
        }
    }

    /// The next fetch asks for what that leaves.
    fn reserve(&self, unread: &mut Unread) {
        let more = growing(unread.acquired.held.bytes(), self.growth);
        unread.reserved = Some(self.reserved.hold(more));
    }

    /// Learns from what was read.
    pub(super) fn observe(&mut self, read: &Read) {
        if read.packed == 0 {
            return;
        }
        let seen = read.unpacked.div_ceil(read.packed).max(1);
        // Up at once, down slowly: the next answer may be like the one before.
        self.growth = seen.max(self.growth - self.growth.saturating_sub(seen).div_ceil(8));
    }

    /// How many bytes to ask for, so that they fit when they are read.
    pub(super) fn askable(&self, free: usize) -> usize {
        let free = free.saturating_sub(self.reserved.held_bytes());
        free.div_ceil(self.growth.max(CAUTION))
    }

    /// What is to be read now, in pieces that may be read side by side, and how
    /// far each may grow. Each reads a batch at least, so only the first one is
    /// read without room. What is being renewed waits for the answers, so that
    /// it comes with its new deadline and the pipeline hears of no renewal that
    /// it did not ask for.
    pub(super) fn take(
        &mut self,
        credit: &Credit,
        is_renewing: impl Fn(&Unread) -> bool,
    ) -> Vec<ToRead> {
        let mut room = credit
            .limit_bytes()
            .saturating_sub(self.held_by_others(credit));
        let mut may_read = std::mem::take(&mut self.fresh) || room > 0;
        let (renewing, ready): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(is_renewing);
        self.waiting = renewing;
        let mut taken = Vec::new();
        for piece in pieces(ready) {
            if may_read {
                let to_read = self.grant(piece, room);
                room -= to_read.room.bytes();
                taken.push(to_read);
            } else {
                self.waiting.extend(piece);
            }
            may_read = room > 0;
        }
        taken
    }

    /// The room takes the place of what was reserved, until the piece is read:
    /// nobody else gets it. It is as much as was asked for with this in mind.
    fn grant(&self, mut piece: Vec<Unread>, room: usize) -> ToRead {
        for one in &mut piece {
            one.reserved = None;
        }
        let packed = piece.iter().map(|one| one.acquired.held.bytes()).sum();
        let may_grow = growing(packed, self.growth.max(CAUTION));
        ToRead {
            unread: piece,
            room: self.reserved.hold(room.min(may_grow)),
        }
    }

    /// What is to be renewed by now, if it is not being renewed; nobody else
    /// does it before it is read.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = &Unread> {
        self.waiting
            .iter()
            .filter(move |one| renewal_at(one) <= now)
    }

    /// Sets the deadlines right, which are those of the first locks to end, and
    /// forgets what has lost all its locks. Ranges may be renewed one after the
    /// other: the first lock ends later when the last of them has its answer.
    pub(super) fn update(&mut self, deadline: impl Fn(&Unread) -> Option<Instant>) {
        self.waiting.retain_mut(|one| {
            let Some(deadline) = deadline(one) else {
                return false;
            };
            one.acquired.deadline = deadline;
            true
        });
    }

    /// By records, and by what is being read.
    fn held_by_others(&self, credit: &Credit) -> usize {
        let held = |one: &Unread| {
            let reserved = one.reserved.as_ref().map_or(0, BytesHeld::bytes);
            one.acquired.held.bytes() + reserved
        };
        let own: usize = self.waiting.iter().map(held).sum();
        (credit.held_bytes() + self.reserved.held_bytes()).saturating_sub(own)
    }

    /// When the first that waits is to be renewed, of those that are not being
    /// renewed.
    pub(super) fn renewal_at(&self, is_renewing: impl Fn(&Unread) -> bool) -> Option<Instant> {
        let waiting = self.waiting.iter().filter(|one| !is_renewing(one));
        waiting.map(renewal_at).min()
    }
}

/// What comes on top of so many bytes that grow so many times.
fn growing(packed: usize, times: usize) -> usize {
    packed.saturating_mul(times - 1)
}

/// Partitions' answers to be read together, `PIECE` bytes or the last of them.
fn pieces(unread: impl IntoIterator<Item = Unread>) -> Vec<Vec<Unread>> {
    let mut pieces = Vec::new();
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for one in unread {
        bytes += one.acquired.held.bytes();
        piece.push(one);
        if bytes >= PIECE {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

fn renewal_at(unread: &Unread) -> Instant {
    let acquired = &unread.acquired;
    let left = acquired.lock - acquired.lock / RENEWAL;
    let renewal_at = acquired.deadline.checked_sub(left);
    renewal_at.unwrap_or(acquired.arrived_at)
}
