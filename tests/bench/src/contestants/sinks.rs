//! What a worker's null sinks say when they are closed.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::sluice::events;

/// What all sinks of a worker did.
#[derive(Debug, Default, PartialEq)]
pub struct Sinks {
    pub puts: f64,
    pub records: f64,
    pub busy_seconds: f64,
}

pub fn sinks(log: &str) -> Result<Sinks> {
    let mut all = Sinks::default();
    for line in events(log, "null sink closed") {
        let number = |field: &str| line.get(field).and_then(Value::as_f64);
        all.puts += number("puts").context("a sink without puts")?;
        all.records += number("records").context("a sink without records")?;
        all.busy_seconds += number("busy_ms").context("a sink without busy_ms")? / 1000.0;
    }
    ensure!(all.records > 0.0, "no sink told what it did");
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_sinks_did_is_added_up() {
        let closed = |puts, records, busy: u64| {
            format!(
                r#"{{"message":"null sink closed","puts":{puts},"records":{records},"busy_ms":{busy}}}"#
            )
        };
        let log = [closed(2, 10, 1500), "noise".to_owned(), closed(1, 30, 500)].join("\n");
        let all = Sinks {
            puts: 3.0,
            records: 40.0,
            busy_seconds: 2.0,
        };
        assert_eq!(sinks(&log).unwrap(), all);
        sinks("noise").unwrap_err();
    }
}
