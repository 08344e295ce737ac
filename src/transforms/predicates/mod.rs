//! Conditions for transforms, one a file.

pub(super) mod has_header_key;
pub(super) mod record_is_tombstone;
pub(super) mod topic_name_matches;
