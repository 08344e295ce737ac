//! How many records to have in flight: just enough that no task waits, so
//! that other workers find records too and few come late.

use std::time::Duration;

use crate::put_cost::ShortPuts;

/// Records queued for longer than this are too many.
const LONGEST_QUEUE_WAIT: Duration = Duration::from_millis(30);
/// How many rounds of puts may be in flight where larger puts deliver more: one
/// with the sink, and twice as much for the next.
const ROUNDS: f64 = 3.0;
/// How many puts long a record may then be queued.
const PUTS_QUEUED: f64 = 2.5;
/// How fast the window gives way when it is larger than needed.
const SHRINK: f64 = 0.9;
const GROW: f64 = 1.5;
/// No window is larger; memory is bounded by bytes.
const MAX_RECORDS: f64 = 65_536.0;
/// How much the newest measurement counts in the rate.
const RATE_WEIGHT: f64 = 0.3;

/// What happened since the last look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    pub elapsed: Duration,
    /// Records that got their outcome.
    pub finished: u64,
    /// Records waiting for a task.
    pub queued: usize,
    /// Many records failed in a row, and none was taken since.
    pub in_vain: bool,
    /// Records that are open.
    pub open: usize,
    /// Some task waited for records.
    pub starved: bool,
    /// Puts cost much by themselves, and are not full.
    pub short_puts: Option<ShortPuts>,
}

/// The window of one connector on this worker.
#[derive(Clone, Debug)]
pub struct Window {
    tasks: f64,
    min: f64,
    max: f64,
    records: f64,
    /// Records a second.
    rate: f64,
    adapts: bool,
}

impl Window {
    /// Starts with two records a task and never holds less than one for each.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        let min = (tasks + 1) as f64;
        Self {
            tasks: tasks as f64,
            min,
            max: MAX_RECORDS,
            records: 2.0 * min,
            rate: 0.0,
            adapts: true,
        }
    }

    /// Bounds the window by the span: no more can be locked than so many
    /// offsets in each of the partitions that records have come from.
    pub fn bound(&mut self, span: usize, partitions: usize) {
        if self.adapts {
            let locks = (span * partitions.max(1)) as f64;
            self.max = locks.clamp(self.min, MAX_RECORDS);
        }
    }

    /// A window that does not adapt.
    #[must_use]
    pub fn fixed(records: usize) -> Self {
        Self {
            tasks: 0.0,
            min: records as f64,
            max: records as f64,
            records: records as f64,
            rate: 0.0,
            adapts: false,
        }
    }

    #[must_use]
    pub fn records(&self) -> usize {
        self.records as usize
    }

    /// Adapts: grows while tasks wait though the window is full, or is used up
    /// many times over while a record may queue, or larger puts deliver more;
    /// gives way while records wait for tasks for long. Not while all fail:
    /// others would fail as they do.
    pub fn observe(&mut self, seen: Observation) -> usize {
        let seconds = seen.elapsed.as_secs_f64();
        let mut rate = 0.0;
        if seconds > 0.0 {
            rate = seen.finished as f64 / seconds;
            self.rate += RATE_WEIGHT * (rate - self.rate);
        }
        let worth_queueing = rate * LONGEST_QUEUE_WAIT.as_secs_f64();
        let full = seen.open as f64 >= 0.75 * self.records;
        if seen.starved && !seen.in_vain && (full || worth_queueing > self.records) {
            self.records = worth_queueing.max(self.records * GROW + self.min);
        } else if self.queue_wait(seen.queued) > longest_wait(seen.short_puts) {
            self.records *= SHRINK;
        }
        if let Some(short) = seen.short_puts.filter(|_| full && !seen.in_vain) {
            self.records = self.records.max(ROUNDS * self.tasks * short.records);
        }
        self.records = self.records.clamp(self.min, self.max);
        self.records()
    }

    /// Holds so many, if it may: a probe of the sink needs one more.
    pub fn at_least(&mut self, records: usize) -> usize {
        self.records = self.records.max(records as f64).min(self.max);
        self.records()
    }

    /// Seconds until a task gets to the record that was queued last.
    fn queue_wait(&self, queued: usize) -> f64 {
        if queued == 0 {
            0.0
        } else {
            queued as f64 / self.rate.max(1.0)
        }
    }
}

fn longest_wait(short_puts: Option<ShortPuts>) -> f64 {
    let puts = short_puts.map_or(0.0, |short| PUTS_QUEUED * short.took.as_secs_f64());
    puts.max(LONGEST_QUEUE_WAIT.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::put_cost::PutCost;

    const TICK: Duration = Duration::from_millis(10);

    fn observation(finished: u64, queued: usize, open: usize, starved: bool) -> Observation {
        Observation {
            elapsed: TICK,
            finished,
            queued,
            in_vain: false,
            open,
            starved,
            short_puts: None,
        }
    }

    #[test]
    fn grows_while_tasks_starve_on_a_full_window() {
        let mut window = Window::new(4);
        for _ in 0..40 {
            let open = window.records();
            window.observe(observation(10_000, 0, open, true));
        }
        assert_eq!(window.records(), 65_536);
    }

    #[test]
    fn a_sink_that_is_much_faster_is_caught_up_with_in_a_few_looks() {
        let mut window = Window::new(4);
        let mut looks = 0;
        while window.records() < 40_000 {
            // A few round trips a look, and nothing open at its moment.
            let finished = 5 * window.records() as u64;
            window.observe(observation(finished, 0, 0, true));
            looks += 1;
        }
        assert!(looks <= 4, "{looks}");
    }

    #[test]
    fn asks_for_no_more_than_the_span_can_hold() {
        let mut window = Window::new(4);
        for _ in 0..40 {
            window.bound(2000, 3);
            let open = window.records();
            window.observe(observation(10_000, 0, open, true));
        }
        assert_eq!(window.records(), 6000);
        let mut narrow = Window::new(500);
        narrow.bound(100, 1);
        narrow.observe(observation(0, 0, 500, true));
        assert_eq!(narrow.records(), 501, "one for each task all the same");
        narrow.bound(2000, 1);
        narrow.observe(observation(10_000, 0, 501, true));
        assert!(narrow.records() > 501, "the span was raised");
    }

    #[test]
    fn does_not_grow_when_the_topic_has_no_more() {
        let mut window = Window::new(4);
        let before = window.records();
        window.observe(observation(1, 0, 1, true));
        assert_eq!(window.records(), before);
    }

    #[test]
    fn does_not_grow_while_records_fail_in_a_row() {
        let mut window = Window::new(4);
        let before = window.records();
        let mut look = |in_vain| {
            let open = before;
            window.observe(Observation {
                in_vain,
                ..observation(0, 0, open, true)
            })
        };
        assert_eq!(look(true), before);
        assert!(look(false) > before);
    }

    #[test]
    fn a_probe_gets_one_more_than_fails_but_none_beyond_what_is_fixed() {
        let mut window = Window::new(4);
        assert_eq!(window.at_least(40), 40);
        assert_eq!(window.at_least(5), 40);
        assert_eq!(Window::fixed(20).at_least(21), 20);
    }

    #[test]
    fn gives_way_to_a_slow_sink_down_to_a_record_a_task() {
        let mut window = Window::new(4);
        window.records = 20_000.0;
        for _ in 0..200 {
            let queued = window.records() - 4;
            window.observe(observation(4, queued, window.records(), false));
        }
        // 400 a second and 30 ms: no more than a dozen may queue.
        assert!(window.records() <= 20, "{}", window.records());
        assert!(window.records() >= 5, "{}", window.records());
    }

    /// How much tasks put at a time in the end, each put as long as `takes` says.
    fn chunk_of_tasks(tasks: usize, takes: impl Fn(usize) -> Duration) -> usize {
        let mut window = Window::new(tasks);
        let mut cost = PutCost::default();
        let mut chunk = 1;
        for round in 0..300 {
            let took = takes(chunk);
            (0..tasks).for_each(|_| cost.add(chunk, took));
            let open = window.records();
            let queued = open.saturating_sub(tasks * chunk);
            let records = window.observe(Observation {
                elapsed: took,
                finished: (tasks * chunk) as u64,
                queued,
                in_vain: false,
                open,
                starved: queued == 0,
                short_puts: cost.short_puts(500),
            });
            // As the queue gives: a fair part of what is ready, now more, now less.
            let ready = records.saturating_sub(tasks * chunk);
            chunk = (ready / tasks + round % 3).clamp(1, 500);
        }
        chunk
    }

    #[test]
    fn puts_that_cost_the_same_whatever_they_hold_get_large() {
        let chunk = chunk_of_tasks(4, |_| Duration::from_millis(100));
        assert!(chunk > 200, "{chunk}");
    }

    #[test]
    fn puts_that_cost_what_their_records_do_stay_small() {
        let chunk = chunk_of_tasks(4, |records| Duration::from_millis(records as u64));
        assert!(chunk < 60, "{chunk}");
    }

    #[test]
    fn a_fixed_window_stays() {
        let mut window = Window::fixed(100);
        window.bound(2000, 12);
        window.observe(observation(0, 100, 100, true));
        assert_eq!(window.records(), 100);
    }
}
