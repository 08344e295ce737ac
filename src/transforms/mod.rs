//! Changes to records between converter and sink, one transform a file.

pub mod aliased;
mod chain;
mod entry;
mod fields;
mod filter;
mod insert_field;
mod java_regex;
#[cfg(test)]
mod oracle;
mod predicates;
mod recent;
mod regex_router;
pub mod registry;
mod replace_field;
#[cfg(test)]
mod testing;

pub(crate) use chain::error_prefix;
