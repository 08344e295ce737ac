use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tempfile::TempDir;
use tokio::time::sleep;

use sluice_actors::chunk::Chunk;
use sluice_actors::outcome::Outcome;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, TaskContext};
use sluice_actors::record::SinkRecord;
use sluice_actors::report::Report;
use sluice_actors::value::{Datum, Value};

use crate::config::definition::Faults;
use crate::sinks::contract::{
    check, check_outage, factory_of, opened, put, record, task, text_record,
};

const OWN_FILE: &str = "out-${worker}-${task}";

fn read(settings: &[(&str, &str)]) -> (Option<Arc<dyn SinkFactory>>, Faults) {
    factory_of("file", settings)
}

fn fault_of(settings: &[(&str, &str)]) -> String {
    let (factory, faults) = read(settings);
    assert!(factory.is_none(), "{settings:?} is taken");
    faults.to_string()
}

/// A sink that writes to this file name in the folder.
fn factory(folder: &TempDir, name: &str, settings: &[(&str, &str)]) -> Arc<dyn SinkFactory> {
    let path = folder.path().join(name);
    let mut all = vec![("file", path.to_str().unwrap())];
    all.extend(settings);
    let (factory, faults) = read(&all);
    factory.unwrap_or_else(|| panic!("{faults}"))
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn files(folder: &TempDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn rotated(folder: &TempDir) -> Vec<String> {
    let (active, rotated): (Vec<_>, Vec<_>) = files(folder)
        .into_iter()
        .partition(|path| path.extension().is_none());
    assert!(active.len() <= 1, "{active:?}");
    let read = |path| fs::read_to_string(path).unwrap();
    rotated.into_iter().map(read).collect()
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

async fn put_text(sink: &mut dyn Sink, value: &str) {
    let (result, outcomes) = put(sink, vec![text_record(0, value)]).await;
    assert_eq!((result, outcomes), (Ok(()), vec![]));
}

#[actix::test]
async fn keeps_the_contract_of_sinks() {
    for settings in [
        &[("format", "raw")][..],
        &[("format", "json")],
        &[("newlines", "escape")],
        &[("rotate.bytes", "20"), ("rotate.ms", "60000")],
    ] {
        let folder = folder();
        check(&factory(&folder, OWN_FILE, settings)).await;
    }
}

/// So that what hangs there is counted, with all that hangs of the connector.
#[tokio::test]
async fn all_that_may_hang_does_so_on_the_thread_of_its_task() {
    let folder = folder();
    let settings = &[("rotate.bytes", "20")][..];
    let factory = factory(&folder, OWN_FILE, settings);
    assert!(factory.traits().blocking);
    let mut sink = factory.create(&task(0)).unwrap();
    let never_yields = "a call that yields has left its thread";
    let opened = sink.open().now_or_never();
    assert_eq!(opened.expect(never_yields), Ok(()));
    let report = Report::new(1);
    let chunk = Chunk::new(vec![text_record(0, "a long line, which fills a file")]);
    let put = sink.put(chunk, report).now_or_never();
    assert_eq!(put.expect(never_yields), Ok(()));
    let flushed = sink.flush().now_or_never();
    assert_eq!(flushed.expect(never_yields), Ok(()));
    sink.close().now_or_never().expect(never_yields);
    assert_eq!(rotated(&folder), ["a long line, which fills a file\n"]);
}

/// A folder on a disk that can be taken away: a link that leads nowhere then,
/// as rights do not stop a test that root runs.
struct Disk {
    link: TempDir,
    disk: PathBuf,
}

impl Disk {
    fn inserted() -> Self {
        let link = folder();
        let disk = link.path().join("disk");
        fs::create_dir(&disk).unwrap();
        std::os::unix::fs::symlink(&disk, link.path().join("data")).unwrap();
        Self { link, disk }
    }

    fn remove(&self) {
        fs::remove_dir_all(&self.disk).unwrap();
    }

    fn insert(&self) {
        fs::create_dir(&self.disk).unwrap();
    }

    fn factory(&self) -> Arc<dyn SinkFactory> {
        factory(&self.link, &format!("data/{OWN_FILE}"), &[])
    }
}

#[actix::test]
async fn a_disk_that_goes_away_is_an_outage_as_the_contract_has_it() {
    let disk = Disk::inserted();
    let (fall, mend) = (async || disk.remove(), async || disk.insert());
    check_outage(&disk.factory(), fall, mend).await;
}

#[actix::test]
async fn a_disk_that_is_away_at_the_start_is_an_outage_as_the_contract_has_it() {
    let disk = Disk::inserted();
    disk.remove();
    check_outage(&disk.factory(), async || {}, async || disk.insert()).await;
}

#[tokio::test]
async fn lines_are_appended_to_what_is_there() {
    let folder = folder();
    fs::write(folder.path().join("out"), "old\n").unwrap();
    let mut sink = opened(factory(&folder, "out", &[]).as_ref(), 0).await;
    let records = vec![text_record(0, "one"), record(1, Datum::null())];
    assert_eq!(put(sink.as_mut(), records).await.0, Ok(()));
    sink.flush().await.unwrap();
    assert_eq!(text(folder.path().join("out")), "old\none\nnull\n");
}

#[tokio::test]
async fn line_torn_by_a_crash_swallows_no_record() {
    let folder = folder();
    fs::write(folder.path().join("out"), "old\nto").unwrap();
    let mut sink = opened(factory(&folder, "out", &[]).as_ref(), 0).await;
    put_text(sink.as_mut(), "one").await;
    assert_eq!(text(folder.path().join("out")), "old\ntoone\none\n");
}

#[tokio::test]
async fn json_format_names_each_record() {
    let folder = folder();
    let mut sink = opened(factory(&folder, "out", &[("format", "JSON")]).as_ref(), 0).await;
    put(
        sink.as_mut(),
        vec![text_record(3, "a\nb"), text_record(4, "c")],
    )
    .await
    .0
    .unwrap();
    let lines = text(folder.path().join("out"));
    let offsets: Vec<_> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|object| object["offset"].as_i64().unwrap())
        .collect();
    assert_eq!(offsets, [3, 4]);
}

#[tokio::test]
async fn record_without_a_line_is_rejected_alone_and_named() {
    let folder = folder();
    let mut sink = opened(factory(&folder, "out", &[]).as_ref(), 0).await;
    let unfit = || record(1, Datum::schemaless(Value::Struct(vec![])));
    let records = vec![text_record(0, "a"), unfit(), text_record(2, "c")];
    let (result, outcomes) = put(sink.as_mut(), records).await;
    assert_eq!(result, Ok(()));
    let [(1, Outcome::Reject(rejection))] = outcomes.as_slice() else {
        panic!("{outcomes:?}");
    };
    let cause = &*rejection.cause;
    assert!(
        cause.starts_with("orders-0@1 cannot be written as a line: "),
        "{cause}"
    );
    assert_eq!(text(folder.path().join("out")), "a\nc\n");

    let (result, outcomes) = put(sink.as_mut(), vec![unfit()]).await;
    assert_eq!((result, outcomes.len()), (Ok(()), 1));
    assert_eq!(text(folder.path().join("out")), "a\nc\n", "no empty write");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_and_workers_share_a_file_line_by_line() {
    const PUTS: usize = 20;
    const RECORDS: usize = 50;
    let folder = folder();
    let workers = [factory(&folder, "out", &[]), factory(&folder, "out", &[])];
    let write = |worker: usize, number: u32| {
        let factory = Arc::clone(&workers[worker]);
        async move {
            let mut sink = opened(factory.as_ref(), number).await;
            for round in 0..PUTS {
                let line = |place| format!("{worker}/{number}/{round}/{place} {}", "x".repeat(200));
                let records: Vec<SinkRecord> = (0..RECORDS)
                    .map(|place| text_record(0, &line(place)))
                    .collect();
                put(sink.as_mut(), records).await.0.unwrap();
            }
            sink.flush().await.unwrap();
        }
    };
    let tasks = (0..2).flat_map(|worker| (0..10).map(move |number| (worker, number)));
    join_all(tasks.map(|(worker, number)| tokio::spawn(write(worker, number)))).await;

    let lines = text(folder.path().join("out"));
    let mut names: Vec<_> = lines
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .inspect(|(name, rest)| assert_eq!(rest.len(), 200, "{name} is torn"))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 2 * 10 * PUTS * RECORDS);
}

#[tokio::test]
async fn path_is_filled_in_and_folders_are_made() {
    let folder = folder();
    let name = "a/${connector}/${worker}/${task}.txt";
    let factory = factory(&folder, name, &[]);
    let context = TaskContext {
        connector: "..".to_owned(),
        task: 7,
        worker: "host/1:8083".to_owned(),
    };
    let mut sink = factory.create(&context).unwrap();
    sink.open().await.unwrap();
    put_text(sink.as_mut(), "one").await;
    let path = folder.path().join("a/__/host_1:8083/7.txt");
    assert_eq!(text(path), "one\n");
}

#[tokio::test]
async fn path_that_an_operator_must_mend_is_fatal_and_named() {
    let folder = folder();
    fs::write(folder.path().join("plain"), "").unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    for name in ["plain/out", "sub"] {
        let mut sink = factory(&folder, name, &[]).create(&task(0)).unwrap();
        let Err(SinkError::Fatal(cause)) = sink.open().await else {
            panic!("{name} was opened");
        };
        let path = folder.path().join(name);
        let start = format!("cannot open {}: ", path.display());
        assert!(cause.starts_with(&start), "{cause}");
    }
    let (device, _) = read(&[("file", "/dev/full")]);
    let mut sink = device.unwrap().create(&task(0)).unwrap();
    let error = sink.open().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("/dev/full: it is not a regular file"),
        "{error}"
    );
}

#[tokio::test]
async fn file_is_rotated_before_it_grows_too_large() {
    let folder = folder();
    let settings = [("rotate.bytes", "8")];
    let mut sink = opened(factory(&folder, OWN_FILE, &settings).as_ref(), 0).await;
    for value in ["one", "two", "three", "a line beyond the limit", "four"] {
        put_text(sink.as_mut(), value).await;
    }
    assert_eq!(
        rotated(&folder),
        ["one\ntwo\n", "three\n", "a line beyond the limit\n"]
    );
    assert_eq!(text(&files(&folder)[0]), "four\n");
    sink.flush().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn file_is_rotated_by_the_clock_without_new_records() {
    let folder = folder();
    let settings = [("rotate.ms", "60000")];
    let mut sink = opened(factory(&folder, OWN_FILE, &settings).as_ref(), 0).await;
    // The file is begun while the clock sleeps (paused time: no real wait).
    sleep(Duration::from_secs(30)).await;
    put_text(sink.as_mut(), "one").await;
    let mut waited = 0;
    while rotated(&folder).is_empty() {
        waited += 1;
        assert!(waited < 70, "not rotated after 70 s");
        sleep(Duration::from_secs(1)).await;
    }
    assert!(waited >= 60, "rotated after {waited} s");
    put_text(sink.as_mut(), "two").await;
    assert_eq!(rotated(&folder), ["one\n"]);
}

#[tokio::test]
async fn close_completes_the_file() {
    let folder = folder();
    let settings = [("rotate.bytes", "1000")];
    let mut sink = opened(factory(&folder, OWN_FILE, &settings).as_ref(), 0).await;
    put_text(sink.as_mut(), "one").await;
    sink.close().await;
    assert_eq!(rotated(&folder), ["one\n"]);
    assert_eq!(files(&folder).len(), 1, "no file is left open");
}

#[tokio::test]
async fn file_of_an_earlier_life_is_completed_at_open() {
    let folder = folder();
    let settings = [("rotate.bytes", "1000")];
    fs::write(folder.path().join("out-worker-1-0"), "old\n").unwrap();
    let mut sink = opened(factory(&folder, OWN_FILE, &settings).as_ref(), 0).await;
    put_text(sink.as_mut(), "one").await;
    assert_eq!(rotated(&folder), ["old\n"]);
    assert_eq!(text(&files(&folder)[0]), "one\n");
}

#[test]
fn rotation_of_a_shared_path_is_refused_with_the_reason() {
    for rotate in ["rotate.bytes", "rotate.ms"] {
        let message = fault_of(&[("file", "/tmp/out-${task}"), (rotate, "1000")]);
        assert!(
            message.starts_with("file: needs ${worker} in the path"),
            "{message}"
        );
        assert!(!message.contains("${task}"), "{message}");
        let message = fault_of(&[("file", "/tmp/out"), (rotate, "1000")]);
        assert_eq!(message.lines().count(), 2, "{message}");
    }
    assert!(
        read(&[("file", "/tmp/out"), ("rotate.ms", "0")])
            .1
            .is_empty()
    );
}

#[test]
fn wrong_settings_are_told_by_key() {
    assert_eq!(fault_of(&[]), "file: is required and not set");
    let message = fault_of(&[("file", "/tmp/${host}")]);
    assert!(
        message.contains("${host} is unknown; there are ${connector}"),
        "{message}"
    );
    let message = fault_of(&[("file", "/tmp/${task")]);
    assert!(message.contains("has ${ without }"), "{message}");
    let message = fault_of(&[("file", "/tmp/")]);
    assert!(message.contains("is a folder"), "{message}");
    let message = fault_of(&[
        ("file", "/tmp/out"),
        ("format", "avro"),
        ("rotate.ms", "-1"),
    ]);
    assert_eq!(message.lines().count(), 2, "{message}");
    assert!(
        message.contains("format: \"avro\" is not one of raw, json"),
        "{message}"
    );
}
