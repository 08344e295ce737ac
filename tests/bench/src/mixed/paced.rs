//! Records at a steady pace, and when each was delivered: as told by a named
//! pipe that the sinks append values to, so no contestant's own figures count.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::pipe::fcntl_setpipe_size;
use sluice_test_support::kafka::Kafka;
use sluice_test_support::produce::{NewRecord, produce};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe::{self, OpenOptions};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::distribution::Distribution;
use super::slow::Slow;

const TICK: Duration = Duration::from_millis(1);
/// As large as Linux lets anybody have it. A write to a full pipe could have
/// another one in its middle.
const PIPE_BYTES: usize = 1 << 20;
/// A JVM starts, joins a group, and delivers its first records.
const BEGINS_WITHIN: Duration = Duration::from_secs(90);
/// Behind the last record; whoever carries the load needs a second or two.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Of a record that only moves its partition on.
const LEAD: &str = "lead";

/// What is produced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) partitions: u32,
    pub(super) per_second: f64,
    pub(super) records: usize,
    /// So many of the first do not count.
    pub(super) warming_up: usize,
    /// The slow ones are apart from each other by this pattern, also if none
    /// is slow.
    pub(super) pattern: Slow,
}

impl Plan {
    /// Records ahead of the others in that partition: with as many in each, all
    /// partitions would come to their slow records at once.
    const fn lead(self, partition: u32) -> u32 {
        partition * self.pattern.every / self.partitions
    }

    fn leads(self) -> Vec<NewRecord> {
        let one = |partition: u32| NewRecord::value(LEAD).partition(partition.cast_signed());
        (0..self.partitions)
            .flat_map(|partition| (0..self.lead(partition)).map(move |_| one(partition)))
            .collect()
    }

    const fn partition(self, id: usize) -> u32 {
        (id % self.partitions as usize) as u32
    }

    const fn is_slow(self, id: usize) -> bool {
        let lead = self.lead(self.partition(id)) as u64;
        self.pattern
            .is(lead + (id / self.partitions as usize) as u64)
    }

    fn record(self, id: usize, produced: Duration) -> NewRecord {
        let value = format!("{id} {}", produced.as_micros());
        NewRecord::value(value).partition(self.partition(id).cast_signed())
    }
}

/// Where deliveries are told.
#[derive(Debug)]
pub(super) struct Deliveries {
    lines: Lines<BufReader<pipe::Receiver>>,
    /// What production times count from.
    begin: Instant,
}

impl Deliveries {
    /// Makes the pipe; it must not be there.
    pub(super) fn open(path: &Path) -> Result<Self> {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .with_context(|| format!("cannot make the pipe {}", path.display()))?;
        // Open for writing too, it has no end when a sink closes it.
        let pipe = OpenOptions::new().read_write(true).open_receiver(path)?;
        fcntl_setpipe_size(&pipe, PIPE_BYTES)?;
        Ok(Self {
            lines: BufReader::new(pipe).lines(),
            begin: Instant::now(),
        })
    }

    /// Produces what is planned, and returns the latencies of the fast records
    /// behind those that warm up. `check` fails if the contestant has ended.
    pub(super) async fn of(
        &mut self,
        plan: Plan,
        kafka: &Kafka,
        topic: &str,
        check: impl Fn() -> Result<()>,
    ) -> Result<Distribution> {
        let leads = plan.leads();
        let many = leads.len();
        produce(kafka.bootstrap_servers(), topic, leads).await?;
        within("first records", BEGINS_WITHIN, self.pass(many), &check).await?;
        let (sender, receiver) = channel();
        let produced = produce(kafka.bootstrap_servers(), topic, receiver);
        let mut arrivals = Arrivals::new(plan.records);
        let lasts = Duration::from_secs_f64(plan.records as f64 / plan.per_second);
        let begin = self.begin;
        let all = self.collect(&mut arrivals);
        let all = within("all records", lasts + ENDS_WITHIN, all, &check);
        let ((), produced, all) = tokio::join!(pace(plan, begin, sender), produced, all);
        produced?;
        let missing = arrivals.missing;
        all.with_context(|| format!("{missing} of {} were not delivered", plan.records))?;
        let latencies = arrivals.counted(plan);
        Distribution::new(latencies).context("no record counts; produce for longer")
    }

    /// Waits for so many leads.
    async fn pass(&mut self, leads: usize) -> Result<()> {
        let mut seen = 0;
        while seen < leads {
            seen += usize::from(self.next().await? == LEAD);
        }
        Ok(())
    }

    async fn collect(&mut self, arrivals: &mut Arrivals) -> Result<()> {
        while arrivals.missing > 0 {
            let line = self.next().await?;
            arrivals.note(&line, self.begin.elapsed());
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<String> {
        let line = self.lines.next_line().await?;
        line.context("the pipe of deliveries has ended")
    }
}

/// When each record came first.
#[derive(Debug)]
struct Arrivals {
    /// By id.
    latencies: Vec<Option<Duration>>,
    missing: usize,
}

impl Arrivals {
    fn new(records: usize) -> Self {
        Self {
            latencies: vec![None; records],
            missing: records,
        }
    }

    /// Notes a line of the pipe. Leads and what comes again change nothing.
    fn note(&mut self, line: &str, now: Duration) {
        let told = line
            .split_once(' ')
            .and_then(|(id, produced)| Some((id.parse().ok()?, produced.parse().ok()?)));
        let Some((id, produced)) = told else { return };
        let place: Option<&mut Option<Duration>> = self.latencies.get_mut::<usize>(id);
        if let Some(latency @ None) = place {
            *latency = Some(now.saturating_sub(Duration::from_micros(produced)));
            self.missing -= 1;
        }
    }

    fn counted(self, plan: Plan) -> Vec<Duration> {
        let all = self.latencies.into_iter().enumerate();
        all.skip(plan.warming_up)
            .filter(|(id, _)| !plan.is_slow(*id))
            .filter_map(|(_, latency)| latency)
            .collect()
    }
}

/// Sends what is due at each tick, stamped then.
async fn pace(plan: Plan, clock: Instant, out: Sender<NewRecord>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let begin = Instant::now();
    let mut sent = 0;
    while sent < plan.records {
        ticks.tick().await;
        let due = (begin.elapsed().as_secs_f64() * plan.per_second) as usize;
        let due = due.min(plan.records);
        for id in sent..due {
            if out.send(plan.record(id, clock.elapsed())).is_err() {
                // The producer failed, which its own result tells.
                return;
            }
        }
        sent = due;
    }
}

async fn within<T>(
    what: &str,
    limit: Duration,
    work: impl Future<Output = Result<T>>,
    check: impl Fn() -> Result<()>,
) -> Result<T> {
    let mut ticks = interval(CHECK_EVERY);
    let watch = async {
        loop {
            ticks.tick().await;
            if let Err(ended) = check() {
                return ended;
            }
        }
    };
    tokio::select! {
        done = timeout(limit, work) => {
            done.with_context(|| format!("waited {limit:?} for the delivery of {what}"))?
        }
        ended = watch => Err(ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixed::slow::KINDS;

    const PLAN: Plan = Plan {
        partitions: 4,
        per_second: 1000.0,
        records: 8000,
        warming_up: 10,
        pattern: KINDS[0],
    };

    #[test]
    fn slow_records_of_the_partitions_come_one_after_the_other() {
        let slow: Vec<usize> = (0..PLAN.records).filter(|id| PLAN.is_slow(*id)).collect();
        let apart: Vec<usize> = slow.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(slow.len(), 8);
        assert!(
            apart.iter().all(|ids| (990..1010).contains(ids)),
            "{apart:?}"
        );
    }

    #[test]
    fn leads_are_never_slow_themselves() {
        for plan in KINDS.map(|pattern| Plan { pattern, ..PLAN }) {
            let longest = plan.lead(plan.partitions - 1);
            assert!(longest > 0 && longest < plan.pattern.every);
            let leads: u32 = (0..4).map(|partition| plan.lead(partition)).sum();
            assert_eq!(plan.leads().len(), leads as usize);
        }
    }

    #[test]
    fn the_first_delivery_of_a_record_counts_and_torn_lines_do_not() {
        let mut arrivals = Arrivals::new(2);
        let at = Duration::from_micros;
        for (line, now) in [
            ("lead", 1),
            ("1 5", 25),
            ("1 5", 95),
            ("0 ", 30),
            ("7 1", 30),
        ] {
            arrivals.note(line, at(now));
        }
        assert_eq!(arrivals.latencies, [None, Some(at(20))]);
        assert_eq!(arrivals.missing, 1);
    }

    #[test]
    fn neither_slow_records_nor_those_that_warm_up_count() {
        let mut arrivals = Arrivals::new(PLAN.records);
        for id in 0..PLAN.records {
            let latency = if PLAN.is_slow(id) {
                1_000_000
            } else {
                id as u64
            };
            arrivals.note(&format!("{id} 0"), Duration::from_micros(latency));
        }
        let counted = arrivals.counted(PLAN);
        assert_eq!(counted.len(), PLAN.records - 10 - 8);
        assert_eq!(counted.first(), Some(&Duration::from_micros(10)));
        assert!(counted.iter().all(|it| *it < Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn records_are_sent_at_their_pace_and_stamped_then() {
        let (sender, receiver) = channel();
        let clock = Instant::now();
        pace(PLAN, clock, sender).await;
        let took = clock.elapsed().as_secs_f64();
        assert!((7.9..8.1).contains(&took), "{took}");
        let sent: Vec<NewRecord> = receiver.into_iter().collect();
        assert_eq!(sent.len(), PLAN.records);
        let value = String::from_utf8(sent[4000].value.clone().unwrap()).unwrap();
        let (id, produced) = value.split_once(' ').unwrap();
        let produced: u64 = produced.parse().unwrap();
        assert_eq!(id, "4000");
        assert!((3_990_000..4_010_000).contains(&produced), "{produced}");
        assert_eq!(sent[4001].partition, Some(1));
    }

    #[tokio::test]
    async fn lines_of_many_writers_come_through_the_pipe() {
        use std::io::Write as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deliveries");
        let mut deliveries = Deliveries::open(&path).unwrap();
        let open = || {
            std::fs::OpenOptions::new()
                .append(true)
                .open(&path)
                .unwrap()
        };
        open()
            .write_all(
                b"lead
",
            )
            .unwrap();
        open()
            .write_all(
                b"lead
0 0
",
            )
            .unwrap();
        deliveries.pass(2).await.unwrap();
        let mut arrivals = Arrivals::new(1);
        deliveries.collect(&mut arrivals).await.unwrap();
        assert_eq!(arrivals.missing, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_contestant_that_has_ended_is_not_waited_for() {
        let never = std::future::pending::<Result<()>>();
        let ended = || anyhow::bail!("it ended");
        let refused = within("x", ENDS_WITHIN, never, ended).await.unwrap_err();
        assert_eq!(refused.to_string(), "it ended");
        let never = std::future::pending::<Result<()>>();
        let late = within("all", ENDS_WITHIN, never, || Ok(()))
            .await
            .unwrap_err();
        assert!(format!("{late:#}").contains("delivery of all"), "{late:#}");
    }
}
