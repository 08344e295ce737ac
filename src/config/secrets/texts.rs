//! Secrets that stand beside their names in a text.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::{HIDDEN, is_secret};

/// `user:password@` before a host.
static USER_INFO: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?<before>://)\S*@").ok());

/// A header, with a scheme or without.
static AUTHORIZATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"(?i)(?<before>authorization["']?\s*[:=]\s*["']?)(?:[\w-]+\s+)?[^\s"',;]+"#).ok()
});

/// A name before its value: of a parameter of an address, between the
/// semicolons of a JDBC one, in JSON.
static NAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?<name>[\w.-]+)(?:\s*=\s*|["']\s*:\s*)"#).ok());

static VALUE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"^(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^&;\s,]+)"#).ok());

/// Hides passwords inside a text: `user:password@host`, `?password=...`.
#[must_use]
pub fn scrub(text: &str) -> Cow<'_, str> {
    let text = replaced(&USER_INFO, Cow::Borrowed(text), "${before}[hidden]@");
    let text = replaced(&AUTHORIZATION, text, "${before}[hidden]");
    match without_named(&text) {
        Some(scrubbed) => Cow::Owned(scrubbed),
        None => text,
    }
}

fn replaced<'a>(pattern: &Option<Regex>, text: Cow<'a, str>, by: &str) -> Cow<'a, str> {
    match pattern {
        Some(pattern) if pattern.is_match(&text) => {
            Cow::Owned(pattern.replace_all(&text, by).into_owned())
        }
        _ => text,
    }
}

/// The text without the values whose names tell a secret; `None` if there are
/// none. A value of another name is looked into: it may be `a=password=b`.
fn without_named(text: &str) -> Option<String> {
    let (name, value) = (NAME.as_ref()?, VALUE.as_ref()?);
    let mut scrubbed = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(found) = name.captures_at(text, at) {
        let whole = found.get(0)?;
        at = whole.end();
        if is_secret(&found["name"])
            && let Some(value) = value.find(&text[at..])
        {
            scrubbed.push_str(&text[done..at]);
            scrubbed.push_str(HIDDEN);
            at += value.end();
            done = at;
        }
    }
    (done > 0).then(|| scrubbed + &text[done..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_inside_texts_are_hidden() {
        for (text, expected) in [
            (
                "postgres://alice:hush@db:5432/orders?ssl=true",
                "postgres://[hidden]@db:5432/orders?ssl=true",
            ),
            (
                "jdbc:sqlserver://db;user=sa;Password=hush;encrypt=true",
                "jdbc:sqlserver://db;user=sa;Password=[hidden];encrypt=true",
            ),
            (
                "amqp://host/x?access_token=hush&y=1",
                "amqp://host/x?access_token=[hidden]&y=1",
            ),
            (
                "Endpoint=sb://x;SharedAccessKeyName=Root;SharedAccessKey=hu/sh=",
                "Endpoint=sb://x;SharedAccessKeyName=Root;SharedAccessKey=[hidden]",
            ),
            ("x=password=hush", "x=password=[hidden]"),
            (
                r#"required username="a" password="hush \"hush" x=y"#,
                r#"required username="a" password=[hidden] x=y"#,
            ),
            ("password='hush hush'", "password=[hidden]"),
            ("password=\"hush hush", "password=[hidden]"),
            (
                r#"{"client_secret": "hush", "a":"b"}"#,
                r#"{"client_secret": [hidden], "a":"b"}"#,
            ),
            ("Authorization: Bearer hush", "Authorization: [hidden]"),
            ("authorization=ApiKey hush, x", "authorization=[hidden], x"),
            (
                r#"{"Authorization":"Basic hush"}"#,
                r#"{"Authorization":[hidden]}"#,
            ),
        ] {
            assert_eq!(scrub(text), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_are_left_as_they_are() {
        for text in [
            "mail@example.com",
            "jdbc:postgresql://db/orders?user=sa",
            "no such key=7 for this token",
            r#"{"error":"invalid token: too old"}"#,
            "password=",
        ] {
            assert!(
                matches!(scrub(text), Cow::Borrowed(it) if it == text),
                "{text}"
            );
        }
    }
}
