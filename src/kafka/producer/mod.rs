//! librdkafka's producer: settings, life and death, and what became of each
//! record. The kafka sink and dead letters are written through it.

mod handle;
mod producers;
mod receipt;
mod verdict;

pub(crate) use handle::{Handle, Outgoing};
pub(crate) use producers::Producers;
pub(crate) use receipt::Receipt;
