//! The ways in which an endpoint may write a text that it repeats: as it is,
//! and escaped for JSON, HTML or an address, sign by sign.

use std::fmt::Write as _;

/// The length of `secret` where `text` begins with it, however each of its
/// signs is written.
pub(super) fn length_of(secret: &str, text: &str) -> Option<usize> {
    let mut signs = secret.chars();
    // A sign may be written in several ways at once: a % is one, and begins
    // another. So all places are followed where the next one may begin.
    let mut ends = steps(signs.next()?, text);
    for sign in signs {
        let mut next: Vec<usize> = Vec::new();
        for end in ends {
            next.extend(steps(sign, &text[end..]).iter().map(|step| end + step));
        }
        next.sort_unstable();
        next.dedup();
        ends = next;
        if ends.is_empty() {
            return None;
        }
    }
    ends.last().copied()
}

/// How far `text` goes with the sign that it begins with.
fn steps(sign: char, text: &str) -> Vec<usize> {
    let mut steps = Vec::new();
    if text.starts_with(sign) {
        steps.push(sign.len_utf8());
    }
    let escaped = match text.as_bytes().first() {
        Some(b'\\') => in_json(sign, text),
        Some(b'&') => in_html(sign, text),
        Some(b'%') => in_address(sign, text),
        Some(b'+') if sign == ' ' => Some(1),
        _ => None,
    };
    steps.extend(escaped);
    steps
}

/// `\/`, `\"`, `\u0026`; after several backslashes in JSON that is a text in
/// another.
fn in_json(sign: char, text: &str) -> Option<usize> {
    let rest = text.trim_start_matches('\\');
    let backslashes = text.len() - rest.len();
    if sign == '\\' {
        return (backslashes > 1).then_some(2);
    }
    if sign.is_ascii_punctuation() && rest.starts_with(sign) {
        return Some(backslashes + 1);
    }
    let mut units = [0; 2];
    let mut code = String::new();
    for unit in sign.encode_utf16(&mut units) {
        // Writing to a text cannot fail.
        let _ = write!(code, "u{unit:04x}\\");
    }
    let code = code.trim_end_matches('\\');
    starts_alike(rest, code).then_some(backslashes + code.len())
}

/// `&amp;`, `&#38;`, `&#x26;`.
fn in_html(sign: char, text: &str) -> Option<usize> {
    let body = &text[1..];
    let end = body.find(';')?;
    let name = &body[..end];
    let is_it = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            code == Ok(u32::from(sign))
        }
        None => matches!(
            (name, sign),
            ("amp", '&') | ("lt", '<') | ("gt", '>') | ("quot", '"') | ("apos", '\'')
        ),
    };
    is_it.then_some(end + 2)
}

/// `%2F`, `%2f`.
fn in_address(sign: char, text: &str) -> Option<usize> {
    let mut bytes = [0; 4];
    let mut code = String::new();
    for byte in sign.encode_utf8(&mut bytes).bytes() {
        let _ = write!(code, "%{byte:02x}");
    }
    starts_alike(text, &code).then_some(code.len())
}

fn starts_alike(text: &str, code: &str) -> bool {
    text.get(..code.len())
        .is_some_and(|begins| begins.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_known_in_every_way_of_writing_it() {
        let secret = "a/b \"c\" <d>&e+%\\'\u{e4}\u{1f600}";
        for text in [
            secret.to_owned(),
            serde_json::json!(secret)
                .to_string()
                .trim_matches('"')
                .to_owned(),
            r#"a\/b \"c\" \u003cd\u003E\u0026e+%\\\u0027\u00e4\uD83D\ude00"#.to_owned(),
            "a&#47;b &quot;c&quot; &lt;d&gt;&amp;e&#43;%\\&#39;&#xE4;&#128512;".to_owned(),
            "a%2fb%20%22c%22+%3Cd%3e%26e%2B%25%5C%27%c3%A4%F0%9f%98%80".to_owned(),
            // A JSON text in another.
            "a\\\\\\/b \\\\\\\"c\\\\\\\" <d>\\\\u0026e+%\\\\'\u{e4}\u{1f600}".to_owned(),
        ] {
            let longer = format!("{text} and more");
            assert_eq!(length_of(secret, &longer), Some(text.len()), "{text}");
        }
    }

    #[test]
    fn another_text_is_not() {
        for text in [
            "", "a", "a/", "a-b", "a%2", "a%2Gb", "a\\u002", "a&#47b", "a&lt;b", "x a/b",
        ] {
            assert_eq!(length_of("a/b", text), None, "{text}");
        }
    }

    #[test]
    fn what_begins_an_escape_may_stand_for_itself() {
        for secret in ["a%26b", "a&amp;b", "a\\u0026b", "a+b"] {
            assert_eq!(length_of(secret, secret), Some(secret.len()), "{secret}");
        }
        assert_eq!(length_of("%%%%", "%%25%%25"), Some(8));
    }
}
