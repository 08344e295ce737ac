//! What an endpoint said, fit for a log: short, printable, and without the
//! secrets that it may have repeated.

use crate::config::definition::Secret;
use crate::config::secrets::{HIDDEN, scrub};

/// So much of an error's body is read.
pub(super) const READ_LIMIT: usize = 4096;
/// So many characters of it are told.
const TOLD: usize = 300;
/// A shorter secret would be found in every other word.
const LEAST_SECRET: usize = 4;

/// The secrets of a connector, as they go over the wire.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets(Vec<Secret>);

impl Secrets {
    pub(super) fn add(&mut self, secret: impl Into<String>) {
        let secret = secret.into();
        if secret.len() >= LEAST_SECRET {
            self.0.push(Secret::new(secret));
        }
    }

    /// A value of a header such as `Bearer abc`: the part after the scheme may
    /// be repeated alone.
    pub(super) fn add_header(&mut self, value: &str) {
        self.add(value);
        if let Some((_, credentials)) = value.split_once(' ') {
            self.add(credentials.trim());
        }
    }

    /// What may be told of a body.
    pub(super) fn excerpt(&self, body: &[u8], token: Option<&Secret>) -> String {
        let body = &body[..body.len().min(READ_LIMIT)];
        let mut text = String::from_utf8_lossy(body).into_owned();
        for secret in self.0.iter().chain(token) {
            if secret.reveal().len() >= LEAST_SECRET {
                text = text.replace(secret.reveal(), HIDDEN);
            }
        }
        let text = scrub(&text);
        let words = text.split(|at: char| at.is_whitespace() || at.is_control());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let text = words.join(" ");
        match text.char_indices().nth(TOLD) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_that_a_body_repeats_are_hidden() {
        let mut secrets = Secrets::default();
        secrets.add_header("Bearer hush-hush");
        let token = Secret::new("fresh-token");
        let body = br#"{"sent":"hush-hush","token":"fresh-token","at":"http://a:pw@h"}"#;
        let told = secrets.excerpt(body, Some(&token));
        for secret in ["hush", "fresh-token", "a:pw"] {
            assert!(!told.contains(secret), "{told}");
        }
    }

    #[test]
    fn a_secret_that_is_part_of_every_word_is_left() {
        let mut secrets = Secrets::default();
        secrets.add("e");
        assert_eq!(secrets.excerpt(b"see here", None), "see here");
    }

    #[test]
    fn a_body_is_one_short_printable_line() {
        let secrets = Secrets::default();
        assert_eq!(secrets.excerpt(b" a\r\n\tb\x1b[0m ", None), "a b [0m");
        let told = secrets.excerpt("\u{e4}".repeat(10_000).as_bytes(), None);
        assert_eq!(told.chars().count(), TOLD + 3);
        assert!(told.ends_with("..."));
        assert_eq!(secrets.excerpt(&[0xff, b'x'], None), "\u{fffd}x");
    }
}
