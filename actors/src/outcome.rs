//! What became of one record.

use std::fmt;
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
pub type Cause = Arc<str>;

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
