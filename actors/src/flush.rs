//! When a sink that buffers is flushed. Pure but for the call; the time is
//! passed in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::chunk::Chunk;
use crate::report::Report;
use crate::until::until;

/// How much a task lets its sink buffer, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushPolicy {
    /// The longest that a record waits while work keeps coming.
    pub interval: Duration,
    /// How long without work the sink is left unflushed.
    pub idle: Duration,
    pub records: Option<usize>,
    pub bytes: Option<usize>,
}

impl Default for FlushPolicy {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(500),
            idle: Duration::from_millis(5),
            records: None,
            bytes: None,
        }
    }
}

/// A put whose records wait for the sink's flush.
#[derive(Debug)]
pub(crate) struct BufferedPut {
    pub(crate) lease: u32,
    pub(crate) report: Report,
    /// Flushed by itself, at once.
    pub(crate) alone: bool,
}

/// What a task's sink has buffered since its last flush.
#[derive(Debug)]
pub(crate) struct Buffered {
    puts: Vec<BufferedPut>,
    records: usize,
    bytes: usize,
    since: Instant,
    /// The last call for a flush before that.
    pub(crate) call: u64,
}

impl Buffered {
    pub(crate) const fn new(now: Instant, call: u64) -> Self {
        Self {
            puts: Vec::new(),
            records: 0,
            bytes: 0,
            since: now,
            call,
        }
    }

    pub(crate) fn add(&mut self, put: BufferedPut, chunk: &Chunk, policy: &FlushPolicy) {
        self.puts.push(put);
        self.records += chunk.len();
        if policy.bytes.is_some() {
            self.bytes += chunk.iter().map(|it| it.payload_bytes()).sum::<usize>();
        }
    }

    pub(crate) fn into_puts(self) -> Vec<BufferedPut> {
        self.puts
    }

    /// Whether the flush comes before any more work.
    pub(crate) fn is_due(&self, policy: &FlushPolicy, now: Instant, call: u64) -> bool {
        self.puts.last().is_some_and(|put| put.alone)
            || now >= self.since + policy.interval
            || policy.records.is_some_and(|limit| self.records >= limit)
            || policy.bytes.is_some_and(|limit| self.bytes >= limit)
            || call > self.call
    }

    /// When the flush comes if no more work does.
    pub(crate) fn due_without_work(&self, policy: &FlushPolicy, now: Instant) -> Instant {
        (self.since + policy.interval).min(now + policy.idle)
    }
}

/// A call to all tasks of a connector: what they buffer keeps the source from
/// giving more.
#[derive(Debug, Default)]
pub(crate) struct FlushCall {
    calls: AtomicU64,
    called: Notify,
}

impl FlushCall {
    pub(crate) fn call(&self) {
        self.calls.fetch_add(1, Ordering::AcqRel);
        self.called.notify_waiters();
    }

    pub(crate) fn last(&self) -> u64 {
        self.calls.load(Ordering::Acquire)
    }

    /// Waits for another call than this one.
    pub(crate) async fn after(&self, call: u64) {
        until(&self.called, || self.last() > call).await;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::testing::records;
    use crate::value::{Datum, Value};

    const POLICY: FlushPolicy = FlushPolicy {
        interval: Duration::from_millis(500),
        idle: Duration::from_millis(50),
        records: Some(10),
        bytes: Some(1000),
    };

    fn chunk(len: i64, bytes: usize) -> Chunk {
        let mut records = records(0..len);
        for record in &mut records {
            record.value = Datum::schemaless(Value::Bytes(Bytes::from(vec![7; bytes])));
        }
        Chunk::new(records)
    }

    #[test]
    fn records_bytes_time_and_a_call_each_bring_the_flush() {
        let now = Instant::now();
        let buffered = |len, bytes, alone| {
            let mut buffered = Buffered::new(now, 3);
            let (lease, report) = (1, Report::new(len as usize));
            let put = BufferedPut {
                lease,
                report,
                alone,
            };
            buffered.add(put, &chunk(len, bytes), &POLICY);
            buffered
        };
        assert!(!buffered(9, 100, false).is_due(&POLICY, now, 3));
        assert!(buffered(10, 1, false).is_due(&POLICY, now, 3), "records");
        assert!(buffered(5, 200, false).is_due(&POLICY, now, 3), "bytes");
        assert!(buffered(1, 1, false).is_due(&POLICY, now + POLICY.interval, 3));
        assert!(
            buffered(1, 1, false).is_due(&POLICY, now, 4),
            "called since"
        );
        let unbounded = FlushPolicy {
            records: None,
            bytes: None,
            ..POLICY
        };
        assert!(buffered(1, 1, true).is_due(&unbounded, now, 3), "alone");
        assert!(!buffered(1000, 1000, false).is_due(&unbounded, now, 3));
    }

    #[test]
    fn without_work_it_comes_soon_and_never_later_than_with_it() {
        let now = Instant::now();
        let buffered = Buffered::new(now, 0);
        let after = |millis| now + Duration::from_millis(millis);
        assert_eq!(buffered.due_without_work(&POLICY, after(100)), after(150));
        assert_eq!(buffered.due_without_work(&POLICY, after(480)), after(500));
    }

    #[tokio::test]
    async fn a_call_is_heard_also_if_it_came_before() {
        let call = FlushCall::default();
        let before = call.last();
        call.call();
        call.after(before).await;
        let none = tokio::time::timeout(Duration::from_millis(20), call.after(call.last()));
        assert!(none.await.is_err());
    }
}
