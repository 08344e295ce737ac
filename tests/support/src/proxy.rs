//! A port in front of another one, whose connections can be cut while both
//! sides live on.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Carries connections for as long as it lives.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    connections: Arc<Mutex<JoinSet<()>>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens, and carries what comes to the target.
    ///
    /// # Errors
    /// If the port is taken.
    pub async fn start(listen: SocketAddr, target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("no proxy at {listen}"))?;
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        Ok(Self {
            address: listener.local_addr()?,
            connections: Arc::clone(&connections),
            accepting: tokio::spawn(accept(listener, target, connections)),
        })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tears down all connections, and tells how many they were. New ones are
    /// taken at once.
    pub fn cut(&self) -> usize {
        let mut connections = self.connections.lock();
        while connections.try_join_next().is_some() {}
        let cut = connections.len();
        connections.abort_all();
        cut
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.connections.lock().abort_all();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, connections: Arc<Mutex<JoinSet<()>>>) {
    while let Ok((near, _)) = listener.accept().await {
        let mut connections = connections.lock();
        connections.spawn(carry(near, target));
        while connections.try_join_next().is_some() {}
    }
}

/// What ends a connection ends it on both sides.
async fn carry(mut near: TcpStream, target: SocketAddr) {
    let Ok(mut far) = TcpStream::connect(target).await else {
        return;
    };
    for stream in [&near, &far] {
        let _ = stream.set_nodelay(true);
        // Closed before its end it is torn down, which the other side sees.
        let _ = stream.set_zero_linger();
    }
    let _ = copy_bidirectional(&mut near, &mut far).await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);
    const ANY: &str = "127.0.0.1:0";

    /// Sends back what comes.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut reads, mut writes) = stream.split();
                    let _ = tokio::io::copy(&mut reads, &mut writes).await;
                });
            }
        });
        address
    }

    async fn is_answered(stream: &mut TcpStream) -> bool {
        let asked = async {
            stream.write_all(b"ping").await?;
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).await
        };
        timeout(SOON, asked).await.unwrap().is_ok()
    }

    #[tokio::test]
    async fn a_cut_ends_all_connections_and_the_next_ones_work() {
        let proxy = Proxy::start(ANY.parse().unwrap(), echo().await)
            .await
            .unwrap();
        let mut streams = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
            assert!(is_answered(&mut stream).await);
            streams.push(stream);
        }
        assert_eq!(proxy.cut(), 2);
        for mut stream in streams {
            let end = timeout(SOON, stream.read_u8()).await.unwrap();
            let error = end.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(is_answered(&mut stream).await);
        assert_eq!(proxy.cut(), 1, "the cut ones are gone");
    }

    #[tokio::test]
    async fn where_nobody_listens_a_connection_ends() {
        let nobody = TcpListener::bind(ANY).await.unwrap();
        let target = nobody.local_addr().unwrap();
        drop(nobody);
        let proxy = Proxy::start(ANY.parse().unwrap(), target).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(!is_answered(&mut stream).await);
    }
}
