//! A sink on trial: what it reports is watched until it has let go of it.

use std::time::Duration;

use tokio::task::yield_now;

use sluice_actors::chunk::Chunk;
use sluice_actors::outcome::Outcome;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory};
use sluice_actors::record::SinkRecord;
use sluice_actors::report::Report;
use sluice_test_support::wait::eventually;

use super::fixtures::{fresh, opened, task};

/// For what a sink does on threads of its own.
const SOON: Duration = Duration::from_secs(20);

pub(super) struct Trial {
    sink: Box<dyn Sink>,
    puts: Vec<Watched>,
}

/// The report of a put.
struct Watched {
    report: Report,
    records: usize,
    /// How much had been reported when no more was due.
    due: Option<usize>,
}

impl Trial {
    pub(super) async fn opened(factory: &dyn SinkFactory, number: u32) -> Self {
        Self::of(opened(factory, number).await)
    }

    /// One that is still to be opened.
    pub(super) fn created(factory: &dyn SinkFactory) -> Self {
        Self::of(factory.create(&task(0)).expect("create"))
    }

    fn of(sink: Box<dyn Sink>) -> Self {
        let puts = Vec::new();
        Self { sink, puts }
    }

    pub(super) async fn open(&mut self) -> Result<(), SinkError> {
        self.sink.open().await
    }

    pub(super) async fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush().await
    }

    /// Puts, and gives back what was reported while it ran. Whatever comes
    /// later is too late.
    pub(super) async fn put(
        &mut self,
        records: Vec<SinkRecord>,
    ) -> (Result<(), SinkError>, Vec<(usize, Outcome)>) {
        let report = Report::new(records.len());
        let result = self.put_with(&report, records).await;
        (result, fresh(&report))
    }

    /// Puts what other tasks have been given meanwhile.
    pub(super) async fn put_fenced(&mut self, records: Vec<SinkRecord>) -> Result<(), SinkError> {
        let report = Report::new(records.len());
        let _ = report.abandon();
        self.put_with(&report, records).await
    }

    async fn put_with(
        &mut self,
        report: &Report,
        records: Vec<SinkRecord>,
    ) -> Result<(), SinkError> {
        let mut watched = Watched::new(report, &records);
        let result = self.sink.put(Chunk::new(records), report.clone()).await;
        watched.nothing_more_is_due();
        self.puts.push(watched);
        result
    }

    /// Drops a put after so many turns. What it has sent may be reported until
    /// the sink is closed.
    pub(super) async fn give_up_a_put(&mut self, records: Vec<SinkRecord>, turns: usize) {
        let report = Report::new(records.len());
        self.puts.push(Watched::new(&report, &records));
        let patience = async {
            for _ in 0..turns {
                yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = self.sink.put(Chunk::new(records), report.clone()) => {}
            () = patience => {}
        }
        let _ = report.abandon();
    }

    /// Closes it; from then on it must not even be able to report.
    pub(super) async fn close(mut self) {
        self.sink.close().await;
        for put in &mut self.puts {
            put.nothing_more_is_due();
        }
        self.throw_away().await;
    }

    /// Lets go of it, as of one whose call took too long.
    pub(super) async fn throw_away(self) {
        drop(self.sink);
        let puts = &self.puts;
        let released = async || {
            let held = puts.iter().filter(|put| put.report.is_held_elsewhere());
            match held.count() {
                0 => Ok(()),
                held => Err(format!("{held} reports are held")),
            }
        };
        let released = eventually("the sink is gone and so are its reports", SOON, released).await;
        puts.iter().for_each(Watched::check);
        released.unwrap_or_else(|error| panic!("{error}"));
    }
}

impl Watched {
    fn new(report: &Report, records: &[SinkRecord]) -> Self {
        Self {
            report: report.clone(),
            records: records.len(),
            due: None,
        }
    }

    fn nothing_more_is_due(&mut self) {
        self.due.get_or_insert(self.report.every_call().len());
    }

    fn check(&self) {
        check_calls(&self.report, self.records);
        if let Some(due) = self.due {
            let late = &self.report.every_call()[due..];
            assert!(late.is_empty(), "reported too late: {late:?}");
        }
    }
}

/// Each record of a put has one outcome at most, and nothing else has one.
pub(super) fn check_calls(report: &Report, records: usize) {
    let mut has_outcome = vec![false; records];
    for (place, outcome) in report.every_call() {
        let Some(seen) = has_outcome.get_mut(place) else {
            panic!("reported for place {place} of {records} records: {outcome:?}");
        };
        assert!(!*seen, "reported twice for place {place}: {outcome:?}");
        *seen = true;
    }
}
