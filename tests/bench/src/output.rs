//! Where results go.

use std::path::Path;

use anyhow::{Context, Result};

#[allow(clippy::print_stdout, reason = "the program's answer")]
pub fn print(table: &str) {
    print!("{table}");
}

pub fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}
