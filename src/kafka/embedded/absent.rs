//! What a build without the feature has: nothing, and a word about it.

use super::{EmbeddedBrokerError, SettledOffsets};

/// There is none.
#[derive(Debug)]
pub enum EmbeddedBroker {}

impl EmbeddedBroker {
    pub fn start() -> Result<Self, EmbeddedBrokerError> {
        Err(EmbeddedBrokerError::NotBuiltIn)
    }

    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        match *self {}
    }

    pub fn create_topic(&self, _: &str, _: i32) {
        match *self {}
    }

    #[must_use]
    pub fn settled(&self, _: &str, _: &str) -> Vec<SettledOffsets> {
        match *self {}
    }
}
