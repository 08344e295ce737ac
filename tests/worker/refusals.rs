//! What the program itself says to a configuration that cannot work.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::Result;
use serde_json::json;

use crate::stage::BINARY;

const WORKER: &str = "tests/config/good/worker.properties";
const BROKEN: &str = "tests/config/broken";

fn sluice(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(BINARY).args(arguments).env_clear().output()?)
}

#[test]
fn a_broken_configuration_ends_the_program_with_64_and_all_faults() -> Result<()> {
    let connector = format!("{BROKEN}/numbers.json");
    let output = sluice(&["check", WORKER, "--connector", &connector])?;
    assert_eq!(output.status.code(), Some(64));
    let expected = std::fs::read_to_string(Path::new(BROKEN).join("numbers.expected"))?;
    assert!(expected.lines().count() > 1, "{expected}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert!(output.stdout.is_empty());
    Ok(())
}

#[test]
fn a_connector_that_is_not_told_to_share_is_refused_with_the_word_for_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (worker, connector) = (
        folder.path().join("worker.properties"),
        folder.path().join("orders.json"),
    );
    std::fs::write(&worker, "bootstrap.servers=127.0.0.1:1\n")?;
    let config = json!({
        "name": "orders",
        "connector.class": "null",
        "topics": "orders",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    });
    std::fs::write(&connector, config.to_string())?;
    for command in ["check", "run"] {
        let (worker, connector) = (
            worker.display().to_string(),
            connector.display().to_string(),
        );
        let output = sluice(&[command, &worker, "--connector", &connector])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{command}: {said}");
        let faults: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("group.protocol"))
            .collect();
        let [fault] = faults[..] else {
            panic!("{command}: {said}");
        };
        assert!(
            fault.contains("consumer.override.group.protocol"),
            "{fault}"
        );
        assert!(fault.contains("share"), "{fault}");
    }
    Ok(())
}
