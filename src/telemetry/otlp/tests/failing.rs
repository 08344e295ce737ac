//! Collectors that do not answer, or not with what was hoped for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry_sdk::trace::SpanExporter as _;
use sluice_test_support::receiver::{Arrival, Receiver, Reply};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use super::*;

async fn export(exporter: &SpanExporter) -> Result<(), String> {
    let exported = exporter.export(Vec::new()).await;
    exported.map_err(|error| error.to_string())
}

/// Takes connections and never answers; counts them.
async fn silent() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            open.push(stream);
        }
    });
    (url, connections)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_collector_is_given_up_in_time_and_its_connection_with_it() {
    for protocol in PROTOCOLS {
        let (url, connections) = silent().await;
        let config = OtlpConfig {
            timeout: Duration::from_millis(300),
            ..config(protocol, url)
        };
        let exporter = SpanExporter::new(&config).unwrap();
        for before in 0..2 {
            assert_eq!(connections.load(Ordering::Relaxed), before, "{protocol:?}");
            let told = timeout(MINUTE, export(&exporter)).await.unwrap();
            let told = told.unwrap_err();
            assert!(told.contains("no answer within 300ms"), "{told}");
        }
        assert_eq!(connections.load(Ordering::Relaxed), 2, "{protocol:?}");
    }
}

/// Its queue of connections is full, so that it answers no other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_cannot_be_connected_to_is_given_up_in_time() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    let short = Duration::from_millis(300);
    while let Ok(stream) = timeout(short, TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
    }
    for protocol in PROTOCOLS {
        let config = OtlpConfig {
            timeout: short,
            ..config(protocol, format!("http://{address}"))
        };
        let exporter = SpanExporter::new(&config).unwrap();
        let told = timeout(MINUTE, export(&exporter)).await.unwrap();
        told.unwrap_err();
    }
}

async fn answering(status: impl Fn(usize) -> u16 + Send + Sync + 'static) -> Receiver {
    let answers = move |arrival: &Arrival| Reply::status(status(arrival.attempt));
    Receiver::start(answers).await.unwrap()
}

fn exporter_to(receiver: &Receiver) -> SpanExporter {
    let config = config(Protocol::HttpProtobuf, receiver.url("/v1/traces"));
    SpanExporter::new(&config).unwrap()
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_what_is_refused_is_not() {
    let passing = answering(|attempt| [503, 429, 200][attempt.min(2)]).await;
    export(&exporter_to(&passing)).await.unwrap();
    assert_eq!(passing.count(), 3);
    let refusing = answering(|_| 400).await;
    let told = export(&exporter_to(&refusing)).await.unwrap_err();
    assert!(told.contains("400"), "{told}");
    assert_eq!(refusing.count(), 1);
}

#[tokio::test]
async fn at_the_end_nothing_is_tried_again() {
    let away = answering(|_| 503).await;
    let exporter = exporter_to(&away);
    let closing = exporter.closing();
    let (exported, ()) = tokio::join!(export(&exporter), async {
        while away.count() == 0 {
            tokio::task::yield_now().await;
        }
        closing.cancel();
    });
    assert!(exported.unwrap_err().contains("503"));
    let before = away.count();
    let told = export(&exporter).await.unwrap_err();
    assert!(told.contains("503"), "{told}");
    assert_eq!(away.count(), before + 1);
}

/// Headers may be secrets.
#[tokio::test]
async fn nobody_is_followed_to_another_place() {
    let elsewhere = answering(|_| 200).await;
    let location = elsewhere.url("/v1/traces");
    let moved = Receiver::start(move |_| Reply::Answer {
        status: 307,
        headers: vec![("location".to_owned(), location.clone())],
        body: bytes::Bytes::new(),
    })
    .await
    .unwrap();
    let told = export(&exporter_to(&moved)).await.unwrap_err();
    assert!(told.contains("307"), "{told}");
    assert_eq!(elsewhere.count(), 0);
}
