//! Plays a schedule, looks on, and gathers what was seen.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use sluice_test_support::consume::Follower;
use tokio::time::{Instant, Interval, interval};

use super::broker_books;
use super::cast::Cast;
use super::cluster::{Cluster, TOPIC};
use super::connectors::{
    BATCH, DELIVERY_LIMIT, GROUP, Setting, beyond_window, in_flight_limit, parked_of,
};
use super::duplicates::SETTLED_WITHIN;
use super::schedule::{Deed, Event, STILL, VETERAN, WORKERS, outage, schedule};
use super::topics::{letters, logged, parkings, records};
use super::verdict::{Blow, Delivery, Evidence, Limits, Stretch};
use crate::load::Load;

const PER_SECOND: usize = 400;
const PROPERTIES: &[(&str, &str)] = &[("batch.num.messages", BATCH)];
const TICK: Duration = Duration::from_millis(25);
/// How long something may take that a machine under load takes its time for. A
/// broker was seen to refuse a partition for over a minute after others were
/// restarted.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs it; an error tells all that was wrong.
pub async fn run(setting: &Setting) -> Result<()> {
    let events = schedule(setting.seed, setting.length, setting.nodes);
    eprintln!(
        "SLUICE_CHAOS_SEED={} for {:?} with {} brokers, put aside as {:?}, into {:?}, parking {}:",
        setting.seed,
        setting.length,
        setting.nodes,
        setting.put_aside,
        setting.sinks,
        setting.parking
    );
    events.iter().for_each(|event| eprintln!("{event}"));
    let mut run = Run::start(setting).await?;
    let shown = run.show(&events, setting.length).await;
    let faults = match &shown {
        Ok(evidence) => {
            eprintln!("{}", evidence.summary());
            evidence.faults()
        }
        Err(error) => vec![format!("{error:#}")],
    };
    if faults.is_empty() {
        return Ok(());
    }
    let logs = run.cast.keep_logs()?;
    bail!(
        "SLUICE_CHAOS_SEED={}:\n{}\nthe workers' logs are in {}",
        setting.seed,
        faults.join("\n"),
        logs.display()
    )
}

/// How far a broker that was struck is on its way back.
enum WayBack {
    Down(Duration),
    /// Started again.
    Coming(Duration),
    /// It takes part; workers do not deliver yet beyond these.
    Idle(Duration, BTreeMap<(usize, usize), u64>),
}

struct Run {
    clock: Instant,
    /// When the clock began, since 1970.
    began: Duration,
    setting: Setting,
    ticks: Interval,
    cluster: Cluster,
    cast: Cast,
    load: Option<Load>,
    /// Of the topics in which workers park: what is settled there is deleted.
    parked: Vec<(usize, Follower)>,
    /// Records that shall begin an outage of the sink.
    outages: Arc<AtomicUsize>,
    frozen: [Option<Blow>; WORKERS],
    node: Option<(WayBack, Blow)>,
    blows: Vec<Blow>,
    sink_outages: Vec<Stretch>,
    calm: Option<Stretch>,
}

impl Run {
    async fn start(setting: &Setting) -> Result<Self> {
        let cluster = Cluster::start(setting.nodes).await?;
        let servers = cluster.kafka.bootstrap_servers();
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let clock = Instant::now();
        let cast = Cast::start(setting, Arc::clone(&cluster.kafka), clock).await?;
        let outages = Arc::new(AtomicUsize::new(0));
        let records = records(setting.seed, Arc::clone(&outages));
        let load = Load::of(servers, TOPIC, records, PER_SECOND, PROPERTIES);
        let follower = |worker| (worker, Follower::start(servers, &parked_of(worker)));
        let parked = setting.parkers().map(follower).collect();
        Ok(Self {
            clock,
            began,
            setting: setting.clone(),
            ticks: interval(TICK),
            cluster,
            cast,
            load: Some(load),
            parked,
            outages,
            frozen: [const { None }; WORKERS],
            node: None,
            blows: Vec::new(),
            sink_outages: Vec::new(),
            calm: None,
        })
    }

    async fn show(&mut self, events: &[Event], length: Duration) -> Result<Evidence> {
        self.play(events, length).await?;
        let load = self.load.take().context("the load is gone")?;
        let produced = self.look_until(load.stop()).await?;
        let kafka = Arc::clone(&self.cluster.kafka);
        let parked: Vec<String> = self.setting.parkers().map(parked_of).collect();
        let consumed = self.look_until(async move {
            let admin = kafka.admin().await?;
            admin.wait_until_consumed(GROUP, TOPIC, PATIENCE).await?;
            for topic in &parked {
                // Of one in which nothing was written no lag is told.
                if admin.end_offsets(topic).await?.values().any(|end| *end > 0) {
                    admin.wait_until_consumed(topic, topic, PATIENCE).await?;
                }
            }
            Ok(())
        });
        let lag = consumed.await.err().map(|error| format!("{error:#}"));
        self.cast.look()?;
        let troubles = [Vec::from_iter(lag), self.cast.stop().await?].concat();
        let parked = std::mem::take(&mut self.parked);
        let parkings = parkings(parked, self.began).await?;
        self.gather(produced, parkings, troubles).await
    }

    /// Does what the schedule says, each deed when it is due or, on a slow
    /// machine, when it can be done. What comes late delays the rest, so that
    /// blows keep their distance.
    async fn play(&mut self, events: &[Event], length: Duration) -> Result<()> {
        let mut begin = self.clock.elapsed();
        let mut due = events.iter().peekable();
        while due.peek().is_some() || self.node.is_some() || self.clock.elapsed() < begin + length {
            self.ticks.tick().await;
            self.cast.look()?;
            self.look_at_node().await?;
            let now = self.clock.elapsed();
            while let Some(event) = due.peek() {
                if begin + event.at > now || !self.does(event.deed).await? {
                    break;
                }
                begin = now - event.at;
                due.next();
            }
            if let Some(event) = due.peek() {
                ensure!(begin + event.at + PATIENCE > now, "{event} cannot be done");
            }
        }
        Ok(())
    }

    async fn look_until<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = self.ticks.tick() => self.cast.look()?,
            }
        }
    }

    /// False if it cannot be done yet.
    async fn does(&mut self, deed: Deed) -> Result<bool> {
        match deed {
            Deed::Kill(worker) => {
                let blow = self.blow(deed, Some(worker))?;
                self.cast.kill(worker)?;
                self.over(blow);
            }
            Deed::Terminate(worker) => self.cast.terminate(worker)?,
            Deed::Start(worker) => return self.cast.begin(worker),
            Deed::Freeze(worker) => {
                self.frozen[worker] = Some(self.blow(deed, Some(worker))?);
                self.cast.freeze(worker)?;
            }
            Deed::Thaw(worker) => {
                self.cast.thaw(worker)?;
                let blow = self.frozen[worker].take();
                blow.into_iter().for_each(|blow| self.over(blow));
            }
            Deed::RestartTask { worker, task } => {
                return self.cast.restart_task(worker, task).await;
            }
            Deed::Cut => {
                let blow = self.blow(deed, Some(VETERAN))?;
                if !self.cluster.cut() {
                    return Ok(false);
                }
                self.over(blow);
            }
            Deed::KillNode(_) | Deed::StopNode(_) if self.node.is_some() => return Ok(false),
            Deed::KillNode(node) => {
                let blow = self.blow(deed, None)?;
                self.cluster.kafka.kill_node(node)?;
                self.node = Some((WayBack::Down(blow.from), blow));
            }
            Deed::StopNode(node) => {
                let blow = self.blow(deed, None)?;
                self.cluster.stop_node(node)?;
                self.node = Some((WayBack::Down(blow.from), blow));
            }
            Deed::StartNode(node) => {
                if !self.cluster.start_node(node)? {
                    return Ok(false);
                }
                if let Some((way_back, _)) = &mut self.node {
                    *way_back = WayBack::Coming(self.clock.elapsed());
                }
            }
            Deed::Outage(records) => {
                let from = self.clock.elapsed();
                let until = from + outage(records);
                self.sink_outages.push(Stretch { from, until });
                self.outages.fetch_add(records, Ordering::AcqRel);
            }
            // The rest of the schedule moves with it, so it has its length.
            Deed::Calm if self.node.is_some() => return Ok(false),
            Deed::Calm => {
                let now = self.clock.elapsed();
                let (from, until) = (now + SETTLED_WITHIN, now + STILL);
                self.calm = Some(Stretch { from, until });
            }
        }
        Ok(true)
    }

    fn blow(&self, deed: Deed, worker: Option<usize>) -> Result<Blow> {
        let from = self.clock.elapsed();
        let struck = (0..WORKERS).filter(|one| worker.is_none_or(|worker| worker == *one));
        let mut in_flight = 0;
        for worker in struck {
            in_flight += self.cast.in_flight(worker)?;
        }
        Ok(Blow {
            what: format!("{deed:?}"),
            worker,
            from,
            until: from,
            in_flight,
        })
    }

    fn over(&mut self, blow: Blow) {
        let until = self.clock.elapsed();
        let (from, in_flight) = (blow.from.as_secs_f64(), blow.in_flight);
        eprintln!(
            "{} from {from:.3} s for {:.3} s at {in_flight} in flight",
            blow.what,
            until.as_secs_f64() - from
        );
        self.blows.push(Blow { until, ..blow });
    }

    /// A broker's blow is over when the broker takes part again and each
    /// worker delivers.
    async fn look_at_node(&mut self) -> Result<()> {
        let Some((way_back, _)) = &mut self.node else {
            return Ok(());
        };
        let (since, is_over) = match way_back {
            WayBack::Down(since) => (*since, false),
            WayBack::Coming(since) => {
                let since = *since;
                if self.cluster.is_whole().await? {
                    *way_back = WayBack::Idle(self.clock.elapsed(), self.cast.progress());
                }
                (since, false)
            }
            WayBack::Idle(since, before) => {
                let now = self.cast.progress();
                let grew =
                    |life: &(usize, usize)| now.get(life).is_none_or(|now| *now > before[life]);
                (*since, before.keys().all(grew))
            }
        };
        if is_over && let Some((_, blow)) = self.node.take() {
            self.over(blow);
        }
        ensure!(
            since + PATIENCE > self.clock.elapsed(),
            "some worker delivers nothing since a broker came back: {:?}",
            self.cast.progress()
        );
        Ok(())
    }

    async fn gather(
        &self,
        produced: usize,
        parkings: BTreeMap<String, Vec<Delivery>>,
        troubles: Vec<String>,
    ) -> Result<Evidence> {
        let servers = self.cluster.kafka.bootstrap_servers();
        let mut groups = vec![GROUP.to_owned()];
        groups.extend(self.setting.parkers().map(parked_of));
        let mut books = broker_books::read(servers, &groups).await?;
        Ok(Evidence {
            limits: Limits {
                workers: WORKERS,
                in_flight: in_flight_limit()?,
                beyond_window: beyond_window()?,
                delivery_count: DELIVERY_LIMIT,
            },
            produced,
            put_aside: self.setting.put_aside,
            sinks: self.setting.sinks,
            log: logged(servers).await?,
            letters: letters(servers, self.began).await?,
            deliveries: self.cast.deliveries()?,
            blows: self.blows.clone(),
            outages: self.sink_outages.clone(),
            calm: self.calm,
            parkings,
            broker: books.remove(0),
            broker_on_parked: books,
            footprints: self.cast.footprints()?,
            troubles,
        })
    }
}
