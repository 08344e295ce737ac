//! What an endpoint said, fit for a log: short, printable, and without the
//! secrets that it may have repeated.

use reqwest::Url;

use crate::config::definition::Secret;
use crate::config::secrets::{HIDDEN, is_secret, scrub};
use crate::http_client::percent_encoded;

/// So much of an error's body is read.
pub(super) const READ_LIMIT: usize = 4096;
/// So many characters of it are told.
const TOLD: usize = 300;
/// A shorter secret would be found in every other word.
const LEAST_SECRET: usize = 4;
/// Parts of an address that are shorter are words.
const LEAST_PARAMETER: usize = 8;
const LEAST_SEGMENT: usize = 16;

/// The secrets of a connector, as they go over the wire.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets(Vec<Secret>);

impl Secrets {
    /// As it is and as it stands in a form.
    pub(super) fn add(&mut self, secret: impl Into<String>) {
        let secret = secret.into();
        if secret.len() >= LEAST_SECRET {
            self.0.push(Secret::new(percent_encoded(&secret)));
            self.0.push(Secret::new(secret));
        }
    }

    /// What an address may be known by: its path up to the first part that
    /// records fill in, what stands in its query, and segments that look drawn
    /// by lot.
    pub(super) fn add_address(&mut self, path: &str, url: &Url) {
        self.add(path);
        let sent = url.query().unwrap_or_default().split('&');
        let sent = sent.filter(|parameter| !parameter.is_empty());
        for (sent, (name, value)) in sent.zip(url.query_pairs()) {
            let tells = is_secret(&name) || ["code", "key"].contains(&&*name);
            if tells || value.len() >= LEAST_PARAMETER {
                self.add(sent.split_once('=').map_or(sent, |(_, value)| value));
                self.add(value);
            }
        }
        let segments = url.path_segments().into_iter().flatten();
        let drawn = segments.filter(|it| it.len() >= LEAST_SEGMENT);
        drawn.for_each(|segment| self.add(segment));
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
    fn an_address_that_a_body_repeats_is_hidden_but_its_words_are_not() {
        let mut secrets = Secrets::default();
        let url =
            "http://h/hooks/orders/hush-hush-hush-hush?code=hu%26/sh&&kind=slow&state=huh-huh-";
        let url = Url::parse(url).unwrap();
        secrets.add_address("/hooks/orders/", &url);
        for body in [
            "Cannot POST /hooks/orders/hush-hush-hush-hush",
            "no hook hush-hush-hush-hush",
            "bad code hu&/sh, hu%26/sh, hu%26%2Fsh",
            "state was huh-huh-",
        ] {
            let told = secrets.excerpt(body.as_bytes(), None);
            assert!(!told.contains("hu"), "{told}");
        }
        assert_eq!(secrets.excerpt(b"slow orders", None), "slow orders");
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
