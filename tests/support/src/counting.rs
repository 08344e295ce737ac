//! Counting ids where they arrived, outside the worker.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, Result, ensure};

/// So many ids of a kind are named in a failure.
const EXAMPLES: usize = 5;

/// How often each id arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<String, usize>,
    torn: usize,
}

impl<S: Into<String>> FromIterator<S> for Tally {
    fn from_iter<I: IntoIterator<Item = S>>(ids: I) -> Self {
        let mut tally = Self::default();
        tally.extend(ids);
        tally
    }
}

impl<S: Into<String>> Extend<S> for Tally {
    fn extend<I: IntoIterator<Item = S>>(&mut self, ids: I) {
        for id in ids {
            *self.counts.entry(id.into()).or_default() += 1;
        }
    }
}

impl Tally {
    /// Counts the lines of a file, each an id. What stands behind the last
    /// line break was not written to its end, and does not count.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn from_lines(path: &Path) -> Result<Self> {
        Self::read(path, |line| Some(line.to_owned()))
    }

    /// Counts the texts that `pointer` (`/id`) names in a file of JSON lines.
    /// Lines that are no JSON, as a killed writer leaves them, are `torn`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn from_json_lines(path: &Path, pointer: &str) -> Result<Self> {
        Self::read(path, |line| json_text(line.as_bytes(), pointer))
    }

    /// Counts the texts that `pointer` names in JSON values, of records for
    /// example.
    #[must_use]
    pub fn from_json_values<'a>(values: impl IntoIterator<Item = &'a [u8]>, pointer: &str) -> Self {
        let mut tally = Self::default();
        for value in values {
            tally.add(json_text(value, pointer));
        }
        tally
    }

    fn read(path: &Path, id: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let bytes = std::fs::read(path)
            .with_context(|| format!("cannot read what arrived in {}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let mut tally = Self::default();
        for line in text.split_inclusive('\n') {
            let whole = line.strip_suffix('\n');
            tally.add(whole.and_then(&id));
        }
        Ok(tally)
    }

    fn add(&mut self, id: Option<String>) {
        match id {
            Some(id) => self.extend([id]),
            None => self.torn += 1,
        }
    }

    /// All arrivals, repeated ones too.
    #[must_use]
    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }

    /// Different ids.
    #[must_use]
    pub fn distinct(&self) -> usize {
        self.counts.len()
    }

    /// Arrivals beyond the first of each id.
    #[must_use]
    pub fn duplicates(&self) -> usize {
        self.total() - self.distinct()
    }

    /// Lines or values without an id.
    #[must_use]
    pub fn torn(&self) -> usize {
        self.torn
    }

    /// How often `id` arrived.
    #[must_use]
    pub fn count(&self, id: &str) -> usize {
        self.counts.get(id).copied().unwrap_or_default()
    }

    /// Expected ids that did not arrive.
    #[must_use]
    pub fn missing(&self, expected: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut expected: Vec<String> = expected.into_iter().collect();
        expected.retain(|id| !self.counts.contains_key(id));
        expected
    }

    /// Checks that nothing was lost and nothing invented; an id may have come
    /// more than once.
    ///
    /// # Errors
    /// If an expected id is missing or another one came; then with figures and
    /// examples.
    pub fn at_least_once(&self, expected: impl IntoIterator<Item = String>) -> Result<()> {
        let expected: BTreeSet<String> = expected.into_iter().collect();
        let missing: Vec<&String> = expected
            .iter()
            .filter(|id| !self.counts.contains_key(*id))
            .collect();
        let unknown: Vec<&String> = self
            .counts
            .keys()
            .filter(|id| !expected.contains(*id))
            .collect();
        ensure!(
            missing.is_empty() && unknown.is_empty(),
            "of {} ids {} are missing {:?} and {} unknown ones came {:?}; {} arrivals, {} torn",
            expected.len(),
            missing.len(),
            examples(&missing),
            unknown.len(),
            examples(&unknown),
            self.total(),
            self.torn,
        );
        Ok(())
    }

    /// The same, and each id came only once.
    ///
    /// # Errors
    /// If an id is missing, unknown or came again.
    pub fn exactly_once(&self, expected: impl IntoIterator<Item = String>) -> Result<()> {
        self.at_least_once(expected)?;
        let repeated: Vec<(&String, &usize)> = self
            .counts
            .iter()
            .filter(|(_, count)| **count > 1)
            .collect();
        ensure!(
            repeated.is_empty(),
            "{} of {} ids came more than once: {:?}",
            repeated.len(),
            self.distinct(),
            examples(&repeated),
        );
        Ok(())
    }
}

fn json_text(json: &[u8], pointer: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(json).ok()?;
    Some(value.pointer(pointer)?.as_str()?.to_owned())
}

fn examples<T>(all: &[T]) -> &[T] {
    &all[..all.len().min(EXAMPLES)]
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::produce::ids;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_lost_and_an_invented_id_are_named() {
        let tally = Tally::from_iter(["id-000000", "id-000002", "ghost"]);
        let error = tally.at_least_once(ids(3)).unwrap_err().to_string();
        assert!(error.contains("id-000001"), "{error}");
        assert!(error.contains("ghost"), "{error}");
        assert_eq!(tally.missing(ids(3)), ["id-000001"]);
    }

    #[test]
    fn a_repeated_id_passes_at_least_once_and_fails_exactly_once() {
        let tally: Tally = ids(3).chain(ids(1)).collect();
        tally.at_least_once(ids(3)).unwrap();
        let error = tally.exactly_once(ids(3)).unwrap_err().to_string();
        assert!(error.contains("id-000000"), "{error}");
        assert_eq!((tally.total(), tally.duplicates()), (4, 1));
        assert_eq!((tally.count("id-000000"), tally.count("id-000001")), (2, 1));
    }

    #[test]
    fn a_line_that_was_not_finished_does_not_count() {
        let file = file("id-000000\nid-000001\nid-00");
        let tally = Tally::from_lines(file.path()).unwrap();
        tally.exactly_once(ids(2)).unwrap();
        assert_eq!(tally.torn(), 1);
    }

    #[test]
    fn torn_json_and_values_without_the_id_are_counted_apart() {
        let file =
            file("{\"id\":\"id-000000\"}\n{\"id\":\"id-0{\"id\":\"id-000001\"}\n{\"no\":1}\n");
        let tally = Tally::from_json_lines(file.path(), "/id").unwrap();
        tally.exactly_once(ids(1)).unwrap();
        assert_eq!(tally.torn(), 2);
    }

    #[test]
    fn a_missing_file_is_an_error_not_an_empty_count() {
        let error = Tally::from_lines(Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().contains("/nowhere"), "{error}");
    }
}
