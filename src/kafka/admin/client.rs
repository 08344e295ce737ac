//! The handle that all admin calls go through.

use krafka::admin::{AdminClient, ClusterDescription, DescribeClusterOptions};

use super::error::{AdminError, Attempt};

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

    pub async fn cluster_id(&self) -> Result<String, AdminError> {
        let attempt = Attempt {
            doing: "describe the cluster",
            right: "DESCRIBE",
            resource: "the cluster".to_owned(),
        };
        Ok(self.describe_cluster(&attempt).await?.cluster_id)
    }

    pub(super) async fn describe_cluster(
        &self,
        attempt: &Attempt,
    ) -> Result<ClusterDescription, AdminError> {
        let described = self
            .client
            .describe_cluster(DescribeClusterOptions::default())
            .await;
        described.map_err(|error| attempt.failed(error))
    }
}
