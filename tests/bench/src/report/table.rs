//! Figures in rows.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

#[derive(Clone, Debug)]
pub struct Column {
    title: String,
    decimals: usize,
}

impl Column {
    pub fn new(title: impl Into<String>, decimals: usize) -> Self {
        Self {
            title: title.into(),
            decimals,
        }
    }
}

/// See the module. A row may lack figures.
#[derive(Clone, Debug)]
pub struct Table {
    /// What a row is.
    row: &'static str,
    columns: Vec<Column>,
    rows: Vec<(String, Vec<Option<f64>>)>,
}

impl Table {
    pub fn new(row: &'static str, columns: Vec<Column>) -> Self {
        Self {
            row,
            columns,
            rows: Vec::new(),
        }
    }

    /// As many figures as there are columns.
    pub fn push(&mut self, name: impl Into<String>, figures: impl Into<Vec<Option<f64>>>) {
        self.rows.push((name.into(), figures.into()));
    }

    pub fn markdown(&self) -> String {
        let titles: Vec<&str> = self.columns.iter().map(|it| &*it.title).collect();
        // Writing to a string does not fail.
        let mut text = format!("| {} | {} |\n", self.row, titles.join(" | "));
        let _ = writeln!(text, "|---|{}", "---:|".repeat(self.columns.len()));
        for (name, figures) in &self.rows {
            let _ = write!(text, "| {name} |");
            for (column, figure) in self.columns.iter().zip(figures) {
                let _ = match figure {
                    Some(figure) => write!(text, " {figure:.*} |", column.decimals),
                    None => write!(text, " |"),
                };
            }
            text.push('\n');
        }
        text
    }

    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|(name, figures)| {
            let figures = self.columns.iter().zip(figures);
            let figures: Map<String, Value> = figures
                .map(|(column, figure)| (column.title.clone(), json!(figure)))
                .collect();
            json!({self.row: name, "figures": figures})
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = vec![Column::new("records/s", 0), Column::new("µs", 2)];
        let mut table = Table::new("who", columns);
        table.push("Sluice", [Some(1000.4), Some(0.304)]);
        table.push("other", [Some(3.0), None]);
        table
    }

    #[test]
    fn figures_are_rounded_and_missing_ones_stay_empty() {
        let expected = "| who | records/s | µs |\n|---|---:|---:|\n\
                        | Sluice | 1000 | 0.30 |\n| other | 3 | |\n";
        assert_eq!(table().markdown(), expected);
    }

    #[test]
    fn json_has_the_same_figures_unrounded() {
        let json = table().json();
        assert_eq!(json[0]["who"], "Sluice");
        assert_eq!(json[0]["figures"]["µs"], 0.304);
        assert_eq!(json[1]["figures"]["µs"], Value::Null);
    }
}
