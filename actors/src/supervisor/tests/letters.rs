//! What happens to dead letters when an actor dies.

use super::*;
use crate::testing::{FakeDeadLetters, Post, TestPipeline};

/// The stage dies while letters are on their way: the next generation writes
/// them all, none more than twice, and each record is done behind its letter.
async fn letters_survive_the_death_of(stage: Stage) {
    tokio::time::pause();
    let sink = FakeSinkFactory::new(|record, _| match record.offset % 10 {
        0 => Act::Reject,
        _ => Act::Deliver,
    });
    // The first twenty do not arrive before the death.
    let queue = FakeDeadLetters::new(|letter, before| match (letter.record.offset, before) {
        (..200, 0) => Post::Hang,
        _ => Post::KeepAfter(Duration::from_millis(20)),
    });
    let policy = testing::policy(4, Tolerance::All);
    let mut spec = testing::spec(policy, conversion_of_values(AsTheyAre), Arc::new(sink));
    spec.dead_letters = Some(Arc::new(queue.clone()));
    let test = TestPipeline::start(spec, &[400], Duration::from_secs(1));
    let accepted = || test.accepted();
    let since = Instant::now();
    while accepted() < 380 {
        assert!(since.elapsed() < Duration::from_secs(60), "{}", accepted());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(queue.kept_offsets().iter().all(|offset| *offset >= 200));
    test.pipeline.supervisor.send(stage).await.unwrap();
    while accepted() < 400 {
        assert!(since.elapsed() < Duration::from_secs(60), "{}", accepted());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(test.view.connector("test").unwrap().generation, 2);
    let dead: Vec<i64> = (0..400).step_by(10).collect();
    assert_eq!(queue.kept_offsets(), dead);
    assert_eq!(queue.tries(), dead.len() + 20);
    for offset in dead {
        assert_eq!(
            test.source.delivery_count(0, offset),
            1,
            "under the same lock"
        );
    }
    assert!(test.pipeline.drain(Duration::from_secs(5)).await.clean);
}

#[actix::test]
async fn a_dead_writer_makes_a_new_generation_that_writes_its_letters() {
    letters_survive_the_death_of(Stage::LetterWriter).await;
}

#[actix::test]
async fn letters_outlive_a_dead_converter() {
    letters_survive_the_death_of(Stage::Converter).await;
}
