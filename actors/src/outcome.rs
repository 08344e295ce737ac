//! What became of one record.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Where a record was when something happened to it. The names are Connect's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    KafkaConsume,
    KeyConverter,
    ValueConverter,
    HeaderConverter,
    Transformation,
    TaskPut,
}

impl Stage {
    /// Connect's name of the stage, as it stands in logs and headers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KafkaConsume => "KAFKA_CONSUME",
            Self::KeyConverter => "KEY_CONVERTER",
            Self::ValueConverter => "VALUE_CONVERTER",
            Self::HeaderConverter => "HEADER_CONVERTER",
            Self::Transformation => "TRANSFORMATION",
            Self::TaskPut => "TASK_PUT",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why something went wrong, in words for the person who must mend it.
///
/// Shows as what is told in logs and status: that never quotes a record. Words
/// of somebody else who has seen the record, such as an endpoint's answer or a
/// panic's message, may quote it. They are kept apart, and go only where the
/// record itself goes, or where `errors.log.include.messages` wants them.
#[derive(Clone, PartialEq, Eq)]
pub struct Cause {
    told: Arc<str>,
    /// The same with what may quote the record, if there is such.
    whole: Option<Arc<str>>,
}

impl Cause {
    /// `whole` says what `told` does, and may quote the record.
    pub fn quoting(told: impl Into<Arc<str>>, whole: impl Into<Arc<str>>) -> Self {
        Self {
            told: told.into(),
            whole: Some(whole.into()),
        }
    }

    /// All that is known, for where the record itself goes.
    #[must_use]
    pub fn whole(&self) -> &str {
        self.whole.as_deref().unwrap_or(&self.told)
    }

    /// The same, with all that is known told everywhere.
    #[must_use]
    pub fn in_full(self) -> Self {
        Self {
            told: self.whole.unwrap_or(self.told),
            whole: None,
        }
    }

    /// The same behind words that say what it came to.
    #[must_use]
    pub fn behind(&self, words: &str) -> Self {
        let after = |cause: &str| format!("{words}: {cause}").into();
        Self {
            told: after(&self.told),
            whole: self.whole.as_deref().map(after),
        }
    }
}

impl Deref for Cause {
    type Target = str;

    fn deref(&self) -> &str {
        &self.told
    }
}

impl<T: Into<Arc<str>>> From<T> for Cause {
    fn from(told: T) -> Self {
        Self {
            told: told.into(),
            whole: None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

/// Like what is told, since a `Debug` may end in a log.
impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.told, f)
    }
}

/// What became of one record of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sink has it for good.
    Delivered,
    /// The sink took it and will have it for good after its next flush.
    Buffered,
    /// Not now, perhaps later.
    Retry(Cause),
    /// Never, whoever tries.
    Reject(Rejection),
}

/// Why a record can never be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub stage: Stage,
    pub cause: Cause,
}

impl Rejection {
    pub fn new(stage: Stage, cause: impl Into<Cause>) -> Self {
        Self {
            stage,
            cause: cause.into(),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage, self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_quote_a_record_shows_nowhere_unless_it_is_asked_for() {
        let cause = Cause::quoting("it said 4 bytes", "it said hush");
        let rejection = Rejection::new(Stage::TaskPut, cause.behind("too late"));
        let outcome = Outcome::Reject(rejection.clone());
        let shown = format!("{rejection} {rejection:?} {outcome:?} {}", &*cause);
        assert!(!shown.contains("hush"), "{shown}");
        assert_eq!(rejection.to_string(), "TASK_PUT: too late: it said 4 bytes");
        assert_eq!(rejection.cause.whole(), "too late: it said hush");
        assert_eq!(
            rejection.cause.in_full().to_string(),
            "too late: it said hush"
        );
    }

    #[test]
    fn a_cause_that_quotes_nothing_is_told_as_it_is() {
        let cause = Cause::from("no such table");
        assert_eq!(
            (cause.whole(), cause.to_string().as_str()),
            (&*cause, "no such table")
        );
        assert_eq!(cause.clone().in_full(), cause);
    }
}
