//! The laws of the share client, by part.

mod bed;
mod books;
mod collecting;
mod disturbed;
mod fake_broker;
mod planning;
mod reauthenticating;
mod recovering;
mod sim;
mod unread;
