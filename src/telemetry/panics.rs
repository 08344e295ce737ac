//! What standard error says of a panic.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io;
use std::panic::{self, PanicHookInfo};
use std::thread;

/// Tells panics as Rust does, but for messages that may quote a record. Who
/// catches one has its message, and knows the connector's settings.
pub(super) fn tell() {
    panic::set_hook(Box::new(|panic| {
        // Who cannot write is not helped by another panic.
        let _ = write(&mut io::stderr().lock(), panic);
    }));
}

fn write(out: &mut impl io::Write, panic: &PanicHookInfo<'_>) -> io::Result<()> {
    let place = panic.location().map_or(&"?" as &dyn fmt::Display, |it| it);
    let (current, words) = (thread::current(), words(panic.payload()));
    let thread = current.name().unwrap_or("<unnamed>");
    writeln!(out, "thread '{thread}' panicked at {place}{words}")?;
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => write!(out, "{backtrace}"),
        _ => Ok(()),
    }
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
