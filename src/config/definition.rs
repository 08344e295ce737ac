//! Keys and the one way to read them: a table of keys, and a reader that
//! collects every fault instead of stopping at the first.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What a key's value must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    /// A whole number within bounds, both included.
    Int {
        min: i64,
        max: i64,
    },
    /// Milliseconds, at least 0.
    DurationMs,
    /// Bytes, at least 0.
    Size,
    Text,
    /// Texts parted by commas.
    List,
    /// One of these, in any case.
    Choice(&'static [&'static str]),
    /// A text that is never shown.
    Secret,
}

impl Kind {
    /// What to call it in the reference. Durations and sizes bear their unit
    /// in the key's name or doc.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Boolean => "boolean".into(),
            Self::Int { min, max: i64::MAX } => format!("int, at least {min}"),
            Self::Int { min, max } => format!("int, {min} to {max}"),
            Self::DurationMs => "milliseconds".into(),
            Self::Size => "bytes".into(),
            Self::Text => "text".into(),
            Self::List => "list".into(),
            Self::Choice(choices) => choices.join(" | "),
            Self::Secret => "secret".into(),
        }
    }
}

/// What holds when a key is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// It must be set.
    Required,
    /// Nothing; the docs say what that means.
    Unset,
    Value(&'static str),
}

/// One key: what it is called, what it takes, what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub preset: Preset,
    pub doc: &'static str,
}

/// A row of a table of keys.
pub(crate) const fn key(name: &'static str, kind: Kind, preset: Preset, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        preset,
        doc,
    }
}

/// The items of a list: texts parted by commas; empty ones do not count.
pub(crate) fn list_items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

/// A text that cannot be printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the client that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Settings by key, as they came.
pub type Properties = BTreeMap<String, String>;

/// What is wrong with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub key: String,
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// All that is wrong, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    pub fn add(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.0.push(Fault {
            key: key.into(),
            message: message.into(),
        });
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes over the faults of another list that are not in this one yet.
    pub fn absorb(&mut self, other: Self) {
        for fault in other.0 {
            if !self.0.contains(&fault) {
                self.0.push(fault);
            }
        }
    }

    pub fn retain(&mut self, keep: impl Fn(&Fault) -> bool) {
        self.0.retain(keep);
    }

    /// Puts another word in place of a value that is not to be shown, as it is
    /// and as it is quoted. One of fewer letters than `least` stays.
    pub fn hide(&mut self, value: &str, word: &str, least: usize) {
        if value.chars().count() < least {
            return;
        }
        let quoted = format!("{value:?}");
        let quoted = quoted.trim_matches('"');
        for fault in &mut self.0 {
            fault.message = fault.message.replace(value, word).replace(quoted, word);
        }
    }

    /// By key; the order of one key's faults stays.
    pub fn sort(&mut self) {
        self.0.sort_by(|left, right| left.key.cmp(&right.key));
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, fault) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

/// Reads the keys of one table below a prefix (`value.converter.`, or none).
///
/// A key that does not parse gives a fault and the value of its preset, so
/// that reading goes on and the user sees all faults at once.
pub struct Reader<'a> {
    properties: &'a Properties,
    prefix: &'a str,
    keys: &'static [Key],
    faults: &'a mut Faults,
}

impl<'a> Reader<'a> {
    pub fn new(
        properties: &'a Properties,
        prefix: &'a str,
        keys: &'static [Key],
        faults: &'a mut Faults,
    ) -> Self {
        Self {
            properties,
            prefix,
            keys,
            faults,
        }
    }

    /// Notes a fault of a key of this table, for what no kind can tell.
    pub fn fault(&mut self, name: &str, message: impl Into<String>) {
        self.faults.add(format!("{}{name}", self.prefix), message);
    }

    /// Whether somebody gave it, be it empty.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.properties
            .contains_key(&format!("{}{name}", self.prefix))
    }

    #[must_use]
    pub fn boolean(&mut self, name: &'static str) -> bool {
        self.read(name, |text| match text.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{text:?} is neither true nor false")),
        })
        .unwrap_or_default()
    }

    #[must_use]
    pub fn int(&mut self, name: &'static str) -> i64 {
        self.optional_int(name).unwrap_or_default()
    }

    #[must_use]
    pub fn optional_int(&mut self, name: &'static str) -> Option<i64> {
        let (min, max) = match self.key(name).map(|key| key.kind) {
            Some(Kind::Int { min, max }) => (min, max),
            _ => (0, i64::MAX),
        };
        self.read(name, |text| {
            let number: i64 = text
                .parse()
                .map_err(|_| format!("{text:?} is not a whole number"))?;
            match number {
                _ if (min..=max).contains(&number) => Ok(number),
                _ if max == i64::MAX => Err(format!("{number} is less than {min}")),
                _ => Err(format!("{number} is not between {min} and {max}")),
            }
        })
    }

    #[must_use]
    pub fn duration(&mut self, name: &'static str) -> Duration {
        self.optional_duration(name).unwrap_or_default()
    }

    #[must_use]
    pub fn optional_duration(&mut self, name: &'static str) -> Option<Duration> {
        self.read(name, |text| {
            text.parse()
                .map(Duration::from_millis)
                .map_err(|_| format!("{text:?} is not a number of milliseconds"))
        })
    }

    /// One of 0 is a fault: what it bounds would never rest, or never have time.
    #[must_use]
    pub fn positive_duration(&mut self, name: &'static str) -> Duration {
        let time = self.duration(name);
        if time.is_zero() {
            self.fault(name, "must be longer than 0");
        }
        time
    }

    /// Bytes.
    #[must_use]
    pub fn size(&mut self, name: &'static str) -> usize {
        self.read(name, |text| {
            text.parse()
                .map_err(|_| format!("{text:?} is not a number of bytes"))
        })
        .unwrap_or_default()
    }

    #[must_use]
    pub fn text(&mut self, name: &'static str) -> String {
        self.optional_text(name).unwrap_or_default()
    }

    #[must_use]
    pub fn optional_text(&mut self, name: &'static str) -> Option<String> {
        self.read(name, |text| Ok(text.to_owned()))
    }

    #[must_use]
    pub fn list(&mut self, name: &'static str) -> Vec<String> {
        self.read(name, |text| {
            Ok(list_items(text).map(str::to_owned).collect())
        })
        .unwrap_or_default()
    }

    /// One of the key's choices, as the table spells it.
    #[must_use]
    pub fn choice(&mut self, name: &'static str) -> &'static str {
        self.optional_choice(name).unwrap_or_default()
    }

    #[must_use]
    pub fn optional_choice(&mut self, name: &'static str) -> Option<&'static str> {
        let choices = match self.key(name).map(|key| key.kind) {
            Some(Kind::Choice(choices)) => choices,
            _ => &[],
        };
        self.read(name, |text| {
            choices
                .iter()
                .find(|choice| choice.eq_ignore_ascii_case(text))
                .copied()
                .ok_or_else(|| format!("{text:?} is not one of {}", choices.join(", ")))
        })
    }

    #[must_use]
    pub fn secret(&mut self, name: &'static str) -> Option<Secret> {
        self.read(name, |text| Ok(Secret::new(text)))
    }

    fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    fn read<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let preset = self.key(name).map_or(Preset::Unset, |key| key.preset);
        let full = format!("{}{name}", self.prefix);
        match self.properties.get(&full).map(|text| text.trim()) {
            Some(text) => match parse(text) {
                Ok(value) => return Some(value),
                Err(message) => self.faults.add(full, message),
            },
            None if preset == Preset::Required => {
                self.faults.add(full, "is required and not set");
            }
            None => {}
        }
        match preset {
            Preset::Value(text) => parse(text).ok(),
            Preset::Required | Preset::Unset => None,
        }
    }
}
