//! Patterns and replacements with Java's meaning, or a refusal: a pattern
//! that means something else here than in Connect is no help.

use regex::{Captures, Regex};
use regex_syntax::ast::{self, Ast, Flag, FlagsItemKind, GroupKind, Visitor};
use regex_syntax::hir::translate::Translator;

use crate::config::definition::Reader;

/// A pattern of whole names.
pub(super) struct Pattern {
    whole: Regex,
    /// Java matches the whole, but replaces what it finds first.
    first: Regex,
}

/// A text with references to a pattern's groups.
pub(super) struct Replacement(Vec<Piece>);

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Group(usize),
}

impl Pattern {
    /// Reads a key's pattern; `None` with a fault, or if it is not set.
    pub(super) fn read(reader: &mut Reader<'_>, key: &'static str) -> Option<Self> {
        let text = reader.text(key);
        if text.is_empty() {
            // A missing one was told by the reader.
            return None;
        }
        Self::compile(&text)
            .map_err(|problem| reader.fault(key, problem))
            .ok()
    }

    fn compile(text: &str) -> Result<Self, String> {
        let refusal = |reason: String| {
            format!("is not a regular expression that is understood here: {reason}")
        };
        let tree = ast::parse::Parser::new().parse(text);
        let tree = tree.map_err(|error| refusal(error.kind().to_string()))?;
        ast::visit(&tree, Differences).map_err(|reason| refusal(reason.to_owned()))?;
        let meaning = Translator::new().translate(text, &tree);
        meaning.map_err(|error| refusal(error.kind().to_string()))?;
        let compile = |text: &str| Regex::new(text).map_err(|_| refusal("it is too large".into()));
        Ok(Self {
            first: compile(text)?,
            whole: compile(&format!(r"\A(?:{text})\z"))?,
        })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.whole.is_match(text)
    }

    /// The text after replacing, if the pattern matches all of it.
    pub(super) fn replace(&self, text: &str, replacement: &Replacement) -> Option<String> {
        if !self.matches(text) {
            return None;
        }
        let found = self.first.captures(text)?;
        let range = found.get(0)?.range();
        let mut replaced = text[..range.start].to_owned();
        replacement.append(&found, &mut replaced);
        replaced.push_str(&text[range.end..]);
        Some(replaced)
    }

    /// Parses a replacement for this pattern: `$1`, `${name}`, `\` before what
    /// is to be taken as it stands.
    pub(super) fn replacement(&self, text: &str) -> Result<Replacement, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            match character {
                '\\' => {
                    let literal = rest.next();
                    plain.push(literal.ok_or(r"ends with a \; write \\ for one")?);
                }
                '$' => {
                    let group = self.group(&mut rest)?;
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Group(group));
                }
                other => plain.push(other),
            }
        }
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Replacement(pieces))
    }

    /// The group that stands behind a `$`.
    fn group(&self, rest: &mut std::str::Chars<'_>) -> Result<usize, String> {
        if let Some(named) = rest.as_str().strip_prefix('{') {
            let (name, after) = named
                .split_once('}')
                .ok_or("has a ${ without its }; write \\$ for a dollar sign")?;
            *rest = after.chars();
            let mut names = self.first.capture_names();
            return names
                .position(|it| it == Some(name))
                .ok_or_else(|| format!("names group {name:?}, which the pattern does not have"));
        }
        let digit = |rest: &std::str::Chars<'_>| {
            let next = rest.clone().next()?;
            next.to_digit(10).map(|digit| digit as usize)
        };
        let groups = self.first.captures_len() - 1;
        let mut group = digit(rest).ok_or("has a $ without a group; write \\$ for one")?;
        rest.next();
        if group > groups {
            return Err(format!(
                "refers to group {group}, but the pattern has {groups}"
            ));
        }
        // Java takes as many digits as still name a group.
        while let Some(next) = digit(rest).map(|digit| group * 10 + digit)
            && next <= groups
        {
            group = next;
            rest.next();
        }
        Ok(group)
    }
}

impl Replacement {
    fn append(&self, found: &Captures<'_>, text: &mut String) {
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                // A group that took no part stands for nothing.
                Piece::Group(group) => {
                    text.push_str(found.get(*group).map_or("", |it| it.as_str()));
                }
            }
        }
    }
}

/// Finds what both sides take and understand differently.
struct Differences;

impl Visitor for Differences {
    type Output = ();
    type Err = &'static str;

    fn finish(self) -> Result<(), Self::Err> {
        Ok(())
    }

    fn visit_pre(&mut self, tree: &Ast) -> Result<(), Self::Err> {
        let flags = match tree {
            Ast::Repetition(outer) if matches!(*outer.ast, Ast::Repetition(_)) => {
                return Err("possessive quantifiers (a + behind a quantifier) are not supported");
            }
            Ast::Flags(set) => &set.flags,
            Ast::Group(group) => match &group.kind {
                GroupKind::NonCapturing(flags) => flags,
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        // Java's U is about Unicode.
        let swaps = FlagsItemKind::Flag(Flag::SwapGreed);
        if flags.items.iter().any(|item| item.kind == swaps) {
            return Err("the flag U is not supported");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::compile(text).unwrap()
    }

    fn replaced(regex: &str, replacement: &str, topic: &str) -> Option<String> {
        let pattern = pattern(regex);
        let replacement = pattern.replacement(replacement).unwrap();
        pattern.replace(topic, &replacement)
    }

    #[test]
    fn a_pattern_is_of_the_whole_name() {
        assert!(pattern("orders|refunds").matches("refunds"));
        for topic in ["my-orders", "orders-eu", "orders\n"] {
            assert!(!pattern("orders|refunds").matches(topic), "{topic}");
        }
    }

    #[test]
    fn groups_are_referred_to_by_number_or_name() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(replaced("(?<who>.*)-(.*)", "$2.${who}", "a-b"), some("b.a"));
        assert_eq!(replaced("a(b)?c", "x$1y", "ac"), some("xy"));
        assert_eq!(replaced("(a)", "$12", "a"), some("a2"), "there is no 12");
        assert_eq!(replaced("a", r"\$1\\", "a"), some(r"$1\"));
        assert_eq!(replaced("(a)", "$1", "b"), None);
    }

    /// Java matches the whole, then replaces what it finds first.
    #[test]
    fn the_first_match_is_replaced_though_the_whole_must_match() {
        assert_eq!(replaced("a|ab", "x", "ab"), Some("xb".to_owned()));
    }

    #[test]
    fn a_replacement_that_java_would_fail_on_is_refused() {
        for (replacement, problem) in [
            ("$2", "refers to group 2, but the pattern has 1"),
            ("${no}", "names group \"no\""),
            ("$x", "has a $ without a group"),
            ("$", "has a $ without a group"),
            ("${who", "has a ${ without its }"),
            ("\\", "ends with a \\"),
        ] {
            let Err(message) = pattern("(?<who>.*)").replacement(replacement) else {
                panic!("{replacement} was taken");
            };
            assert!(message.starts_with(problem), "{message}");
        }
    }

    #[test]
    fn what_cannot_be_understood_or_means_something_else_is_refused() {
        for (regex, reason) in [
            ("(?=x)y", "look-around"),
            (r"(a)\1", "backreferences"),
            (".*+x", "possessive quantifiers"),
            ("a{2}+", "possessive quantifiers"),
            ("(?U)a", "the flag U"),
            ("(?U:a)", "the flag U"),
            ("a)|(b", "unopened group"),
            (r"\Qa\E", "escape"),
            (r"\p{javaLowerCase}", "property not found"),
        ] {
            let Err(message) = Pattern::compile(regex) else {
                panic!("{regex} was taken");
            };
            assert!(message.contains(reason), "{regex}: {message}");
            assert!(!message.contains(regex), "{regex}: {message}");
        }
    }
}
