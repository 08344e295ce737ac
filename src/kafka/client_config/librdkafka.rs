//! The same settings for librdkafka.

use std::time::Duration;

use super::ClientConfig;

/// librdkafka's bounds.
const SOCKET_TIMEOUT_MS: (u128, u128) = (10, 300_000);
const REQUEST_TIMEOUT_MS: (u128, u128) = (1, 900_000);
const CONNECT_TIMEOUT_MS: (u128, u128) = (1000, i32::MAX as u128);
const MAX_IDLE_MS: (u128, u128) = (0, i32::MAX as u128);
const REFRESH_MS: (u128, u128) = (10, 3_600_000);

fn bounded(duration: Duration, (least, most): (u128, u128)) -> String {
    duration.as_millis().clamp(least, most).to_string()
}

impl ClientConfig {
    /// How a client of librdkafka reaches the cluster.
    #[must_use]
    pub fn librdkafka(&self) -> rdkafka::ClientConfig {
        let mut config = rdkafka::ClientConfig::new();
        config
            .set("bootstrap.servers", self.bootstrap_servers.join(","))
            .set("client.id", &self.client_id)
            .set(
                "request.timeout.ms",
                bounded(self.request_timeout, REQUEST_TIMEOUT_MS),
            )
            .set(
                "socket.timeout.ms",
                bounded(self.request_timeout, SOCKET_TIMEOUT_MS),
            )
            .set(
                "socket.connection.setup.timeout.ms",
                bounded(self.connect_timeout, CONNECT_TIMEOUT_MS),
            )
            .set(
                "connections.max.idle.ms",
                bounded(self.connections_max_idle, MAX_IDLE_MS),
            )
            .set(
                "topic.metadata.refresh.interval.ms",
                bounded(self.metadata_max_age, REFRESH_MS),
            )
            .set("enable.metrics.push", "false")
            .set("log.connection.close", "false")
            .set("security.protocol", self.protocol());
        if let Some(tls) = &self.tls {
            tls.to_librdkafka(&mut config);
        }
        if let Some(sasl) = &self.sasl {
            sasl.to_librdkafka(&mut config);
        }
        config
    }

    const fn protocol(&self) -> &'static str {
        match (&self.sasl, &self.tls) {
            (None, None) => "PLAINTEXT",
            (None, Some(_)) => "SSL",
            (Some(_), None) => "SASL_PLAINTEXT",
            (Some(_), Some(_)) => "SASL_SSL",
        }
    }
}
