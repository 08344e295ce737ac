//! The sink that sends records to an HTTP endpoint.

mod auth;
mod body;
mod client;
mod config;
mod exchange;
mod headers;
mod items;
mod keys;
mod pause;
mod put_end;
mod request;
mod scrub;
mod sink;
mod spelling;
mod status;
mod template;
mod tls;
mod token;
mod trace_context;

#[cfg(test)]
mod tests;

pub use config::HttpConfig;
pub use keys::KEYS;
pub use sink::HttpFactory;
