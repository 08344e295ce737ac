//! What an endpoint said, fit for a log: short, printable, and without the
//! secrets that it may have repeated.

use percent_encoding::percent_decode_str;
use reqwest::Url;

use crate::config::definition::Secret;
use crate::config::secrets::{HIDDEN, is_secret, scrub};
use crate::sinks::http::spelling::length_of;

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
    pub(super) fn add(&mut self, secret: impl Into<String>) {
        let secret = Secret::new(secret);
        if secret.reveal().len() >= LEAST_SECRET && !self.0.contains(&secret) {
            self.0.push(secret);
        }
    }

    /// A part of an address, which may be repeated without its escapes, or
    /// with others.
    fn add_part(&mut self, part: &str) {
        let plain = percent_decode_str(part).decode_utf8_lossy();
        if plain != part {
            self.add(plain);
        }
        self.add(part);
    }

    /// What an address may be known by: its path up to the first part that
    /// records fill in, what stands in its query, and segments that look drawn
    /// by lot.
    pub(super) fn add_address(&mut self, path: &str, url: &Url) {
        self.add_part(path);
        let sent = url.query().unwrap_or_default().split('&');
        let sent = sent.filter(|parameter| !parameter.is_empty());
        for (sent, (name, value)) in sent.zip(url.query_pairs()) {
            let tells = is_secret(&name) || ["code", "key"].contains(&&*name);
            if tells || value.len() >= LEAST_PARAMETER {
                self.add_part(sent.split_once('=').map_or(sent, |(_, value)| value));
                self.add(value);
            }
        }
        let segments = url.path_segments().into_iter().flatten();
        let drawn = segments.filter(|it| it.len() >= LEAST_SEGMENT);
        drawn.for_each(|segment| self.add_part(segment));
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
        let text = self.hide(&String::from_utf8_lossy(body), token);
        let text = scrub(&text);
        let words = text.split(|at: char| at.is_whitespace() || at.is_control());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let text = words.join(" ");
        match text.char_indices().nth(TOLD) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        }
    }

    /// A text without secrets, in whatever way they are written. Where one
    /// runs into another, both are hidden to the last sign.
    fn hide(&self, text: &str, token: Option<&Secret>) -> String {
        let token = token.filter(|token| token.reveal().len() >= LEAST_SECRET);
        let (mut told, mut hidden_to) = (String::with_capacity(text.len()), 0);
        for (at, sign) in text.char_indices() {
            let secrets = self.0.iter().chain(token);
            let lengths = secrets.filter_map(|it| length_of(it.reveal(), &text[at..]));
            let end = lengths.max().map(|length| at + length);
            if let Some(end) = end.filter(|end| *end > hidden_to) {
                if at >= hidden_to {
                    told.push_str(HIDDEN);
                }
                hidden_to = end;
            }
            if at >= hidden_to {
                told.push(sign);
            }
        }
        told
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
    fn a_secret_that_a_body_repeats_escaped_is_hidden() {
        let mut secrets = Secrets::default();
        secrets.add("hush/pass\"word&1");
        let url = Url::parse("http://h/hooks/hush%2fhush%2fhush%2f?code=hush/c%26xyz").unwrap();
        secrets.add_address("/hooks/", &url);
        for body in [
            r#"{"sent":"hush\/pass\"word&1"}"#,
            r#"{"sent":"hush/pass\u0022word\u00261"}"#,
            "<p>hush/pass&quot;word&amp;1</p>",
            "<p>hush&#x2f;pass&#34;word&#38;1</p>",
            "hush%2fpass%22word%261",
            "no hook hush/hush/hush/, hush%2Fhush%2Fhush%2F",
            r#"{"path":"\/hooks\/hush%2fhush%2fhush%2f?code=hush\/c%26xyz"}"#,
        ] {
            let told = secrets.excerpt(body.as_bytes(), None);
            let shows = ["hush", "word", "xyz"].iter().any(|it| told.contains(it));
            assert!(!shows && told.contains(HIDDEN), "{told}");
        }
        let kept = r#"{"error":"caf\u00e9 &amp; 5%25"}"#;
        assert_eq!(secrets.excerpt(kept.as_bytes(), None), kept);
    }

    #[test]
    fn secrets_that_run_into_each_other_are_hidden_to_the_last_sign() {
        let mut secrets = Secrets::default();
        secrets.add("hush");
        secrets.add("hush-abc");
        secrets.add("abc-def");
        assert_eq!(secrets.excerpt(b"a hush-abc-def b", None), "a [hidden] b");
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
