//! References in a text, as Connect's `ConfigTransformer` finds them.

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    Reference(Reference<'a>),
}

/// `${provider:path:key}`, or without a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    /// As it stands in the text.
    pub(super) whole: &'a str,
    pub(super) provider: &'a str,
    pub(super) path: Option<&'a str>,
    pub(super) key: &'a str,
}

/// Takes a text apart. Braces without a colon refer to nothing.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let begin = rest.find("${").unwrap_or(rest.len());
        let (before, at) = rest.split_at(begin);
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        let length = at.find('}').map_or(at.len(), |end| end + 1);
        let (whole, after) = at.split_at(length);
        match reference(whole) {
            Some(reference) => pieces.push(Piece::Reference(reference)),
            None if whole.is_empty() => {}
            None => pieces.push(Piece::Text(whole)),
        }
        rest = after;
    }
    pieces
}

fn reference(whole: &str) -> Option<Reference<'_>> {
    let inside = whole.strip_prefix("${")?.strip_suffix('}')?;
    let (provider, rest) = inside.split_once(':')?;
    // Only the key may have colons.
    let (path, key) = match rest.split_once(':') {
        Some((path, key)) => (Some(path), key),
        None => (None, rest),
    };
    Some(Reference {
        whole,
        provider,
        path,
        key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&str, Option<&str>, &str)> {
        let found = pieces(text).into_iter().filter_map(|piece| match piece {
            Piece::Reference(it) => Some((it.provider, it.path, it.key)),
            Piece::Text(_) => None,
        });
        found.collect()
    }

    #[test]
    fn a_reference_has_a_provider_a_key_and_perhaps_a_path() {
        assert_eq!(
            found("${file:/a/b.properties:x.y}"),
            [("file", Some("/a/b.properties"), "x.y")]
        );
        assert_eq!(found("${env:HOME}"), [("env", None, "HOME")]);
        assert_eq!(found("${dir::f}"), [("dir", Some(""), "f")]);
        assert_eq!(found("${p:a:b:c}"), [("p", Some("a"), "b:c")]);
    }

    #[test]
    fn other_braces_and_what_stands_around_are_text() {
        let text = "a ${topic}-${timestamp} ${env:X}${env:Y} {x:y} $1 ${open:";
        assert_eq!(found(text), [("env", None, "X"), ("env", None, "Y")]);
        let together = pieces(text).into_iter().map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Reference(reference) => reference.whole,
        });
        assert_eq!(together.collect::<String>(), text, "nothing is lost");
    }
}
