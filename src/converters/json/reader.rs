//! A pull parser for JSON text: no tree, strings as slices of the payload,
//! numbers as their own text.
//!
//! It reads what Connect's parser reads (leading zeros too), except that text
//! behind the value is an error here, not dropped. Nesting, and with it the
//! stack, is bounded.

use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;

use super::error::{JsonError, Result};
use crate::converters::decimal::MAX_DIGITS;
use crate::converters::string::utf8;

/// How deep arrays and objects may lie in each other; Connect's limit.
pub(super) const MAX_DEPTH: usize = 1000;

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// What the next value is, told by its first character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl Shape {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

/// A number as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberText<'a> {
    pub(super) text: &'a str,
    /// Neither point nor exponent.
    pub(super) integral: bool,
}

pub(super) struct Reader<'a> {
    source: &'a ByteString,
    at: usize,
    depth: usize,
}

/// The payload as text, or where it stops being UTF-8.
pub(super) fn text_of(bytes: &Bytes) -> Result<ByteString> {
    utf8(bytes).map_err(|at| JsonError::at(at, "the bytes are not UTF-8"))
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a ByteString) -> Self {
        let at = if source.starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        Self {
            source,
            at,
            depth: 0,
        }
    }

    /// A reader of the same text from another place on; `at` must be one that
    /// [`Self::position`] gave.
    pub(super) const fn again_from(&self, at: usize) -> Self {
        Self {
            source: self.source,
            at,
            depth: self.depth,
        }
    }

    pub(super) const fn position(&self) -> usize {
        self.at
    }

    pub(super) fn error(&self, message: impl Into<Cow<'static, str>>) -> JsonError {
        JsonError::at(self.at, message)
    }

    /// Whether nothing but white space is left.
    pub(super) fn at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.source.len()
    }

    /// What comes next; also moves to where it begins.
    pub(super) fn peek(&mut self) -> Result<Shape> {
        self.skip_space();
        match self.byte() {
            Some(b'"') => Ok(Shape::String),
            Some(b'{') => Ok(Shape::Object),
            Some(b'[') => Ok(Shape::Array),
            Some(b'-' | b'0'..=b'9') => Ok(Shape::Number),
            Some(b't' | b'f') => Ok(Shape::Boolean),
            Some(b'n') => Ok(Shape::Null),
            Some(_) => Err(self.error("expected a JSON value")),
            None => Err(self.error("expected a JSON value, found the end")),
        }
    }

    pub(super) fn null(&mut self) -> Result<()> {
        self.word("null")
    }

    pub(super) fn boolean(&mut self) -> Result<bool> {
        if self.byte() == Some(b't') {
            self.word("true").map(|()| true)
        } else {
            self.word("false").map(|()| false)
        }
    }

    pub(super) fn number(&mut self) -> Result<NumberText<'a>> {
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        self.digits()?;
        let mut integral = true;
        if self.byte() == Some(b'.') {
            integral = false;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            integral = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.source[start..self.at];
        if text.len() > MAX_DIGITS {
            let message = format!("a number of more than {MAX_DIGITS} characters");
            return Err(JsonError::at(start, message));
        }
        Ok(NumberText { text, integral })
    }

    /// A string; borrowed unless it has escapes.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>> {
        self.expect(b'"', "expected a string")?;
        let start = self.at;
        self.plain_run()?;
        let plain = &self.source[start..self.at];
        if self.byte() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(plain));
        }
        self.escaped(plain.to_owned()).map(Cow::Owned)
    }

    /// A string as a value: a slice of the payload unless it has escapes.
    pub(super) fn shared_string(&mut self) -> Result<ByteString> {
        let text = self.string()?;
        Ok(self.share(text))
    }

    pub(super) fn share(&self, text: Cow<'a, str>) -> ByteString {
        match text {
            Cow::Borrowed(part) => self.source.slice_ref(part),
            Cow::Owned(text) => ByteString::from(text),
        }
    }

    /// An array; `element` must read exactly one value.
    pub(super) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.enter()?;
        if !self.closes(b']') {
            loop {
                element(self)?;
                if self.closes(b']') {
                    break;
                }
                self.expect(b',', "expected a comma or the end of the array")?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// An object; `member` gets each name and must read exactly one value.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        self.enter()?;
        if !self.closes(b'}') {
            loop {
                self.skip_space();
                let name = self.string()?;
                self.skip_space();
                self.expect(b':', "expected a colon")?;
                member(self, name)?;
                if self.closes(b'}') {
                    break;
                }
                self.expect(b',', "expected a comma or the end of the object")?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Any value, checked but not kept.
    pub(super) fn skip(&mut self) -> Result<()> {
        match self.peek()? {
            Shape::Null => self.null(),
            Shape::Boolean => self.boolean().map(drop),
            Shape::Number => self.number().map(drop),
            Shape::String => self.string().map(drop),
            Shape::Array => self.array(Self::skip),
            Shape::Object => self.object(|reader, _| reader.skip()),
        }
    }

    /// What is still to be read.
    pub(super) fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Passes over a value whose length is known.
    pub(super) fn pass(&mut self, length: usize) {
        self.at += length;
    }

    /// The text between two places that [`Self::position`] gave.
    pub(super) fn text_between(&self, start: usize, end: usize) -> &'a str {
        &self.source[start..end]
    }

    /// Nothing may follow but white space.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.at_end() {
            return Ok(());
        }
        Err(self.error("text behind the JSON value"))
    }

    fn byte(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8, message: &'static str) -> Result<()> {
        if self.byte() != Some(byte) {
            return Err(self.error(message));
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> Result<()> {
        if !self.source.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error("expected true, false or null"));
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.error("expected a digit"));
        }
        Ok(())
    }

    fn enter(&mut self) -> Result<()> {
        if self.depth == MAX_DEPTH {
            let message = format!("arrays and objects lie more than {MAX_DEPTH} deep");
            return Err(self.error(message));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn closes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let closes = self.byte() == Some(byte);
        self.at += usize::from(closes);
        closes
    }

    /// Moves to the next quote or backslash. Both are ASCII, so every place
    /// where this stops is a character boundary.
    fn plain_run(&mut self) -> Result<()> {
        let rest = &self.source.as_bytes()[self.at..];
        let stop = rest
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
        self.at += stop.unwrap_or(rest.len());
        match self.byte() {
            Some(b'"' | b'\\') => Ok(()),
            Some(_) => Err(self.error("a control character in a string must be escaped")),
            None => Err(self.error("a string without its closing quote")),
        }
    }

    fn escaped(&mut self, mut text: String) -> Result<String> {
        loop {
            if self.byte() == Some(b'"') {
                self.at += 1;
                return Ok(text);
            }
            text.push(self.escape()?);
            let start = self.at;
            self.plain_run()?;
            text.push_str(&self.source[start..self.at]);
        }
    }

    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        self.at += 1;
        let letter = self.byte();
        self.at += 1;
        let character = match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(start),
            _ => return Err(JsonError::at(start, "an unknown escape in a string")),
        };
        Ok(character)
    }

    /// One or, for characters beyond 16 bits, two `\u` escapes.
    fn unicode(&mut self, start: usize) -> Result<char> {
        let high = self.hex(start)?;
        let code = match high {
            0xd800..=0xdbff if self.source[self.at..].starts_with("\\u") => {
                self.at += 2;
                let low = self.hex(start)?;
                match low {
                    0xdc00..=0xdfff => 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00),
                    _ => high,
                }
            }
            _ => high,
        };
        char::from_u32(code)
            .ok_or_else(|| JsonError::at(start, "half of a surrogate pair is no character"))
    }

    fn hex(&mut self, start: usize) -> Result<u32> {
        let wrong = || JsonError::at(start, "\\u needs four hexadecimal digits");
        let digits = self
            .source
            .as_bytes()
            .get(self.at..self.at + 4)
            .ok_or_else(wrong)?;
        let mut code = 0;
        for digit in digits {
            let value = char::from(*digit).to_digit(16).ok_or_else(wrong)?;
            code = code * 16 + value;
        }
        self.at += 4;
        Ok(code)
    }
}
