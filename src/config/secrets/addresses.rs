//! Addresses of the web: path and query may be the secret itself, as those of
//! webhooks are.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::HIDDEN;

/// An address up to the end of the text, wherever that is: nothing parts a
/// path from what follows it. As lenient as those who read addresses are.
static ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?is)(?<scheme>https?:[/\\]*)(?<user>[^/?#\\\s]*@)?(?<host>[^/?#\\\s@]*)(?<rest>[/?#\\].*)?",
    )
    .ok()
});

/// Where another address begins in a list.
static NEXT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?i),\s*https?://").ok());

/// Hides all of an address of the web but scheme, host and port.
#[must_use]
pub fn address(text: &str) -> Cow<'_, str> {
    // Line breaks and tabs do not count in an address, wherever they stand.
    let plain = text.replace(['\t', '\n', '\r'], "");
    let Some(pattern) = ADDRESS.as_ref().filter(|it| it.is_match(&plain)) else {
        return Cow::Borrowed(text);
    };
    let shown: String = items(&plain)
        .map(|item| pattern.replace_all(item, shown))
        .collect();
    match shown == plain {
        true => Cow::Borrowed(text),
        false => Cow::Owned(shown),
    }
}

/// The items of a list of addresses, each with the comma before it.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let begins = NEXT.iter().flat_map(|next| next.find_iter(text));
    let begins: Vec<usize> = begins.map(|it| it.start()).collect();
    let ends: Vec<usize> = begins.iter().copied().chain([text.len()]).collect();
    let begins = [0].into_iter().chain(begins);
    begins.zip(ends).map(|(begin, end)| &text[begin..end])
}

fn shown(address: &Captures<'_>) -> String {
    let part = |name: &str| address.name(name).map_or("", |it| it.as_str());
    let (scheme, host, rest) = (part("scheme"), part("host"), part("rest"));
    // A password with a slash in it: what looks like the host is the user.
    if host.contains(':') && rest.contains('@') {
        return format!("{scheme}{HIDDEN}");
    }
    let user = match part("user") {
        "" => String::new(),
        _ => format!("{HIDDEN}@"),
    };
    let rest = match rest {
        "" | "/" => rest.to_owned(),
        _ => format!("/{HIDDEN}"),
    };
    format!("{scheme}{user}{host}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scheme_host_and_port_are_shown() {
        for (text, expected) in [
            (
                "https://hooks.example/T0/hush",
                "https://hooks.example/[hidden]",
            ),
            ("http://h:8080?code=hush", "http://h:8080/[hidden]"),
            ("http://h#hush", "http://h/[hidden]"),
            ("HTTPS://H/${topic}/hush", "HTTPS://H/[hidden]"),
            ("https://alice:hush@h/x", "https://[hidden]@h/[hidden]"),
            ("https://alice:hush@h", "https://[hidden]@h"),
            ("https://h/?to=a@hush", "https://h/[hidden]"),
            ("https://alice:hu/sh@h/x", "https://[hidden]"),
            ("https://[::1]:80/hush", "https://[::1]:80/[hidden]"),
            ("https:\\\\h\\hush", "https:\\\\h/[hidden]"),
            ("https:h/hush", "https:h/[hidden]"),
            ("ht\ntps://h/hu\tsh", "https://h/[hidden]"),
            ("https://h/with space/hush", "https://h/[hidden]"),
            ("https://h/a,hush", "https://h/[hidden]"),
            ("see http://h/hush, hush", "see http://h/[hidden]"),
            (
                "http://a:1/hush,https://b/hush",
                "http://a:1/[hidden],https://b/[hidden]",
            ),
        ] {
            assert_eq!(address(text), expected, "{text}");
        }
    }

    #[test]
    fn what_hides_nothing_is_left_as_it_is() {
        for text in [
            "http://registry:8081",
            "http://registry:8081/",
            "http://a:8081,http://b:8081",
            "kafka-1:9092,kafka-2:9092",
            "/var/lib/http/x",
            "postgres://db:5432/orders",
            "line\nbreak",
            "",
        ] {
            assert!(
                matches!(address(text), Cow::Borrowed(it) if it == text),
                "{text}"
            );
        }
    }
}
