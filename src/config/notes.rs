//! What the user should know about a key, though nothing is wrong with it.

use std::fmt;

/// A word about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub key: String,
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// All notes, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes(Vec<Note>);

impl Notes {
    pub fn add(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.0.push(Note {
            key: key.into(),
            message: message.into(),
        });
    }

    /// The usual note: a key that Kafka Connect knows and that does nothing
    /// here.
    pub fn no_effect(&mut self, key: impl Into<String>, reason: &str) {
        self.add(key, format!("has no effect here, because {reason}"));
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Note> {
        self.0.iter()
    }
}
