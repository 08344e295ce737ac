//! What was probably meant by a name that is not known.

/// Classes less alike than this (1 is the same) are no slip of the pen.
const ALIKE: f64 = 0.85;

/// The key that was probably meant: the same without its prefix or without its
/// last words, or one a few slips of the finger away.
pub(super) fn nearest_key(key: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let slips_allowed = (key.len() / 5).clamp(1, 4);
    known
        .map(|name| {
            let is_tail = name
                .strip_suffix(key)
                .is_some_and(|front| front.ends_with('.'));
            let is_head = name
                .strip_prefix(key)
                .is_some_and(|rest| rest.starts_with('.') && key.contains('.'));
            let slips = match (is_tail, is_head) {
                (true, _) => 0,
                (_, true) => 1,
                _ => strsim::damerau_levenshtein(key, &name),
            };
            (slips, name)
        })
        .filter(|(slips, _)| *slips <= slips_allowed)
        .min_by_key(|(slips, name)| (*slips, name.len()))
        .map(|(_, name)| name)
}

/// The message for a class that no plugin of this kind has: `names` are all
/// that would do, `listed` those that are worth naming.
pub(crate) fn unknown_class<'a>(
    kind: &str,
    class: &str,
    names: impl Iterator<Item = &'a str>,
    listed: impl Iterator<Item = &'a str>,
) -> String {
    let listed = listed.collect::<Vec<_>>().join(", ");
    let hint = nearest_class(class, names)
        .map_or_else(String::new, |name| format!(" Did you mean {name:?}?"));
    format!("{class:?} is not a {kind}; the {kind}s are {listed}.{hint}")
}

/// By the class without its package, in any case.
fn nearest_class<'a>(class: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let meant = simple_name(class);
    names
        .map(|name| (strsim::jaro_winkler(&meant, &simple_name(name)), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, name)| name)
}

fn simple_name(class: &str) -> String {
    class
        .rsplit('.')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = [
        "file",
        "FileStreamSink",
        "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "null",
    ];

    fn class(class: &str) -> Option<&'static str> {
        nearest_class(class, NAMES.into_iter())
    }

    #[test]
    fn a_class_is_guessed_by_its_name_without_the_package() {
        let connector = Some("org.apache.kafka.connect.file.FileStreamSinkConnector");
        assert_eq!(class("FileStreamSnik"), Some("FileStreamSink"));
        assert_eq!(class("org.example.filestreamsinkconnector"), connector);
        assert_eq!(class("nul"), Some("null"));
    }

    #[test]
    fn a_class_unlike_any_other_gets_no_guess() {
        assert_eq!(class("io.confluent.connect.jdbc.JdbcSinkConnector"), None);
        assert_eq!(class(""), None);
    }

    #[test]
    fn the_message_lists_what_there_is() {
        assert_eq!(
            unknown_class(
                "sink",
                "fil",
                NAMES.into_iter(),
                ["file", "null"].into_iter()
            ),
            "\"fil\" is not a sink; the sinks are file, null. Did you mean \"file\"?"
        );
    }

    #[test]
    fn a_key_is_guessed_by_its_tail_or_a_few_slips() {
        let known = || ["value.converter.schemas.enable", "tasks.max"].map(str::to_owned);
        let guess = |key| nearest_key(key, known().into_iter());
        assert_eq!(guess("task.max").as_deref(), Some("tasks.max"));
        assert_eq!(
            guess("schemas.enable").as_deref(),
            Some("value.converter.schemas.enable")
        );
        assert_eq!(guess("chemas.enable"), None, "no whole part of the name");
    }
}
