//! What is wrong with a JSON text: where, and what was expected. Never what
//! stands there, since that is the user's data.

use std::borrow::Cow;
use std::fmt;

pub(super) type Result<T> = std::result::Result<T, JsonError>;

/// Boxed, so that the good case stays small.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsonError(Box<Details>);

#[derive(Debug, PartialEq, Eq)]
struct Details {
    at: usize,
    message: Cow<'static, str>,
    /// Names of the schema's fields, innermost first.
    path: Vec<String>,
}

impl JsonError {
    pub(super) fn at(at: usize, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Details {
            at,
            message: message.into(),
            path: Vec::new(),
        }))
    }

    /// The same fault, seen from the struct around it.
    #[must_use]
    pub(super) fn within(mut self, field: &str) -> Self {
        self.0.path.push(field.to_owned());
        self
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { at, message, path } = &*self.0;
        write!(f, "{message} (byte {at}")?;
        if !path.is_empty() {
            let names: Vec<&str> = path.iter().rev().map(String::as_str).collect();
            write!(f, ", field {}", names.join("."))?;
        }
        f.write_str(")")
    }
}
