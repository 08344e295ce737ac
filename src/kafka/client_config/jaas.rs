//! `sasl.jaas.config`: a login module, a flag, options, a semicolon.
//!
//! Errors never repeat the text: it holds a password.

use std::collections::BTreeMap;

use crate::config::definition::Secret;

/// One login module with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    /// The module's class name without its package.
    pub(super) module: String,
    /// Any of them may be a secret.
    options: BTreeMap<String, Secret>,
}

impl Login {
    /// An option that is there and not empty.
    pub(super) fn option(&self, name: &str) -> Option<&Secret> {
        self.options.get(name).filter(|it| !it.reveal().is_empty())
    }

    pub(super) fn options(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.options
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }
}

pub(super) fn parse(text: &str) -> Result<Login, String> {
    let mut words = words(text)?.into_iter();
    let class = words
        .next()
        .filter(|it| it.is_name())
        .ok_or("names no login module")?;
    let module = class.text.rsplit('.').next().unwrap_or_default().to_owned();
    match words.next() {
        Some(flag) if is_flag(&flag.text) => {}
        _ => return Err("has no control flag (required) after the login module".into()),
    }
    let mut options = BTreeMap::new();
    let mut ended = false;
    while let Some(word) = words.next() {
        if word.is_sign(';') {
            ended = true;
            break;
        }
        let equals = words.next().is_some_and(|sign| sign.is_sign('='));
        let value = words.next().filter(|value| equals && value.sign.is_none());
        let value = value.ok_or(
            "has an option without a value; write name=\"value\" and end with a semicolon",
        )?;
        options.insert(word.text, Secret::new(value.text));
    }
    if !ended {
        return Err("does not end with a semicolon".into());
    }
    if words.next().is_some() {
        return Err("has more than one login module; exactly one is taken".into());
    }
    Ok(Login { module, options })
}

fn is_flag(text: &str) -> bool {
    let flags = ["required", "requisite", "sufficient", "optional"];
    flags.iter().any(|flag| flag.eq_ignore_ascii_case(text))
}

/// A bare or quoted word, or a sign (`=` or `;`).
struct Word {
    text: String,
    sign: Option<char>,
}

impl Word {
    fn is_sign(&self, sign: char) -> bool {
        self.sign == Some(sign)
    }

    const fn is_name(&self) -> bool {
        self.sign.is_none()
    }
}

fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let (text, sign) = match character {
            _ if character.is_whitespace() => continue,
            '=' | ';' => (String::new(), Some(character)),
            '"' | '\'' => (quoted(&mut characters, character)?, None),
            _ => {
                let mut bare = String::from(character);
                while let Some(next) = characters
                    .next_if(|it| !it.is_whitespace() && !matches!(it, '=' | ';' | '"' | '\''))
                {
                    bare.push(next);
                }
                (bare, None)
            }
        };
        words.push(Word { text, sign });
    }
    Ok(words)
}

/// Up to the closing quote; a backslash takes the next character as it is.
fn quoted(characters: &mut impl Iterator<Item = char>, quote: char) -> Result<String, String> {
    let mut text = String::new();
    while let Some(character) = characters.next() {
        match character {
            _ if character == quote => return Ok(text),
            '\\' => text.extend(characters.next().map(|next| match next {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            })),
            other => text.push(other),
        }
    }
    Err("has a quote that is not closed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";

    #[test]
    fn module_user_and_password_are_read() {
        let login = parse(&format!(
            "{PLAIN} required\n  username=\"alice\" password='it is; \"so\"' serviceName=kafka;"
        ))
        .unwrap();
        assert_eq!(login.module, "PlainLoginModule");
        let option = |name| login.option(name).map(Secret::reveal);
        assert_eq!(option("username"), Some("alice"));
        assert_eq!(option("password"), Some("it is; \"so\""));
        assert_eq!(option("clientId"), None);
    }

    #[test]
    fn a_backslash_quotes_inside_quotes() {
        let login = parse(r#"M required username=u password="a\"b\\c" ;"#).unwrap();
        assert_eq!(login.option("password").unwrap().reveal(), r#"a"b\c"#);
    }

    #[test]
    fn each_flaw_has_its_words_and_none_shows_the_text() {
        for (text, words) in [
            ("", "names no login module"),
            ("M username=u password=hush;", "has no control flag"),
            (
                "M required username=u password=hush",
                "does not end with a semicolon",
            ),
            (
                "M required username=\"u password=hush;",
                "has a quote that is not closed",
            ),
            (
                "M required username=u hush;",
                "has an option without a value",
            ),
            (
                "M required username=u password=hush; N required;",
                "more than one login module",
            ),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(words), "{text}: {message}");
            assert!(!message.contains("hush"), "{message}");
        }
    }

    #[test]
    fn the_password_is_not_in_the_debug_form() {
        let login = parse("M required username=u password=hush;").unwrap();
        assert!(!format!("{login:?}").contains("hush"));
    }
}
