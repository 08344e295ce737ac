//! Logs to standard error, as text or JSON lines.

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::worker::{LogConfig, LogFormat};
use crate::sinks::log;
use crate::telemetry::log_writer::LogWriter;
use crate::telemetry::panics;

/// Turns logging on, for panics too. A second call changes nothing.
pub fn start(config: &LogConfig) {
    panics::tell();
    let builder = fmt()
        .with_env_filter(filter(config.level))
        .with_writer(LogWriter(std::io::stderr));
    // An error means that somebody has turned it on before.
    let _ = match config.format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

/// The client's retries are told by the share source, once each. HTTP/2 tells
/// below `info` what the other side says as it hangs up, which may quote a record.
fn filter(level: impl std::fmt::Display) -> EnvFilter {
    let hushed = "krafka=error,h2=error,hyper_util=error";
    EnvFilter::new(format!("{level},{hushed},{}=info", log::TARGET))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn the_log_sinks_records_are_printed_at_every_level() {
        for level in ["error", "warn", "info", "debug"] {
            let subscriber = fmt().with_env_filter(filter(level)).finish();
            tracing::subscriber::with_default(subscriber, || {
                assert!(
                    tracing::enabled!(target: log::TARGET, Level::INFO),
                    "{level}"
                );
                let told = tracing::enabled!(target: "sluice::app", Level::INFO);
                assert_eq!(told, level == "info" || level == "debug", "{level}");
            });
        }
    }
}
