//! What a broker does on its bad days, to a connector at work: what the user
//! sees, and that it recovers by itself and loses nothing.

mod attempts;
mod case;
mod groups;
mod in_sync;
mod leaders;
mod letters;
mod logs;
mod new_groups;
mod outages;
mod quotas;
mod rights;
pub mod site;
mod topics;
