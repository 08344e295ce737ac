//! Plays a schedule, looks on, and gathers what was seen.

mod deeds;

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use sluice_test_support::consume::Follower;
use tokio::time::{Instant, Interval, interval};

use deeds::LIMIT;

use super::broker_books;
use super::cast::Cast;
use super::cluster::{Cluster, TOPIC};
use super::connectors::{
    BATCH, DELIVERY_LIMIT, GROUP, RAISED_LIMIT, beyond_window, in_flight_limit, parked_of,
};
use super::deed::Event;
use super::schedule::{WORKERS, schedule};
use super::setting::Setting;
use super::topics::{Wanted, letters, logged, parkings, records};
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
    let events = schedule(setting);
    eprintln!("SLUICE_CHAOS_SEED={} makes {setting:?}:", setting.seed);
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
    wanted: Arc<Wanted>,
    /// Workers that are frozen, or have lost their file.
    struck: [Option<Blow>; WORKERS],
    /// What is set on the group.
    delivery_limit: u16,
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
        let admin = cluster.kafka.admin().await?;
        for worker in setting.parkers() {
            let limit = RAISED_LIMIT.to_string();
            let limit = [(LIMIT, limit.as_str())];
            admin.alter_group(&parked_of(worker), &limit).await?;
        }
        let cast = Cast::start(setting, Arc::clone(&cluster.kafka), clock).await?;
        let wanted = Arc::new(Wanted::default());
        let records = records(setting.seed, Arc::clone(&wanted));
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
            wanted,
            struck: [const { None }; WORKERS],
            delivery_limit: DELIVERY_LIMIT,
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
        let mut events = VecDeque::from_iter(events.iter().copied());
        while !events.is_empty() || self.node.is_some() || self.clock.elapsed() < begin + length {
            self.ticks.tick().await;
            self.cast.look()?;
            self.look_at_node().await?;
            begin = self.do_what_is_due(&mut events, begin).await?;
            if let Some(event) = events.front() {
                let last = begin + event.at + PATIENCE;
                ensure!(last > self.clock.elapsed(), "{event} cannot be done");
            }
        }
        Ok(())
    }

    /// Returns when the schedule would have begun without delays.
    async fn do_what_is_due(
        &mut self,
        events: &mut VecDeque<Event>,
        mut begin: Duration,
    ) -> Result<Duration> {
        let now = self.clock.elapsed();
        let mut place = 0;
        while let Some(event) = events.get(place).copied()
            && begin + event.at <= now
        {
            // What was struck is mended in its time, whatever else has to wait.
            let mut before = events.iter().take(place).map(|one| one.deed);
            let has_its_turn =
                place == 0 || event.deed.is_mending() && !before.any(|deed| event.deed.mends(deed));
            if !has_its_turn || !self.does(event.deed).await? {
                place += 1;
                continue;
            }
            events.remove(place);
            if place == 0 {
                begin = now - event.at;
            }
        }
        Ok(begin)
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
