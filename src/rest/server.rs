//! Paths, and the sockets that they are served on.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn_with_state, map_request, map_response};
use axum::routing::{MethodRouter, get, post, put};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use super::error::{no_changes, no_such_method, no_such_path, shaped};
use super::state::Rest;
use super::traced::traced;
use super::{connectors, health, loggers, metrics, plugins, restart, root};
use crate::config::listeners::Listener;

/// An address of `listeners` that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("listeners: cannot listen on {listener}: {error}; free the port, or set another one")]
pub struct BindError {
    listener: Listener,
    error: std::io::Error,
}

/// The sockets, bound and not served yet.
#[derive(Debug)]
pub struct Server {
    sockets: Vec<TcpListener>,
}

impl Server {
    /// Binds all or none.
    pub async fn bind(listeners: &[Listener]) -> Result<Self, BindError> {
        let mut sockets = Vec::new();
        for listener in listeners {
            let bound = bind(listener).await.map_err(|error| BindError {
                listener: listener.clone(),
                error,
            });
            sockets.push(bound?);
        }
        Ok(Self { sockets })
    }

    /// Where it listens, the ports that were chosen included.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let sockets = self.sockets.iter();
        sockets.filter_map(|it| it.local_addr().ok()).collect()
    }

    /// Serves until the runtime ends.
    pub fn serve(self, rest: &Rest, runtime: &Handle) {
        for socket in self.sockets {
            let service = router(rest.clone());
            runtime.spawn(async move {
                if let Err(error) = axum::serve(socket, service).await {
                    tracing::error!(%error, "REST ended");
                }
            });
        }
    }
}

/// Without a host on all interfaces, by both protocols where there are two.
async fn bind(listener: &Listener) -> std::io::Result<TcpListener> {
    match &listener.host {
        Some(host) => TcpListener::bind((host.as_str(), listener.port)).await,
        None => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, listener.port)).await {
            Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, listener.port)).await
            }
            bound => bound,
        },
    }
}

pub(super) fn router(rest: Rest) -> Router {
    let tracer = rest.requests.clone();
    let mut paths = connectors()
        .route("/", get(root::root))
        .route("/connector-plugins", get(plugins::list))
        .route("/connector-plugins/{plugin}/config", get(plugins::config))
        .route(
            "/connector-plugins/{plugin}/config/validate",
            put(plugins::validate),
        )
        .route("/admin/loggers", get(loggers::list))
        .route(
            "/admin/loggers/{logger}",
            get(loggers::level).put(loggers::set),
        )
        .route("/health", get(health::health))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .method_not_allowed_fallback(no_such_method)
        .fallback(no_such_path)
        .with_state(rest);
    if let Some(tracer) = tracer {
        paths = paths.layer(from_fn_with_state(tracer, traced));
    }
    // From outside: a layer of the paths' own comes when one is chosen already.
    Router::new()
        .fallback_service(paths)
        .layer(map_request(without_slash))
        .layer(map_response(shaped))
}

/// Connect's paths of connectors. Those that change one are known, and told
/// apart from what there is not.
fn connectors() -> Router<Rest> {
    const ONE: &str = "/connectors/{name}";
    let below = |path: &str| format!("{ONE}{path}");
    let task = |path: &str| format!("{ONE}/tasks/{{id}}{path}");
    let mut paths = Router::new()
        .route("/connectors", get(connectors::list))
        .route(ONE, get(connectors::info))
        .route(&below("/config"), get(connectors::config))
        .route(&below("/status"), get(connectors::status))
        .route(&below("/tasks"), get(connectors::tasks))
        .route(&task("/status"), get(connectors::task_status))
        .route(&below("/topics"), get(connectors::topics))
        .route(&below("/offsets"), get(connectors::offsets))
        .route(&below("/restart"), post(restart::connector))
        .route(&task("/restart"), post(restart::task));
    for order in ["/pause", "/resume", "/stop", "/topics/reset"] {
        paths = paths.route(&below(order), MethodRouter::new());
    }
    paths.method_not_allowed_fallback(no_changes)
}

/// `/connectors/` is `/connectors`.
async fn without_slash(mut request: Request) -> Request {
    let uri = request.uri();
    let path = uri.path().strip_suffix('/').filter(|it| !it.is_empty());
    let Some(path) = path else {
        return request;
    };
    let query = uri.query().map(|it| format!("?{it}")).unwrap_or_default();
    if let Ok(uri) = format!("{path}{query}").parse() {
        *request.uri_mut() = uri;
    }
    request
}
