//! What the log says of a panic.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::thread;

/// Tells panics by a line like any other, for who reads them as JSON, without
/// messages that may quote a record. Who catches one has its message, and knows
/// whom it hit, and that connector's settings.
pub(super) fn tell() {
    panic::set_hook(Box::new(log));
}

fn log(panic: &PanicHookInfo<'_>) {
    let (thread, backtrace) = (thread::current(), Backtrace::capture());
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    tracing::error!(
        thread = thread.name(),
        at = panic.location().map(ToString::to_string),
        backtrace = is_captured.then(|| backtrace.to_string()),
        "panicked{}",
        words(panic.payload())
    );
}

/// A literal is the program's own; what was put together may quote anything.
fn words(message: &dyn Any) -> String {
    match message.downcast_ref::<&'static str>() {
        Some(literal) => format!(": {literal}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn only_a_literal_is_told() {
        let cut = "h\u{e4}sh".to_owned();
        let quoting = catch_unwind(|| cut.split_at(2).0.len()).unwrap_err();
        let message = quoting.downcast_ref::<String>().unwrap();
        assert!(message.contains("h\u{e4}sh"), "it does quote: {message}");
        assert_eq!(words(&*quoting), "");
        let literal = catch_unwind(|| panic!("no such task")).unwrap_err();
        assert_eq!(words(&*literal), ": no such task");
    }
}
