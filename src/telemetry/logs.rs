//! Logs to standard error, as text or JSON lines.

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, registry};

use crate::config::worker::{LogConfig, LogFormat};
use crate::telemetry::levels::Levels;
use crate::telemetry::log_writer::LogWriter;
use crate::telemetry::loggers::Loggers;
use crate::telemetry::panics;

/// Turns logging on, for panics too, and gives what changes its levels. A second
/// call changes nothing that is logged.
pub fn start(config: &LogConfig) -> Loggers {
    panics::tell();
    let loggers = Loggers::new(Levels::new(config.level, &config.levels));
    let lines = lines(config.format).with_filter(loggers.clone());
    // An error means that somebody has turned it on before.
    let _ = registry().with(lines).try_init();
    loggers
}

fn lines(format: LogFormat) -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = fmt::layer().with_writer(LogWriter(std::io::stderr));
    match format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    }
}
