//! Who sees the words of others that may quote a record, with fakes and a
//! paused clock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sluice_actors::books::Tolerance;
use sluice_actors::error_log::ErrorLog;
use sluice_actors::live_view::ConnectorState;
use sluice_actors::outcome::Cause;
use sluice_actors::ports::converter::{ConvertError, Converter};
use sluice_actors::ports::sink::SinkError;
use sluice_actors::testing::{
    Act, AsTheyAre, FakeDeadLetters, FakeSinkFactory, Post, TestPipeline, conversion_of_values,
    policy, spec,
};
use sluice_actors::value::Datum;
use tokio::time::Instant;

const LOCK: Duration = Duration::from_secs(1);
const HUSH: &str = "hush";

/// Panics over what it quotes.
struct Bomb;

impl Converter for Bomb {
    fn to_datum(&self, topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        if let Some(bytes) = bytes {
            panic!("cannot read {}", String::from_utf8_lossy(bytes));
        }
        Converter::to_datum(&AsTheyAre, topic, bytes)
    }
}

fn quoting() -> Cause {
    Cause::quoting("it said something", format!("it said {HUSH}"))
}

/// A connector of one record; `None`: the sink takes all.
fn start(
    include_messages: bool,
    tolerance: Tolerance,
    error: Option<SinkError>,
) -> (TestPipeline, FakeDeadLetters) {
    let queue = FakeDeadLetters::new(|_, _| Post::Keep);
    let sink = FakeSinkFactory::new(move |_, _| error.clone().map_or(Act::Deliver, Act::Fail));
    let conversion = conversion_of_values(Bomb);
    let mut spec = spec(policy(1, tolerance), conversion, Arc::new(sink));
    spec.error_log = ErrorLog {
        enable: false,
        include_messages,
    };
    if tolerance == Tolerance::All {
        spec.dead_letters = Some(Arc::new(queue.clone()));
    }
    (TestPipeline::start(spec, &[1], LOCK), queue)
}

async fn until(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(120), "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// All that the view has of the connector.
fn shown(test: &TestPipeline) -> String {
    format!(
        "{:?} {:?}",
        test.view.connector("test"),
        test.view.tasks("test")
    )
}

fn is_failed(test: &TestPipeline) -> bool {
    let view = test.view.connector("test").unwrap_or_default();
    matches!(view.state, ConnectorState::Failed(_))
}

#[actix::test]
async fn what_a_sink_is_told_shows_only_where_messages_are_wanted() {
    tokio::time::pause();
    for include_messages in [false, true] {
        for error in [
            SinkError::Fatal(quoting()),
            SinkError::RejectedOne(quoting()),
        ] {
            let (test, _) = start(include_messages, Tolerance::None, Some(error));
            until("it fails", || is_failed(&test)).await;
            assert_eq!(
                shown(&test).contains(HUSH),
                include_messages,
                "{}",
                shown(&test)
            );
        }
        let away = SinkError::Unavailable(quoting());
        let (test, _) = start(include_messages, Tolerance::None, Some(away));
        until("the cause shows", || shown(&test).contains("it said")).await;
        assert_eq!(
            shown(&test).contains(HUSH),
            include_messages,
            "{}",
            shown(&test)
        );
    }
}

#[actix::test]
async fn what_a_plugin_panics_with_shows_only_where_messages_are_wanted() {
    tokio::time::pause();
    for include_messages in [false, true] {
        let (test, _) = start(include_messages, Tolerance::None, None);
        test.source.append(0, HUSH.as_bytes());
        until("it fails", || is_failed(&test)).await;
        let shown = shown(&test);
        assert_eq!(shown.contains(HUSH), include_messages, "{shown}");
        assert!(shown.contains("panicked"), "{shown}");
    }
}

#[actix::test]
async fn a_dead_letter_has_its_cause_in_full_whatever_is_shown() {
    tokio::time::pause();
    for include_messages in [false, true] {
        let rejects = SinkError::RejectedOne(quoting());
        let (test, queue) = start(include_messages, Tolerance::All, Some(rejects));
        test.source.append(0, HUSH.as_bytes());
        until("both are put aside", || queue.kept().len() == 2).await;
        for letter in queue.kept() {
            let cause = &letter.rejection.cause;
            assert!(cause.whole().contains(HUSH), "{}", cause.whole());
        }
    }
}
