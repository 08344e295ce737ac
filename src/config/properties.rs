//! Java's `.properties` syntax.

use std::iter::Peekable;
use std::str::Chars;

use super::definition::Properties;

/// Reads a whole file. Of a key that stands twice the last counts, as in Java.
/// Errors name the line.
pub(super) fn parse(text: &str) -> Result<Properties, String> {
    let mut properties = Properties::new();
    for line in logical_lines(text) {
        let (key, value) =
            split(&line.text).map_err(|message| format!("line {}: {message}", line.number))?;
        properties.insert(key, value);
    }
    Ok(properties)
}

/// A line with its continuations, and where it begins.
struct LogicalLine {
    number: usize,
    text: String,
}

/// Lines without comments and blank ones; a backslash at the end joins the
/// next line, whose indentation goes.
fn logical_lines(text: &str) -> Vec<LogicalLine> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = Vec::new();
    let mut open: Option<LogicalLine> = None;
    for (place, natural) in text.split('\n').enumerate() {
        let content = natural.trim_start_matches(is_blank);
        let mut line = match open.take() {
            Some(line) => line,
            None if content.is_empty() || content.starts_with(['#', '!']) => continue,
            None => LogicalLine {
                number: place + 1,
                text: String::new(),
            },
        };
        match joins_next(content) {
            Some(content) => {
                line.text.push_str(content);
                open = Some(line);
            }
            None => {
                line.text.push_str(content);
                lines.push(line);
            }
        }
    }
    lines.extend(open);
    lines
}

/// The line without its last backslash, if that one is not escaped itself.
fn joins_next(line: &str) -> Option<&str> {
    let backslashes = line.len() - line.trim_end_matches('\\').len();
    (backslashes % 2 == 1).then(|| &line[..line.len() - 1])
}

const fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\u{c}')
}

/// Key and value: parted by the first bare `=`, `:` or blank.
fn split(line: &str) -> Result<(String, String), String> {
    let mut characters = line.chars().peekable();
    let key = unescape(&mut characters, |it| is_blank(it) || it == '=' || it == ':')?;
    skip_blanks(&mut characters);
    if characters.next_if(|it| matches!(it, '=' | ':')).is_some() {
        skip_blanks(&mut characters);
    }
    let value = unescape(&mut characters, |_| false)?;
    Ok((key, value))
}

fn skip_blanks(characters: &mut Peekable<Chars<'_>>) {
    while characters.next_if(|it| is_blank(*it)).is_some() {}
}

/// Reads up to a bare character that ends it. Java's escapes are UTF-16
/// units, so that two may make one character.
fn unescape(
    characters: &mut Peekable<Chars<'_>>,
    ends: impl Fn(char) -> bool,
) -> Result<String, String> {
    let mut units: Vec<u16> = Vec::new();
    while let Some(character) = characters.next_if(|it| !ends(*it)) {
        let plain = match character {
            '\\' => match characters.next() {
                Some('u') => {
                    units.push(unit(characters)?);
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => continue,
            },
            plain => plain,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16(&units).map_err(|_| "half a character in \\u escapes".to_owned())
}

fn unit(characters: &mut Peekable<Chars<'_>>) -> Result<u16, String> {
    let mut unit = 0;
    for _ in 0..4 {
        let digit = characters.next().and_then(|it| it.to_digit(16));
        let digit = digit.ok_or("\\u is not followed by four hexadecimal digits")?;
        unit = unit * 16 + digit;
    }
    u16::try_from(unit).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap().into_iter().collect()
    }

    fn pair(text: &str) -> (String, String) {
        let mut pairs = pairs(text);
        assert_eq!(pairs.len(), 1, "{text:?}");
        pairs.remove(0)
    }

    #[test]
    fn every_separator_parts_key_and_value() {
        for text in [
            "a.b=c d",
            "a.b:c d",
            "a.b c d",
            "  a.b \t=  c d",
            "a.b\t:c d",
        ] {
            assert_eq!(pair(text), ("a.b".into(), "c d".into()), "{text:?}");
        }
        assert_eq!(pair("a==b"), ("a".into(), "=b".into()));
        assert_eq!(pair("a"), ("a".into(), String::new()));
    }

    #[test]
    fn comments_and_blank_lines_say_nothing() {
        assert_eq!(
            pairs("# a=1\n  ! b=2\n\n \t\nc=3 # not a comment\r\nd=4\re=5").len(),
            3
        );
        assert_eq!(pair("c=3 # four").1, "3 # four");
    }

    #[test]
    fn a_backslash_at_the_end_joins_lines() {
        assert_eq!(
            pair("topics = a,\\\n    b,\\\n    c"),
            ("topics".into(), "a,b,c".into())
        );
        // A comment sign in a continuation belongs to the value.
        assert_eq!(pair("a = b\\\n  #c").1, "b#c");
        // An escaped backslash joins nothing.
        assert_eq!(pairs("a = b\\\\\nc = d").len(), 2);
    }

    #[test]
    fn escapes_are_javas() {
        assert_eq!(
            pair(r"a\=b\:c\ d=\t\u00e9\ud83d\ude00\q"),
            ("a=b:c d".into(), "\té😀q".into())
        );
        assert_eq!(pair(r"path=C:\\data").1, r"C:\data");
    }

    #[test]
    fn a_broken_escape_names_its_line() {
        assert_eq!(
            parse("a=1\n\nb=\\u12").unwrap_err(),
            "line 3: \\u is not followed by four hexadecimal digits"
        );
        assert!(
            parse("a=\\ud83d")
                .unwrap_err()
                .starts_with("line 1: half a character")
        );
    }

    #[test]
    fn of_a_key_that_stands_twice_the_last_counts() {
        assert_eq!(pair("a=1\na=2").1, "2");
    }
}
