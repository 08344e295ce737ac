//! The laws of the share client, by part.

mod books;
mod collecting;
mod fake_broker;
mod planning;
mod reauthenticating;
mod recovering;
mod sim;
mod unread;
