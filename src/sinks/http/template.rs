//! The address of a record's request: a URL with `${topic}` and `${key}`.

use reqwest::Url;
use sluice_actors::record::SinkRecord;
use sluice_actors::value::{Datum, Value};

use crate::http_client::{origin, percent_encoded};
use crate::sinks::http::scrub::Secrets;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Topic,
    Key,
}

/// `http.url`, taken apart once.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pieces: Vec<Piece>,
    /// The address itself when there is nothing to fill in; else one with
    /// stand-ins, for its origin.
    sample: Url,
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let pieces = pieces(text)?;
        let sample = checked(&filled(&pieces, "x", "x"))?;
        let other = checked(&filled(&pieces, "y", "y"))?;
        if sample.origin() != other.origin() {
            return Err(
                "${topic} and ${key} may stand in path and query only, not in the host".into(),
            );
        }
        Ok(Self { pieces, sample })
    }

    pub(super) fn has_key(&self) -> bool {
        self.pieces.contains(&Piece::Key)
    }

    /// Its secrets, for whom an endpoint repeats them.
    pub(super) fn add_secrets(&self, secrets: &mut Secrets) {
        let fixed = match self.pieces.first() {
            Some(Piece::Text(text)) => Url::parse(text).ok(),
            _ => None,
        };
        let path = fixed.as_ref().map_or("", Url::path);
        secrets.add_address(path, &self.sample);
    }

    /// Whether all records have the same address.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self.pieces.as_slice(), [Piece::Text(_)])
    }

    /// Scheme, host and port: what may be said of the address in an error.
    pub(super) fn origin(&self) -> String {
        origin(&self.sample)
    }

    /// The address for a record. The error is for the person who must mend
    /// the record.
    pub(super) fn fill(&self, record: &SinkRecord) -> Result<Url, String> {
        if self.is_fixed() {
            return Ok(self.sample.clone());
        }
        let key = if self.has_key() {
            escaped(&key_text(&record.key)?, "key")?
        } else {
            String::new()
        };
        let address = filled(&self.pieces, &escaped(&record.topic, "topic")?, &key);
        Url::parse(&address).map_err(|error| format!("http.url makes no address of it: {error}"))
    }
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let push_text = |pieces: &mut Vec<Piece>, text: &str| {
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
    };
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| "has ${ without }".to_owned())?;
        push_text(&mut pieces, before);
        pieces.push(match name {
            "topic" => Piece::Topic,
            "key" => Piece::Key,
            _ => {
                return Err(format!(
                    "${{{name}}} is unknown; there are ${{topic}} and ${{key}}"
                ));
            }
        });
        rest = after;
    }
    push_text(&mut pieces, rest);
    Ok(pieces)
}

fn filled(pieces: &[Piece], topic: &str, key: &str) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Topic => topic.to_owned(),
        Piece::Key => key.to_owned(),
    };
    pieces.iter().map(text).collect()
}

/// An address that requests may go to. The text is not repeated in errors: it
/// may hold a password.
pub(super) fn checked(text: &str) -> Result<Url, String> {
    let url = Url::parse(text)
        .map_err(|error| format!("is no address ({error}); write http://HOST/PATH"))?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err(format!(
            "begins with {}:, but must with http: or https:",
            url.scheme()
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "must not hold a user; set http.authorization.type=basic, connection.user and \
             connection.password"
                .into(),
        );
    }
    if url.fragment().is_some() {
        return Err("has a fragment (#...), which is never sent; remove it".into());
    }
    Ok(url)
}

/// A key as text, if it has an obvious one.
pub(super) fn key_text(key: &Datum) -> Result<String, String> {
    match &key.value {
        Value::String(text) => Ok(text.to_string()),
        Value::Boolean(value) => Ok(value.to_string()),
        Value::Int8(number) => Ok(number.to_string()),
        Value::Int16(number) => Ok(number.to_string()),
        Value::Int32(number) => Ok(number.to_string()),
        Value::Int64(number) => Ok(number.to_string()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err("its key is no UTF-8, so ${key} of http.url has no text".into()),
        },
        Value::Null => Err("it has no key for ${key} of http.url".into()),
        _ => Err(
            "its key is neither text nor a whole number, so ${key} of http.url has no text; \
             extract a field with a transform"
                .into(),
        ),
    }
}

/// Text as one segment of a path or part of a query: it cannot lead elsewhere.
fn escaped(text: &str, what: &str) -> Result<String, String> {
    // Even escaped dots lead a folder up.
    if ["", ".", ".."].contains(&text) {
        return Err(format!(
            "its {what} is empty, \".\" or \"..\", and cannot be part of an address"
        ));
    }
    Ok(percent_encoded(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::contract::text_record;

    fn keyed(key: Value) -> SinkRecord {
        let mut record = text_record(0, "value");
        record.key = Datum::schemaless(key);
        record
    }

    fn fill(template: &str, key: &str) -> Result<String, String> {
        let template = Template::parse(template).unwrap();
        let url = template.fill(&keyed(Value::String(key.into())))?;
        Ok(url.to_string())
    }

    #[test]
    fn topic_and_key_are_filled_in_and_cannot_lead_elsewhere() {
        let template = "http://h:1/a/${topic}/${key}?id=${key}";
        assert_eq!(fill(template, "7").unwrap(), "http://h:1/a/orders/7?id=7");
        assert_eq!(
            fill(template, "../x?y#z&ä").unwrap(),
            "http://h:1/a/orders/..%2Fx%3Fy%23z%26%C3%A4?id=..%2Fx%3Fy%23z%26%C3%A4"
        );
    }

    #[test]
    fn a_key_that_makes_no_address_rejects_its_record() {
        for key in ["", ".", ".."] {
            let error = fill("http://h/${key}", key).unwrap_err();
            assert!(error.contains("its key is empty, "), "{error}");
        }
        let template = Template::parse("http://h/${key}").unwrap();
        for key in [
            Value::Null,
            Value::Bytes(vec![0xff].into()),
            Value::Array(vec![]),
        ] {
            let error = template.fill(&keyed(key)).unwrap_err();
            assert!(error.contains("${key}"), "{error}");
        }
        let number = template.fill(&keyed(Value::Int64(-9))).unwrap();
        assert_eq!(number.path(), "/-9");
    }

    #[test]
    fn without_the_key_in_it_any_key_will_do() {
        let template = Template::parse("http://h/in").unwrap();
        assert!(template.fill(&keyed(Value::Null)).is_ok());
        assert!(template.is_fixed() && !template.has_key());
        let by_topic = Template::parse("http://h/${topic}").unwrap();
        assert!(!by_topic.is_fixed() && !by_topic.has_key());
    }

    #[test]
    fn bad_addresses_are_refused_without_repeating_them() {
        for (template, says) in [
            ("", "no address"),
            ("orders", "no address"),
            ("ftp://h/", "http:"),
            ("http://alice:hush@h/", "connection.user"),
            ("http://h/#hush", "fragment"),
            ("http://${topic}.example.com/", "not in the host"),
            ("http://h/${kye}", "${kye}"),
            ("http://h/${key", "without }"),
        ] {
            let error = Template::parse(template).unwrap_err();
            assert!(error.contains(says), "{template}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn the_origin_has_neither_path_nor_query() {
        let template = Template::parse("https://h/${topic}?token=hush").unwrap();
        assert_eq!(template.origin(), "https://h");
    }
}
