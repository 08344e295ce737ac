//! `topics.regex`: a Java pattern, matched as Connect does it, against the
//! whole name.

use regex::Regex;

/// Why a pattern is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error(
        "{pattern:?} uses {construct}, which this service's patterns do not have; write it \
         without, or list the topics in `topics`"
    )]
    Unsupported {
        pattern: String,
        construct: &'static str,
    },
    #[error("{pattern:?} is not a pattern: {cause}")]
    Invalid { pattern: String, cause: String },
}

/// Picks topics by name.
#[derive(Clone, Debug)]
pub struct TopicPattern {
    text: String,
    whole: Regex,
}

impl TopicPattern {
    /// # Errors
    /// Syntax that is wrong, or that would mean something else here than in
    /// Java.
    pub fn compile(pattern: &str) -> Result<Self, PatternError> {
        if let Some(construct) = foreign_construct(pattern) {
            return Err(PatternError::Unsupported {
                pattern: pattern.to_owned(),
                construct,
            });
        }
        // Compiled alone first: a stray parenthesis must not pair up with ours.
        let invalid = |error: regex::Error| PatternError::Invalid {
            pattern: pattern.to_owned(),
            cause: last_line(&error.to_string()),
        };
        Regex::new(pattern).map_err(invalid)?;
        let whole = Regex::new(&format!(r"\A(?:{pattern})\z")).map_err(invalid)?;
        Ok(Self {
            text: pattern.to_owned(),
            whole,
        })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Internal topics (`__consumer_offsets` and the like) are never meant.
    #[must_use]
    pub fn picks(&self, topic: &str) -> bool {
        !topic.starts_with("__") && self.whole.is_match(topic)
    }
}

/// What Java reads otherwise than the `regex` crate: constructs that the crate
/// lacks get their proper name, and those that it would take in another
/// meaning are found at all.
fn foreign_construct(pattern: &str) -> Option<&'static str> {
    let mut rest = pattern;
    let mut class_depth = 0_usize;
    while let Some(first) = rest.chars().next() {
        let in_class = class_depth > 0;
        if let Some(found) = foreign_start(rest, in_class) {
            return Some(found);
        }
        match first {
            '[' => class_depth += 1,
            ']' => class_depth = class_depth.saturating_sub(1),
            _ => {}
        }
        let step = if first == '\\' {
            1 + rest[1..].chars().next().map_or(0, char::len_utf8)
        } else {
            first.len_utf8()
        };
        rest = &rest[step..];
    }
    None
}

fn foreign_start(rest: &str, in_class: bool) -> Option<&'static str> {
    const ANYWHERE: [(&str, &str); 1] = [(r"\Q", r"a quotation (\Q...\E)")];
    const OUTSIDE: [(&str, &str); 10] = [
        ("(?=", "look-ahead"),
        ("(?!", "look-ahead"),
        ("(?<=", "look-behind"),
        ("(?<!", "look-behind"),
        ("(?>", "an atomic group"),
        (r"\k<", "a back-reference"),
        ("*+", "a possessive quantifier"),
        ("++", "a possessive quantifier"),
        ("?+", "a possessive quantifier"),
        ("}+", "a possessive quantifier"),
    ];
    const INSIDE: [(&str, &str); 3] = [
        ("--", "-- in a character class"),
        ("~~", "~~ in a character class"),
        ("[:", "[: in a character class"),
    ];
    let here: &[(&str, &str)] = if in_class { &INSIDE } else { &OUTSIDE };
    let listed = ANYWHERE
        .iter()
        .chain(here)
        .find(|(start, _)| rest.starts_with(start));
    if let Some((_, construct)) = listed {
        return Some(construct);
    }
    let reference = !in_class
        && rest
            .strip_prefix('\\')
            .is_some_and(|after| after.starts_with(|one: char| ('1'..='9').contains(&one)));
    reference.then_some("a back-reference")
}

/// The crate draws the pattern with a marker below; its last line says why.
fn last_line(text: &str) -> String {
    let line = text.lines().last().unwrap_or(text);
    line.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(pattern: &str, topic: &str) -> bool {
        TopicPattern::compile(pattern).unwrap().picks(topic)
    }

    #[test]
    fn whole_name_must_match_as_in_connect() {
        assert!(picks("orders", "orders"));
        assert!(!picks("orders", "orders.eu"));
        assert!(!picks("orders", "my.orders"));
        assert!(
            picks("o|orders", "orders"),
            "the longer branch is tried as well"
        );
        assert!(picks(r"orders\..+", "orders.eu"));
        assert!(picks("(?i)ORDERS", "orders"));
        assert!(picks("[a-z&&[^b]]+", "acd") && !picks("[a-z&&[^b]]+", "abc"));
    }

    #[test]
    fn internal_topics_are_never_picked() {
        assert!(!picks(".*", "__consumer_offsets"));
        assert!(picks(".*", "_private"));
    }

    #[test]
    fn java_syntax_without_a_counterpart_is_refused_by_name() {
        for (pattern, construct) in [
            ("(?!test).*", "look-ahead"),
            (".*(?<=eu)", "look-behind"),
            ("(?>a|ab)c", "an atomic group"),
            (r"(a)\1", "a back-reference"),
            (r"(?<x>a)\k<x>", "a back-reference"),
            ("a++b", "a possessive quantifier"),
            ("a{2}+", "a possessive quantifier"),
            (r"\Qa.b\E", r"a quotation (\Q...\E)"),
            ("[a-c--]", "-- in a character class"),
            ("[[:alpha:]]", "[: in a character class"),
        ] {
            let error = TopicPattern::compile(pattern).unwrap_err();
            let expected = PatternError::Unsupported {
                pattern: pattern.to_owned(),
                construct,
            };
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn escaped_and_classed_signs_are_not_taken_for_constructs() {
        assert!(picks(r"a\++", "a++"));
        assert!(picks("[*+]+b", "*+b"));
        assert!(picks(r"\\1", r"\1"));
        assert!(picks("(?<name>a)", "a"));
        assert!(picks("é", "é"));
    }

    #[test]
    fn wrong_syntax_is_told_in_one_line() {
        for pattern in ["orders(", "a)(b", "[a", "*", r"\"] {
            let text = TopicPattern::compile(pattern).unwrap_err().to_string();
            assert!(text.contains("is not a pattern: "), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }
}
