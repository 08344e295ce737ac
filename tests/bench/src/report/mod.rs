//! What was measured and under which conditions, as Markdown, JSON and plots.

mod goal;
mod plot;
mod table;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};

pub use goal::Goal;
pub use plot::{Line, Plot, Scale};
pub use table::{Column, Table};

use crate::output::write;

/// A condition of the measurement by its name.
pub type Fact = (&'static str, Value);

/// What one case came to.
#[derive(Debug, Default)]
pub struct Section {
    /// Names it in JSON and in files.
    pub key: &'static str,
    pub title: &'static str,
    /// What is done, and what the limits are.
    pub intro: String,
    pub facts: Vec<Fact>,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    pub goals: Vec<Goal>,
}

impl Section {
    /// Plots are named by paths below `plots`.
    pub fn markdown(&self, plots: &str) -> String {
        let mut text = format!(
            "## {}\n\n{}\n\n{}",
            self.title,
            self.intro,
            list(&self.facts)
        );
        for table in &self.tables {
            let _ = write!(text, "\n{}", table.markdown());
        }
        if !self.goals.is_empty() {
            let _ = write!(text, "\n{}", goal::markdown(&self.goals));
        }
        for plot in &self.plots {
            let _ = writeln!(text, "\n![{}]({plots}/{}.svg)", plot.title, plot.file);
        }
        text
    }

    pub fn json(&self) -> Value {
        let facts: Map<String, Value> = self
            .facts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        json!({
            "facts": facts,
            "tables": self.tables.iter().map(Table::json).collect::<Vec<_>>(),
            "goals": self.goals.iter().map(Goal::json).collect::<Vec<_>>(),
        })
    }

    pub fn write_plots(&self, folder: &Path) -> Result<()> {
        for plot in &self.plots {
            write(&folder.join(plot.file).with_extension("svg"), &plot.svg()?)?;
        }
        Ok(())
    }

    /// Fails if a goal is missed by more than the part `slack` of it.
    pub fn judge(&self, slack: f64) -> Result<()> {
        let goals = self.goals.iter();
        let missed: Vec<String> = goals
            .filter(|goal| !goal.is_met(slack))
            .map(Goal::to_string)
            .collect();
        ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
        Ok(())
    }
}

/// Facts as a list.
pub fn list(facts: &[Fact]) -> String {
    let mut text = String::new();
    for (name, value) in facts {
        let value = value.as_str().map_or(value.to_string(), str::to_owned);
        // Writing to a string does not fail.
        let _ = writeln!(text, "- {name}: {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> Section {
        Section {
            key: "noop",
            title: "No-op",
            intro: "Nothing is done.".to_owned(),
            facts: vec![("cpu", json!("Fast 9000")), ("cores", json!(2))],
            tables: vec![Table::new("who", vec![Column::new("rate", 0)])],
            plots: Vec::new(),
            goals: vec![Goal::at_least("half of it", 0.5, 0.45)],
        }
    }

    #[test]
    fn markdown_has_facts_tables_and_goals_in_this_order() {
        let text = section().markdown("plots");
        let places = [
            "## No-op",
            "- cpu: Fast 9000",
            "- cores: 2",
            "| who |",
            "half of it",
        ]
        .map(|part| text.find(part).unwrap());
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn json_names_facts_and_goals() {
        let json = section().json();
        assert_eq!(json["facts"]["cores"], 2);
        assert_eq!(json["goals"][0]["reached"], 0.45);
    }

    #[test]
    fn a_missed_goal_fails_by_name_unless_it_is_missed_by_little() {
        let refused = section().judge(0.0).unwrap_err().to_string();
        assert!(refused.contains("half of it"), "{refused}");
        section().judge(0.2).unwrap();
    }
}
