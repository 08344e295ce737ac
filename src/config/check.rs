//! What `check` prints: the effective configuration, or all that is wrong
//! with it.

use std::io::{self, Write};

use super::load::Loaded;
use super::worker::Checked;

/// Prints what holds, where each value comes from, and the notes. Secrets are
/// hidden.
pub fn print_effective(loaded: &Loaded, out: &mut dyn Write) -> io::Result<()> {
    section("worker", &loaded.worker, out)?;
    for connector in &loaded.connectors {
        writeln!(out)?;
        let title = format!("connector {}", connector.config.name);
        section(&title, connector, out)?;
    }
    Ok(())
}

fn section<T>(title: &str, checked: &Checked<T>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{title}")?;
    for (key, value, origin) in checked.shown() {
        let value = value.replace('\n', "\\n");
        writeln!(out, "  {key} = {value}  ({origin})")?;
    }
    for note in checked.notes.iter() {
        writeln!(out, "  note: {note}")?;
    }
    Ok(())
}

/// Prints all faults, by the place and the key.
pub fn print_faults(loaded: &Loaded, out: &mut dyn Write) -> io::Result<()> {
    faults("worker", &loaded.worker, out)?;
    for connector in &loaded.connectors {
        let title = format!("connector {}", connector.config.name);
        faults(&title, connector, out)?;
    }
    Ok(())
}

fn faults<T>(title: &str, checked: &Checked<T>, out: &mut dyn Write) -> io::Result<()> {
    if checked.faults.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}")?;
    for fault in checked.faults.iter() {
        writeln!(out, "  {fault}")?;
    }
    Ok(())
}
