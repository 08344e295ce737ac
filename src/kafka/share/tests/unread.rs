//! How much of what was acquired is read.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sluice_actors::credit::Credit;
use tokio::time::Instant;

use super::sim::{LOCK, key, partition};
use crate::kafka::share::request::{Acquired, Acquisition, Read, ToRead, Unread};
use crate::kafka::share::unread::UnreadQueue;

const LIMIT: usize = 100_000;
const MILLI: Duration = Duration::from_millis(1);

struct Desk {
    queue: UnreadQueue,
    credit: Arc<Credit>,
    now: Instant,
    /// What waits is.
    renewing: bool,
}

impl Desk {
    /// Where answers grow so many times.
    fn new(growth: usize) -> Self {
        let mut desk = Self {
            queue: UnreadQueue::default(),
            credit: Credit::new(LIMIT),
            now: Instant::now(),
            renewing: false,
        };
        for _ in 0..100 {
            desk.queue.observe(&read(growth));
        }
        desk
    }

    fn unread(&self, bytes: usize) -> Unread {
        Unread {
            broker: 1,
            key: key(0),
            acquired: Acquired {
                acquisition: Acquisition(0),
                partition: partition(0),
                ranges: Vec::new(),
                doubled: false,
                deadline: self.now + LOCK,
                lock: LOCK,
                arrived_at: self.now,
                bytes: Some(Bytes::from(vec![0; bytes])),
                held: self.credit.hold(bytes),
            },
            reserved: None,
        }
    }

    fn push(&mut self, bytes: usize) {
        let unread = vec![self.unread(bytes)];
        self.queue.push(unread);
    }

    fn put_back(&mut self, bytes: usize) {
        let left = vec![self.unread(bytes)];
        self.queue.put_back(left);
    }

    /// How many are to be read in each piece, and how far they may grow.
    fn take(&mut self) -> Vec<(usize, usize)> {
        let short = |piece: &ToRead| (piece.unread.len(), piece.room.bytes());
        self.read().iter().map(short).collect()
    }

    /// What is to be read, in pieces.
    fn read(&mut self) -> Vec<ToRead> {
        self.queue.take(&self.credit, |_| self.renewing)
    }

    fn renewal_at(&self) -> Option<Instant> {
        self.queue.renewal_at(|_| self.renewing)
    }
}

fn read(growth: usize) -> Read {
    Read {
        broker: 1,
        key: key(0),
        batch: None,
        gaps: Vec::new(),
        acquisition: Acquisition(0),
        packed: 1000,
        unpacked: 1000 * growth,
    }
}

#[test]
fn less_is_asked_for_until_what_came_is_read() {
    let mut desk = Desk::new(30);
    desk.push(2000);
    let free = desk.credit.free_bytes();
    assert_eq!(desk.queue.askable(free), 40_000_usize.div_ceil(30));
    let reading = desk.read();
    assert_eq!(desk.queue.askable(free), 40_000_usize.div_ceil(30));
    assert_eq!(
        desk.credit.held_bytes(),
        2000,
        "what there is, not what may be"
    );
    desk.put_back(10);
    desk.push(10);
    assert_eq!(desk.take(), [(2, 580)], "beside what is being read");
    drop(reading);
    assert_eq!(desk.queue.askable(LIMIT), LIMIT.div_ceil(30));
}

#[test]
fn growth_is_learned_at_once_and_forgotten_slowly() {
    let mut desk = Desk::new(1);
    assert_eq!(desk.queue.askable(LIMIT), LIMIT / 8);
    desk.queue.observe(&read(100));
    assert_eq!(desk.queue.askable(LIMIT), LIMIT / 100);
    for _ in 0..5 {
        desk.queue.observe(&read(1));
    }
    let asked = desk.queue.askable(LIMIT);
    assert!((LIMIT / 75..LIMIT / 25).contains(&asked), "{asked}");
}

#[test]
fn with_free_bytes_something_is_asked_for_however_much_it_grows() {
    let desk = Desk::new(1_000_000);
    assert_eq!(desk.queue.askable(LIMIT), 1);
    assert_eq!(desk.queue.askable(0), 0);
}

#[test]
fn what_came_is_read_at_once_as_far_as_the_credit_goes() {
    let mut desk = Desk::new(1);
    assert_eq!(desk.take(), []);
    let others = desk.credit.hold(70_000);
    desk.push(1000);
    desk.push(1000);
    assert_eq!(desk.take(), [(2, 14_000)], "as was asked for with caution");
    let more = desk.credit.hold(20_000);
    desk.push(1000);
    desk.push(1000);
    assert_eq!(desk.take(), [(2, 10_000)], "its own bytes apart");
    drop(more);
    drop(others);
    let _all = desk.credit.hold(LIMIT);
    desk.push(1000);
    assert_eq!(desk.take(), [(1, 0)], "one batch, whatever the credit");
}

#[test]
fn what_is_left_waits_for_credit() {
    let mut desk = Desk::new(1);
    let all = desk.credit.hold(LIMIT);
    desk.put_back(1000);
    assert_eq!(desk.take(), []);
    let most = desk.credit.hold(LIMIT - 5000);
    drop(all);
    assert_eq!(desk.take(), [(1, 5000)]);
    drop(most);
}

#[test]
fn without_room_only_the_first_piece_is_read() {
    let mut desk = Desk::new(1);
    let all = desk.credit.hold(LIMIT);
    desk.push(200_000);
    desk.push(200_000);
    assert_eq!(desk.take(), [(1, 0)]);
    assert_eq!(desk.take(), [], "the other one waits");
    drop(all);
    assert_eq!(desk.take(), [(1, LIMIT)]);
}

#[test]
fn room_is_granted_once_until_what_it_is_for_was_read() {
    let mut desk = Desk::new(1);
    desk.push(10_000);
    let reading = desk.read();
    assert_eq!(reading[0].room.bytes(), 70_000);
    desk.push(10_000);
    assert_eq!(desk.take(), [(1, 20_000)], "what the other one leaves");
    drop(reading);
    desk.push(10_000);
    assert_eq!(desk.take(), [(1, 70_000)]);
}

#[test]
fn what_is_left_is_read_first() {
    let mut desk = Desk::new(1);
    desk.push(10);
    desk.put_back(20);
    let to_read = desk.read();
    let sizes = to_read[0]
        .unread
        .iter()
        .map(|one| one.acquired.bytes.as_ref().unwrap().len());
    assert_eq!(sizes.collect::<Vec<_>>(), [20, 10]);
}

#[test]
fn what_waits_is_renewed_and_read_after_the_answer() {
    let mut desk = Desk::new(1);
    let all = desk.credit.hold(LIMIT);
    desk.put_back(1000);
    let deadline = desk.now + LOCK;
    let renewal_at = desk.now + LOCK / 4;
    assert_eq!(desk.renewal_at(), Some(renewal_at));
    assert_eq!(desk.queue.due(renewal_at - MILLI).count(), 0);
    assert_eq!(desk.queue.due(renewal_at).count(), 1);
    desk.renewing = true;
    assert_eq!(desk.renewal_at(), None);

    drop(all);
    desk.queue.update(|_| Some(deadline));
    assert_eq!(desk.take(), [], "the answer will change its deadline");
    desk.queue.update(|_| Some(renewal_at + LOCK));
    desk.renewing = false;
    let again = renewal_at + LOCK / 4;
    assert_eq!(desk.renewal_at(), Some(again), "and so on");
    assert_eq!(desk.queue.due(again - MILLI).count(), 0);
    let to_read = desk.read();
    assert_eq!(to_read[0].unread[0].acquired.deadline, renewal_at + LOCK);
}

/// What was read in part waits with what is left of it, whose first lock may be
/// another one's.
#[test]
fn what_waits_is_kept_when_its_deadline_moves() {
    let mut desk = Desk::new(1);
    desk.put_back(1000);
    let later = desk.now + LOCK + MILLI;
    desk.queue.update(|_| Some(later));
    let to_read = desk.read();
    assert_eq!(to_read[0].unread[0].acquired.deadline, later);
}

#[test]
fn what_has_lost_its_lock_is_not_read() {
    let mut desk = Desk::new(1);
    desk.push(1000);
    desk.queue.update(|_| None);
    assert_eq!(desk.take(), []);
    assert_eq!(desk.credit.held_bytes(), 0);
}

#[test]
fn what_came_with_a_slow_answer_is_renewed_at_once() {
    let mut desk = Desk::new(1);
    desk.put_back(1000);
    let soon = desk.now + LOCK / 2;
    desk.queue.update(|_| Some(soon));
    assert_eq!(desk.queue.due(desk.now).count(), 1);
}
