//! Which part of a record a converter is for.

/// A record's key, value or headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Key,
    Value,
    Header,
}

impl Part {
    pub const ALL: [Self; 3] = [Self::Key, Self::Value, Self::Header];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
            Self::Header => "header",
        }
    }

    /// The key that names the converter's class.
    #[must_use]
    pub const fn class_key(self) -> &'static str {
        match self {
            Self::Key => "key.converter",
            Self::Value => "value.converter",
            Self::Header => "header.converter",
        }
    }

    /// What the converter's own keys begin with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Key => "key.converter.",
            Self::Value => "value.converter.",
            Self::Header => "header.converter.",
        }
    }
}
