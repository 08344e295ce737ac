//! What a connector needs from Kafka's admin side.
//!
//! Decisions are pure functions over what the cluster answered; the calls
//! around them are methods of [`Admin`], each in the file of its subject.

mod client;
mod dead_letters;
mod error;
mod group_advice;
mod group_configs;
mod group_ids;
mod group_settings;
mod group_watch;
mod lag;
mod migrate;
mod own_topic;
mod pattern;
mod topics;

pub use client::Admin;
pub use dead_letters::BrokerLetters;
pub use error::AdminError;
pub(crate) use error::remedy;
pub use group_configs::PreparedGroup;
pub use group_ids::{KnownGroup, ShareGroupCheck};
pub use group_settings::{GroupSettings, Setting, WantedSettings};
pub use group_watch::Readings;
pub use lag::SharePosition;
pub use migrate::{Direction, Migration, MigrationReport, MigrationRow, Start};
pub use own_topic::OwnTopic;
pub use pattern::{PatternError, TopicPattern};
pub use topics::{ResolvedTopics, Topic, TopicChanges, TopicSelection, TopicWatch};
