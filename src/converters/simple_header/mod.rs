//! Header text to values, the type guessed from the text, as Connect's
//! `SimpleHeaderConverter` does.
//!
//! Where Connect's guess loses something, ours is wider or stays text:
//! - A number with a fraction has the smallest float type that gives back its
//!   digits (`0.1` Float32, `6.02214076000001` Float64), else it is a Decimal.
//!   Connect cuts it to Float32.
//! - A number of more than 1000 characters, or whose exponent makes it longer
//!   than 1000 digits, stays text: an identifier such as `407127e212797209` is
//!   no number.
//! - A guess must hold for the whole text: `1,2`, `14:34:54Z` and `[1] x` stay
//!   text. Connect reads `1`, `14` and `[1]`.
//! - Dates that are in no calendar stay text. Times are UTC.
//! - A list whose elements share no type has no schema; nor has one of lists
//!   of different types. A map whose keys share no type stays text.
//! - Connect's old way to write a timestamp, its colons escaped, stays text.
//! - Bytes that are no UTF-8 stay bytes.

mod common;
mod converter;
mod scalar;
mod scan;
mod schemas;
mod temporal;
#[cfg(test)]
mod tests;
mod write;

pub use converter::SimpleHeaderConverter;
pub use write::to_text;
