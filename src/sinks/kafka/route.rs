//! Which topic a record goes to.

use std::borrow::Cow;

const TOPIC: &str = "${topic}";

/// A topic's name, in which `${topic}` stands for the record's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route(String);

impl Default for Route {
    fn default() -> Self {
        Self(TOPIC.to_owned())
    }
}

impl Route {
    pub(super) fn parse(template: &str) -> Result<Self, String> {
        let rest = template.replace(TOPIC, "");
        let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
        if rest.contains("${") {
            return Err(format!(
                "{template:?} has a placeholder that is not known; there is {TOPIC}"
            ));
        }
        if template.is_empty() || !rest.chars().all(is_plain) {
            return Err(format!(
                "{template:?} makes no topic's name; it has letters, digits, '.', '_', '-' and {TOPIC}"
            ));
        }
        Ok(Self(template.to_owned()))
    }

    /// Where a record of that topic goes.
    pub(super) fn fill<'a>(&'a self, topic: &'a str) -> Cow<'a, str> {
        if self.keeps_topic() {
            Cow::Borrowed(topic)
        } else if let Some(fixed) = self.fixed() {
            Cow::Borrowed(fixed)
        } else {
            Cow::Owned(self.0.replace(TOPIC, topic))
        }
    }

    /// Whether each record keeps its topic's name.
    pub(super) fn keeps_topic(&self) -> bool {
        self.0 == TOPIC
    }

    /// The one topic for all, if it is one.
    pub(super) fn fixed(&self) -> Option<&str> {
        (!self.0.contains(TOPIC)).then_some(self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_topic_fills_the_placeholder() {
        for (template, filled) in [
            ("${topic}", "orders"),
            ("copy-of-${topic}", "copy-of-orders"),
            ("${topic}.${topic}", "orders.orders"),
            ("audit", "audit"),
        ] {
            assert_eq!(Route::parse(template).unwrap().fill("orders"), filled);
        }
    }

    #[test]
    fn a_template_that_makes_no_topic_is_refused() {
        for (template, words) in [
            ("", "makes no topic's name"),
            ("a b", "makes no topic's name"),
            ("${topic", "a placeholder that is not known"),
            ("${partition}-x", "a placeholder that is not known"),
        ] {
            let message = Route::parse(template).unwrap_err();
            assert!(message.contains(words), "{template}: {message}");
        }
    }
}
