//! `sluice status`: what a worker told, as a table or as it came.

use std::io::{self, Write};

use serde_json::Value;

use super::ask::Statuses;

const TITLES: [&str; 7] = [
    "CONNECTOR",
    "STATE",
    "TASKS",
    "RECORDS/S",
    "IN FLIGHT",
    "LAG",
    "CAUSE",
];
/// Columns that are numbers stand right.
const IS_NUMBER: [bool; 7] = [false, false, true, true, true, true, false];

/// All of them, or one; `None` if it is not there.
pub(super) fn of(mut statuses: Statuses, name: Option<&str>) -> Option<Statuses> {
    let Some(name) = name else {
        return Some(statuses);
    };
    let (name, status) = statuses.remove_entry(name)?;
    Some(Statuses::from_iter([(name, status)]))
}

pub(super) fn has_failed(statuses: &Statuses) -> bool {
    statuses.values().any(|it| {
        let tasks = it["status"]["tasks"].as_array().into_iter().flatten();
        let mut states = tasks.chain([&it["status"]["connector"]]);
        states.any(|it| it["state"] == "FAILED")
    })
}

pub(super) fn print_json(statuses: &Statuses, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, statuses)?;
    writeln!(out)
}

pub(super) fn print_table(statuses: &Statuses, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<[String; 7]> = std::iter::once(TITLES.map(str::to_owned))
        .chain(statuses.iter().map(|(name, it)| row(name, &it["status"])))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = width(column).unwrap_or_default();
            line += &match IS_NUMBER[column] {
                true => format!("{cell:>width$}  "),
                false => format!("{cell:width$}  "),
            };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn row(name: &str, status: &Value) -> [String; 7] {
    let tasks = status["tasks"].as_array().map_or(&[][..], Vec::as_slice);
    let running = tasks.iter().filter(|task| task["state"] == "RUNNING");
    let ours = &status["sluice"];
    [
        name.to_owned(),
        text(&status["connector"]["state"]),
        format!("{}/{}", running.count(), tasks.len()),
        text(&ours["accepted_per_second"]),
        text(&ours["records_in_flight"]),
        text(&ours["group_lag_records"]),
        cause(status, tasks),
    ]
}

/// Why it does not run, or not all of it.
fn cause(status: &Value, tasks: &[Value]) -> String {
    let of_task = |task: &Value| {
        let cause = task["sluice"]["cause"].as_str()?;
        Some(format!("task {}: {cause}", task["id"]))
    };
    let of_connector = [&status["connector"]["trace"], &status["sluice"]["trouble"]];
    let of_connector = of_connector.into_iter().find_map(Value::as_str);
    let cause = of_connector.map(str::to_owned);
    let cause = cause.or_else(|| tasks.iter().find_map(of_task));
    // One line for each connector, whatever a cause says.
    cause.unwrap_or_default().replace('\n', " ")
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn statuses() -> Statuses {
        let told = json!({
            "broken": {"status": {
                "connector": {"state": "FAILED", "trace": "record x-0@7:\nno JSON"},
                "tasks": [{"id": 0, "state": "FAILED", "trace": "record x-0@7:\nno JSON"}],
                "sluice": {"records_in_flight": 1},
            }},
            "orders": {"status": {
                "connector": {"state": "RUNNING"},
                "tasks": [
                    {"id": 0, "state": "RUNNING"},
                    {"id": 1, "state": "RUNNING", "sluice": {"cause": "sink is down"}},
                ],
                "sluice": {"accepted_per_second": 1250.5, "records_in_flight": 40, "group_lag_records": 7},
            }},
        });
        told.as_object().cloned().unwrap()
    }

    #[test]
    fn a_line_for_each_connector_with_its_cause() {
        let mut out = Vec::new();
        print_table(&statuses(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "CONNECTOR  STATE    TASKS  RECORDS/S  IN FLIGHT  LAG  CAUSE\n\
             broken     FAILED     0/1          -          1    -  record x-0@7: no JSON\n\
             orders     RUNNING    2/2     1250.5         40    7  task 1: sink is down\n"
        );
    }

    #[test]
    fn a_failed_connector_or_task_is_a_failure_of_the_command() {
        assert!(has_failed(&statuses()));
        let good = of(statuses(), Some("orders")).unwrap();
        assert_eq!(good.len(), 1);
        assert!(!has_failed(&good));
        let mut task_failed = good;
        task_failed["orders"]["status"]["tasks"][1]["state"] = json!("FAILED");
        assert!(has_failed(&task_failed));
        assert!(of(statuses(), Some("none")).is_none());
    }
}
