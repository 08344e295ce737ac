//! The smallest running pipeline: a source in memory, a sink that prints.
//!
//! ```sh
//! cargo run -p sluice-actors --features testing --example minimal
//! ```

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sluice_actors::books::{Policy, Retriable, Tolerance};
use sluice_actors::chunk::Chunk;
use sluice_actors::credit::Credit;
use sluice_actors::error_log::ErrorLog;
use sluice_actors::flush::FlushPolicy;
use sluice_actors::live_view::LiveView;
use sluice_actors::messages::Drained;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, SinkTraits, TaskContext};
use sluice_actors::report::Report;
use sluice_actors::retry::RetryPolicy;
use sluice_actors::supervisor::{Pipeline, PipelineSpec};
use sluice_actors::terms::Terms;
use sluice_actors::testing::{AsTheyAre, FakeSource, Fate, conversion_of_values};
use sluice_actors::threads::Threads;

/// Prints the id of each record.
struct Print;

#[async_trait]
impl Sink for Print {
    async fn open(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError> {
        for (place, record) in chunk.iter().enumerate() {
            match writeln!(std::io::stdout(), "{}", record.id()) {
                Ok(()) => report.delivered(place),
                Err(error) => report.retry(place, error.to_string()),
            }
        }
        Ok(())
    }
}

struct PrintFactory;

impl SinkFactory for PrintFactory {
    fn traits(&self) -> SinkTraits {
        SinkTraits::default()
    }

    fn create(&self, _context: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Print))
    }
}

fn spec() -> PipelineSpec {
    PipelineSpec {
        connector: "minimal".to_owned(),
        worker: "worker-1".to_owned(),
        policy: Policy {
            tolerance: Tolerance::None,
            retry: RetryPolicy::default(),
            retriable: Retriable::Hold,
            terms: Terms::new(5, 2000),
            max_put_records: 10,
            tasks: 3,
            max_in_flight_records: None,
            parking: None,
        },
        conversion: conversion_of_values(AsTheyAre),
        sink: Arc::new(PrintFactory),
        delivery_timeout: Duration::from_secs(60),
        flush: FlushPolicy::default(),
        accepts_after_put: false,
        error_log: ErrorLog {
            enable: true,
            include_messages: true,
        },
        dead_letters: None,
        parking: None,
        tracer: None,
    }
}

/// Delivers that many records; tells how many were accepted, and how it ended.
async fn run(records: usize) -> (usize, Drained) {
    let credit = Credit::new(1 << 20);
    let (source, events) = FakeSource::start(&credit, &[records], Duration::from_secs(30));
    let pipeline = Pipeline::start(
        spec(),
        Arc::new(source.clone()),
        events,
        credit,
        Threads::current(),
        LiveView::new(),
    );
    let accepted = || source.count(|fate| fate == Fate::Accepted);
    while accepted() < records {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let drained = pipeline.drain(Duration::from_secs(5)).await;
    (accepted(), drained)
}

#[actix::main]
async fn main() -> std::io::Result<()> {
    let (accepted, drained) = run(20).await;
    let clean = drained.clean;
    writeln!(std::io::stdout(), "{accepted} accepted, clean end: {clean}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix::test]
    async fn every_record_is_accepted_and_the_end_is_clean() {
        let (accepted, drained) = run(20).await;
        assert_eq!(accepted, 20);
        assert!(drained.clean, "{drained:?}");
    }
}
