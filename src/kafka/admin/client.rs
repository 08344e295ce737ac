//! The handle that all admin calls go through.

use krafka::admin::AdminClient;

/// Kafka's admin side, as one connector sees it.
///
/// Every call is bounded by the client's `default.api.timeout.ms` and tried
/// again inside that bound; what still fails names its resource.
#[derive(Debug)]
pub struct Admin {
    pub(super) client: AdminClient,
    pub(super) bootstrap_servers: String,
}

impl Admin {
    /// `bootstrap_servers` is for the commands that messages show.
    #[must_use]
    pub fn new(client: AdminClient, bootstrap_servers: impl Into<String>) -> Self {
        Self {
            client,
            bootstrap_servers: bootstrap_servers.into(),
        }
    }
}
