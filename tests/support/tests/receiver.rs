//! The receiver keeps what comes and does as planned. Seen from a bare TCP
//! connection, as no client stands between.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::wait::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SOON: Duration = Duration::from_secs(10);

struct Connection(TcpStream);

impl Connection {
    async fn open(receiver: &Receiver) -> Result<Self> {
        Ok(Self(TcpStream::connect(receiver.address()).await?))
    }

    async fn send(&mut self, path: &str, body: &str) -> Result<()> {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: here\r\nkind: test\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        Ok(self.0.write_all(request.as_bytes()).await?)
    }

    /// An answer's status and what has come of its body, or how it ended.
    async fn answer(&mut self) -> Result<(String, String)> {
        let mut bytes = Vec::new();
        while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
            ensure!(self.0.read_buf(&mut bytes).await? > 0, "closed");
        }
        let text = String::from_utf8(bytes)?;
        let (head, body) = text.split_once("\r\n\r\n").context("no end of the head")?;
        Ok((head.to_owned(), body.to_owned()))
    }

    async fn send_for_answer(&mut self, path: &str, body: &str) -> Result<(String, String)> {
        self.send(path, body).await?;
        self.answer().await
    }
}

#[tokio::test]
async fn requests_are_kept_and_answered_by_plan() -> Result<()> {
    let receiver = Receiver::start(|arrival| match arrival.attempt {
        0 => Reply::body(429, "busy").header("retry-after", "1"),
        _ => Reply::ok(),
    })
    .await?;
    let mut connection = Connection::open(&receiver).await?;
    let (head, body) = connection.send_for_answer("/a?b=c", "one").await?;
    assert!(head.starts_with("HTTP/1.1 429"), "{head}");
    assert!(
        head.contains("retry-after: 1") && body == "busy",
        "{head}{body}"
    );
    let (head, _) = connection.send_for_answer("/a?b=c", "one").await?;
    assert!(head.starts_with("HTTP/1.1 200"), "the second time: {head}");
    let (head, _) = connection.send_for_answer("/a?b=c", "two").await?;
    assert!(head.starts_with("HTTP/1.1 429"), "another body: {head}");

    let arrivals = receiver.arrivals();
    let seen: Vec<_> = arrivals.iter().map(|it| (it.text(), it.attempt)).collect();
    let expected = [("one", 0), ("one", 1), ("two", 0)];
    assert_eq!(
        seen,
        expected.map(|(text, attempt)| (text.to_owned(), attempt))
    );
    assert_eq!(arrivals[0].path, "/a?b=c");
    assert_eq!(arrivals[0].header("kind"), Some("test"));
    assert_eq!(receiver.connections(), 1);
    Ok(())
}

#[tokio::test]
async fn a_reset_tears_the_connection_and_a_torn_answer_within_its_body() -> Result<()> {
    let receiver = Receiver::start(|arrival| match arrival.path.as_str() {
        "/reset" => Reply::Reset,
        _ => Reply::Torn(200),
    })
    .await?;
    let mut connection = Connection::open(&receiver).await?;
    assert!(connection.send_for_answer("/reset", "x").await.is_err());

    let mut connection = Connection::open(&receiver).await?;
    let (head, _) = connection.send_for_answer("/torn", "x").await?;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut rest = Vec::new();
    let ended = connection.0.read_to_end(&mut rest).await;
    assert!(ended.is_err() || !rest.ends_with(b"0\r\n\r\n"), "{rest:?}");
    assert_eq!((receiver.count(), receiver.connections()), (2, 2));
    Ok(())
}

#[tokio::test]
async fn hanging_requests_are_counted_until_they_are_given_up() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::Hang).await?;
    let under_way = async |count: usize| {
        eventually("so many are under way", SOON, async || {
            let now = receiver.under_way();
            ensure!(now == count, "{now}");
            Ok(())
        })
        .await
    };
    let mut first = Connection::open(&receiver).await?;
    let mut second = Connection::open(&receiver).await?;
    first.send("/", "1").await?;
    second.send("/", "2").await?;
    under_way(2).await?;
    drop(first);
    under_way(1).await?;
    assert_eq!(receiver.most_under_way(), 2);

    receiver.stop().await;
    let mut byte = [0];
    let ended = second.0.read(&mut byte).await;
    assert!(matches!(ended, Err(_) | Ok(0)), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn the_plan_is_asked_again_about_who_still_waits() -> Result<()> {
    const WAIT: Duration = Duration::from_millis(200);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let receiver = Receiver::start(move |arrival| match arrival.is_asked_again {
        false => Reply::AskAgain(WAIT),
        true => {
            log.lock().push(arrival.text());
            Reply::status(204)
        }
    })
    .await?;
    let mut leaves = Connection::open(&receiver).await?;
    leaves.send("/", "leaves").await?;
    eventually("it is under way", SOON, async || {
        ensure!(receiver.under_way() == 1);
        Ok(())
    })
    .await?;
    drop(leaves);
    let mut waits = Connection::open(&receiver).await?;
    let (head, _) = waits.send_for_answer("/", "waits").await?;
    assert!(head.starts_with("HTTP/1.1 204"), "{head}");
    assert_eq!(*asked.lock(), ["waits"]);
    assert_eq!(receiver.count(), 2, "each has come once");
    Ok(())
}

#[tokio::test]
async fn after_an_outage_the_same_port_can_be_served() -> Result<()> {
    let first = Receiver::start(|_| Reply::ok()).await?;
    let address = first.address();
    first.stop().await;
    assert!(TcpStream::connect(address).await.is_err(), "refused");
    let second = Receiver::start_at(address, |_| Reply::status(204)).await?;
    let mut connection = Connection::open(&second).await?;
    let (head, _) = connection.send_for_answer("/", "x").await?;
    assert!(head.starts_with("HTTP/1.1 204"), "{head}");
    Ok(())
}
