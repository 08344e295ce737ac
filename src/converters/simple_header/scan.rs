//! Lists `[1,2]` and maps `{"a":1}` in a header's text. One pass: where the
//! text is no list or map after all, the whole of it is text.

use ahash::AHashMap;
use bytestring::ByteString;
use sluice_actors::value::{Datum, Value};

use super::common::{list_of, map_of};
use super::scalar;
use super::schemas;
use super::temporal::{self, TIME_LENGTH, TIMESTAMP_LENGTH};

/// How deep lists and maps may lie in each other; deeper is text.
const MAX_DEPTH: usize = 100;

/// What a word of a list or map ends at. A backslash is in none.
const DELIMITERS: [char; 8] = [',', ':', '[', ']', '{', '}', '"', '\\'];

pub(super) fn infer(text: &ByteString) -> Datum {
    let trimmed = text.trim_matches(is_space);
    let guess = if trimmed.starts_with(['[', '{']) {
        Scanner::new(text, trimmed).whole()
    } else {
        scalar::infer(trimmed)
    };
    guess.unwrap_or_else(|| string(text.clone()))
}

/// What Java trims.
const fn is_space(character: char) -> bool {
    character <= ' '
}

fn string(text: ByteString) -> Datum {
    Datum::with_schema(schemas::string(), Value::String(text))
}

struct Scanner<'a> {
    source: &'a ByteString,
    rest: &'a str,
    depth: usize,
}

impl<'a> Scanner<'a> {
    const fn new(source: &'a ByteString, rest: &'a str) -> Self {
        Self {
            source,
            rest,
            depth: 0,
        }
    }

    fn whole(&mut self) -> Option<Datum> {
        let value = self.value()?;
        self.rest.is_empty().then_some(value)
    }

    fn value(&mut self) -> Option<Datum> {
        self.skip_space();
        if self.takes('"') {
            return self.quoted();
        }
        if self.takes('[') {
            return self.deeper(Self::list);
        }
        if self.takes('{') {
            return self.deeper(Self::map);
        }
        self.moment().or_else(|| self.word())
    }

    /// The text between quotes as it stands, escapes and all, as in Connect;
    /// a date or time in quotes is one.
    fn quoted(&mut self) -> Option<Datum> {
        let mut escaped = false;
        let end = self.rest.find(|character| {
            let closes = character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            closes
        })?;
        let text = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Some(temporal::parse(text).unwrap_or_else(|| string(self.source.slice_ref(text))))
    }

    /// A time or timestamp: the colons in it part nothing.
    fn moment(&mut self) -> Option<Datum> {
        for length in [TIMESTAMP_LENGTH, TIME_LENGTH] {
            if let Some((text, rest)) = self.rest.split_at_checked(length)
                && let Some(moment) = temporal::parse(text)
            {
                self.rest = rest;
                return Some(moment);
            }
        }
        None
    }

    fn word(&mut self) -> Option<Datum> {
        let end = self.rest.find(DELIMITERS)?;
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        scalar::infer(word.trim_matches(is_space))
    }

    fn deeper(&mut self, read: fn(&mut Self) -> Option<Datum>) -> Option<Datum> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Some(value)
    }

    fn list(&mut self) -> Option<Datum> {
        let mut elements = Vec::new();
        while !self.closes(']') {
            elements.push(self.value()?);
            self.parted(']')?;
        }
        list_of(elements)
    }

    fn map(&mut self) -> Option<Datum> {
        let mut entries: Vec<(Datum, Datum)> = Vec::new();
        let mut places = AHashMap::new();
        while !self.closes('}') {
            let before = self.rest;
            let key = self.value()?;
            let key_text = before[..before.len() - self.rest.len()].trim_matches(is_space);
            self.skip_space();
            if !self.takes(':') {
                return None;
            }
            let value = self.value()?;
            match places.insert(key_text, entries.len()) {
                Some(place) => {
                    places.insert(key_text, place);
                    entries[place].1 = value;
                }
                None => entries.push((key, value)),
            }
            self.parted('}')?;
        }
        map_of(entries)
    }

    /// After an element: a comma, or the end.
    fn parted(&mut self, close: char) -> Option<()> {
        self.skip_space();
        (self.takes(',') || self.rest.starts_with(close)).then_some(())
    }

    fn closes(&mut self, close: char) -> bool {
        self.skip_space();
        self.takes(close)
    }

    fn takes(&mut self, character: char) -> bool {
        let rest = self.rest.strip_prefix(character);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }
}
