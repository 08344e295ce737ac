//! An HTTP server that keeps what comes and answers by plan.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    pub method: String,
    /// With the query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// How many with the same method, path and body came before.
    pub attempt: usize,
    /// The plan wanted to be asked about it again.
    pub is_asked_again: bool,
    pub at: Instant,
}

impl Arrival {
    /// The value of a header, if it came once and is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        values.next().is_none().then(|| value.to_str().ok())?
    }

    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// What a request gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
        body: Bytes,
    },
    /// The connection is torn down without an answer.
    Reset,
    /// Neither an answer nor an end.
    Hang,
    /// The answer begins, and the connection is torn down within its body.
    Torn(u16),
    /// The same later.
    After(Duration, Box<Reply>),
    /// What the plan says of it so long after, if its sender still waits.
    AskAgain(Duration),
}

impl Reply {
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Answer {
            status,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    #[must_use]
    pub fn ok() -> Self {
        Self::status(200)
    }

    /// An answer with a body.
    #[must_use]
    pub fn body(status: u16, body: impl Into<Bytes>) -> Self {
        Self::Answer {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// One more header, if it is an answer.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

/// How long a torn answer's beginning is on its way before its end.
const TEAR_AFTER: Duration = Duration::from_millis(10);

type Body = BoxBody<Bytes, io::Error>;
type Plan = Box<dyn Fn(&Arrival) -> Reply + Send + Sync>;

struct State {
    plan: Plan,
    arrivals: Mutex<Vec<Arrival>>,
    attempts: Mutex<HashMap<(String, String, Bytes), usize>>,
    connections: AtomicUsize,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
}

/// A server on a port of its own; it ends when it is dropped.
pub struct Receiver {
    address: SocketAddr,
    scheme: &'static str,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

impl Receiver {
    /// Serves plain HTTP by a plan.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start(plan: impl Fn(&Arrival) -> Reply + Send + Sync + 'static) -> Result<Self> {
        Self::serve(
            TcpListener::bind("127.0.0.1:0").await?,
            None,
            Box::new(plan),
        )
    }

    /// The same on a port that was in use before, for an outage that ends.
    ///
    /// # Errors
    /// If the port is taken.
    pub async fn start_at(
        address: SocketAddr,
        plan: impl Fn(&Arrival) -> Reply + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::serve(TcpListener::bind(address).await?, None, Box::new(plan))
    }

    /// Serves HTTPS.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start_tls(
        config: ServerConfig,
        plan: impl Fn(&Arrival) -> Reply + Send + Sync + 'static,
    ) -> Result<Self> {
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Self::serve(listener, Some(tls), Box::new(plan))
    }

    fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, plan: Plan) -> Result<Self> {
        let address = listener.local_addr()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let state = Arc::new(State {
            plan,
            arrivals: Mutex::default(),
            attempts: Mutex::default(),
            connections: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
        });
        let serving = tokio::spawn(accept(listener, tls, Arc::clone(&state)));
        Ok(Self {
            address,
            scheme,
            state,
            serving,
        })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a path that begins with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// What came so far, in the order of arrival.
    pub fn arrivals(&self) -> MutexGuard<'_, Vec<Arrival>> {
        self.state.arrivals.lock()
    }

    /// How many requests came so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.arrivals().len()
    }

    /// How many connections were opened so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Requests that have no answer yet.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.state.under_way.load(Ordering::SeqCst)
    }

    /// The most requests that were under way at once.
    #[must_use]
    pub fn most_under_way(&self) -> usize {
        self.state.most_under_way.load(Ordering::SeqCst)
    }

    /// Ends it, its connections too.
    pub async fn stop(self) {
        self.serving.abort();
        while !self.serving.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<State>) {
    // Dropped with this, it ends the connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        state.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(serve_connection(stream, tls.clone(), Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(stream: TcpStream, tls: Option<TlsAcceptor>, state: Arc<State>) {
    let _ = stream.set_nodelay(true);
    // Closed by this side it is torn down, which the other side sees.
    let _ = stream.set_zero_linger();
    match tls {
        None => serve_requests(stream, state).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve_requests(stream, state).await;
            }
        }
    }
}

async fn serve_requests<S>(stream: S, state: Arc<State>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(request, Arc::clone(&state)));
    // What ends a connection is of no interest here, or by plan.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// An error ends the connection.
async fn answer(request: Request<Incoming>, state: Arc<State>) -> io::Result<Response<Body>> {
    let _under_way = UnderWay::begin(&state);
    let mut arrival = arrival(request, &state).await?;
    let mut reply = (state.plan)(&arrival);
    state.arrivals.lock().push(arrival.clone());
    arrival.is_asked_again = true;
    loop {
        reply = match reply {
            Reply::After(wait, later) => {
                sleep(wait).await;
                *later
            }
            Reply::AskAgain(wait) => {
                sleep(wait).await;
                (state.plan)(&arrival)
            }
            _ => break,
        };
    }
    match reply {
        Reply::Answer {
            status,
            headers,
            body,
        } => {
            let mut answer = Response::builder().status(status);
            for (name, value) in headers {
                answer = answer.header(name, value);
            }
            answer.body(whole(body)).map_err(io::Error::other)
        }
        Reply::Torn(status) => {
            let answer = Response::builder().status(status);
            answer.body(torn()).map_err(io::Error::other)
        }
        Reply::Hang => std::future::pending().await,
        Reply::Reset | Reply::After(..) | Reply::AskAgain(..) => {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
}

async fn arrival(request: Request<Incoming>, state: &State) -> io::Result<Arrival> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let (method, path) = (head.method.to_string(), head.uri.to_string());
    let mut attempts = state.attempts.lock();
    let kind = (method.clone(), path.clone(), body.clone());
    let count = attempts.entry(kind).or_default();
    *count += 1;
    Ok(Arrival {
        method,
        path,
        headers: head.headers,
        body,
        attempt: *count - 1,
        is_asked_again: false,
        at: Instant::now(),
    })
}

fn whole(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed()
}

fn torn() -> Body {
    let parts = stream::unfold(0, |part| async move {
        if part > 0 {
            sleep(TEAR_AFTER).await;
            let torn: io::Error = io::ErrorKind::ConnectionReset.into();
            return Some((Err(torn), part + 1));
        }
        Some((Ok(Frame::data(Bytes::from_static(b"{\"begins"))), 1))
    });
    BodyExt::boxed(StreamBody::new(parts))
}

/// Counts a request until it is answered or its connection ends.
struct UnderWay(Arc<State>);

impl UnderWay {
    fn begin(state: &Arc<State>) -> Self {
        let now = state.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        state.most_under_way.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(state))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}
