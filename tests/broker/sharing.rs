//! Many members on few partitions.

use std::time::Duration;

use sluice_actors::ports::source::Source;
use sluice_test_support::produce::{json_records, produce_with};

use crate::cluster::{bootstrap_servers, topic_and_group};
use crate::reader::Reader;

/// The broker counts in offsets, however the producer packed them: a batch is
/// no share that only one member can have.
#[tokio::test(flavor = "multi_thread")]
async fn eight_members_are_busy_on_one_partition_of_large_batches() {
    const MEMBERS: usize = 8;
    const WINDOW: usize = 100;
    let (topic, group) = topic_and_group("busy", 1).await;
    let packed = [("batch.num.messages", "1000"), ("linger.ms", "1000")];
    let records = json_records(MEMBERS * 1000, 1, 20);
    let servers = bootstrap_servers().await;
    produce_with(servers, &topic, records, &packed)
        .await
        .unwrap();
    let mut readers = Vec::new();
    for _ in 0..MEMBERS {
        readers.push(Reader::start(&group, &[&topic], WINDOW).await);
    }
    // Nobody settles anything, so all hold theirs at once.
    for reader in &mut readers {
        reader
            .until("a full window", |reader| reader.acquired.len() == WINDOW)
            .await;
    }
    for reader in readers {
        reader.source.close(Duration::from_secs(5)).await;
    }
}
