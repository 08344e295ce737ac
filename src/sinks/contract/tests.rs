//! The contract itself: a sink with a flaw does not pass it.

use std::any::Any;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use tokio::task::yield_now;
use tokio::time::{pause, sleep};

use sluice_actors::chunk::Chunk;
use sluice_actors::outcome::Cause;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, SinkTraits, TaskContext};
use sluice_actors::report::Report;
use sluice_actors::value::Value;

use super::{check, check_outage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    ReportsTwice,
    ReportsWhatItWasNotGiven,
    ReportsAfterThePut,
    ReportsAfterTheClose,
    CanReportForEver,
    RetriesWhatCameBefore,
    CallsBufferedDelivered,
    RetriesInAWorker,
    PanicsInAWorker,
    RejectsInAnOutage,
    DeliversInAnOutage,
    IsFatalInAnOutage,
    GivesNoCauseOfAnOutage,
    StaysAway,
}

/// Makes sinks that deliver at once, but for their flaw.
#[derive(Clone)]
struct Flawed {
    flaw: Flaw,
    is_away: Arc<AtomicBool>,
    came_before: Arc<AtomicBool>,
}

struct FlawedSink {
    shared: Flawed,
    /// Of a put that is under way.
    report: Option<Report>,
}

fn flawed(flaw: Flaw) -> Flawed {
    Flawed {
        flaw,
        is_away: Arc::default(),
        came_before: Arc::default(),
    }
}

impl SinkFactory for Flawed {
    fn traits(&self) -> SinkTraits {
        SinkTraits {
            buffers: self.flaw == Flaw::CallsBufferedDelivered,
            ..SinkTraits::default()
        }
    }

    fn create(&self, _: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(FlawedSink {
            shared: self.clone(),
            report: None,
        }))
    }
}

#[async_trait]
impl Sink for FlawedSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError> {
        if self.shared.is_away.load(Ordering::SeqCst) {
            return self.put_in_an_outage(&chunk, &report);
        }
        let is_from_a_worker = matches!(chunk[0].value.value, Value::Bytes(ref it) if it == "d");
        match self.shared.flaw {
            Flaw::ReportsTwice => [0, 0].iter().for_each(|place| report.delivered(*place)),
            Flaw::ReportsWhatItWasNotGiven => report.delivered(chunk.len()),
            Flaw::ReportsAfterThePut => report_later(report),
            Flaw::ReportsAfterTheClose => {
                self.report = Some(report);
                yield_now().await;
                yield_now().await;
                self.report = None;
            }
            Flaw::CanReportForEver => {
                tokio::spawn(async move {
                    let _held = report;
                    pending::<()>().await;
                });
            }
            Flaw::RetriesWhatCameBefore if self.came_before() => report.retry(0, "it is there"),
            Flaw::CallsBufferedDelivered => report.delivered(0),
            Flaw::RetriesInAWorker if is_from_a_worker && !self.came_before() => {
                report.retry(0, "not yet");
            }
            Flaw::PanicsInAWorker if is_from_a_worker => panic!("by its flaw"),
            _ => {}
        }
        Ok(())
    }

    async fn close(&mut self) {
        self.report.take().into_iter().for_each(report_later);
    }
}

impl FlawedSink {
    /// Whether this was asked before.
    fn came_before(&self) -> bool {
        self.shared.came_before.swap(true, Ordering::SeqCst)
    }

    fn put_in_an_outage(&self, chunk: &Chunk, report: &Report) -> Result<(), SinkError> {
        let cause = Cause::from("the flawed sink is away");
        match self.shared.flaw {
            Flaw::RejectsInAnOutage => {
                (0..chunk.len()).for_each(|place| report.reject(place, cause.clone()));
                Ok(())
            }
            Flaw::DeliversInAnOutage => Ok(()),
            Flaw::IsFatalInAnOutage => Err(SinkError::Fatal(cause)),
            Flaw::GivesNoCauseOfAnOutage => Err(SinkError::Unavailable("".into())),
            _ => Err(SinkError::Unavailable(cause)),
        }
    }
}

fn report_later(report: Report) {
    tokio::spawn(async move {
        sleep(Duration::from_millis(1)).await;
        report.delivered(0);
    });
}

/// What the contract has against a sink in good health.
async fn complaint(flaw: Flaw) -> Option<String> {
    let factory: Arc<dyn SinkFactory> = Arc::new(flawed(flaw));
    let result = AssertUnwindSafe(check(&factory)).catch_unwind().await;
    result.err().map(told)
}

/// What it has against a sink in an outage.
async fn complaint_in_an_outage(flaw: Flaw) -> Option<String> {
    let sink = flawed(flaw);
    let factory: Arc<dyn SinkFactory> = Arc::new(sink.clone());
    let turn = async |is_away| sink.is_away.store(is_away, Ordering::SeqCst);
    let contract = check_outage(&factory, || turn(true), || turn(flaw == Flaw::StaysAway));
    let result = AssertUnwindSafe(contract).catch_unwind().await;
    result.err().map(told)
}

fn told(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[actix::test]
async fn a_sink_without_a_flaw_passes() {
    pause();
    assert_eq!(complaint(Flaw::None).await, None);
    assert_eq!(complaint_in_an_outage(Flaw::None).await, None);
}

#[actix::test]
async fn a_flaw_in_good_health_is_found() {
    pause();
    for (flaw, says) in [
        (Flaw::ReportsTwice, "reported twice for place 0"),
        (Flaw::ReportsWhatItWasNotGiven, "reported for place 8 of 8"),
        (Flaw::ReportsAfterThePut, "reported too late"),
        (Flaw::ReportsAfterTheClose, "reported too late"),
        (Flaw::CanReportForEver, "reports are held"),
        (Flaw::RetriesWhatCameBefore, "it is there"),
        (Flaw::CallsBufferedDelivered, "before the flush"),
        (Flaw::RetriesInAWorker, "transient: 1"),
        (Flaw::PanicsInAWorker, "all is accepted"),
    ] {
        let complaint = complaint(flaw).await;
        let found = complaint.as_ref().is_some_and(|it| it.contains(says));
        assert!(found, "{flaw:?}: {complaint:?}");
    }
}

#[actix::test]
async fn a_flaw_in_an_outage_is_found() {
    pause();
    for (flaw, says) in [
        (Flaw::RejectsInAnOutage, "Reject"),
        (Flaw::DeliversInAnOutage, "delivered in an outage"),
        (Flaw::IsFatalInAnOutage, "Fatal"),
        (Flaw::GivesNoCauseOfAnOutage, "says that its sink is away"),
        (Flaw::StaysAway, "the flawed sink is away"),
    ] {
        let complaint = complaint_in_an_outage(flaw).await;
        let found = complaint.as_ref().is_some_and(|it| it.contains(says));
        assert!(found, "{flaw:?}: {complaint:?}");
    }
}
