//! Paths, and the sockets that they are served on.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::Router;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use super::error::{no_such_method, no_such_path};
use super::state::Rest;
use super::{connectors, health, metrics, restart, root};
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
    Router::new()
        .route("/", get(root::root))
        .route("/connector-plugins", get(root::plugins))
        .route("/connectors", get(connectors::list))
        .route("/connectors/{name}", get(connectors::info))
        .route("/connectors/{name}/config", get(connectors::config))
        .route("/connectors/{name}/status", get(connectors::status))
        .route("/connectors/{name}/tasks", get(connectors::tasks))
        .route(
            "/connectors/{name}/tasks/{id}/status",
            get(connectors::task_status),
        )
        .route("/connectors/{name}/topics", get(connectors::topics))
        .route("/connectors/{name}/restart", post(restart::connector))
        .route("/connectors/{name}/tasks/{id}/restart", post(restart::task))
        // Known, and not for this worker to do: told apart from what is not known.
        .route("/connectors/{name}/{*order}", get(no_such_path))
        .route("/health", get(health::health))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .method_not_allowed_fallback(no_such_method)
        .fallback(no_such_path)
        .with_state(rest)
}
