//! Logs to standard error, as text or JSON lines.

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::worker::{LogConfig, LogFormat};

/// Turns logging on. A second call changes nothing.
pub fn start(config: &LogConfig) {
    // The client's retries are told by the share source, once each.
    let filter = EnvFilter::new(format!("{},krafka=error", config.level));
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An error means that somebody has turned it on before.
    let _ = match config.format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
