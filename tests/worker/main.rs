//! Workers as users run them, on a real Kafka 4.4.0. Ids are counted outside
//! the worker.
#![cfg(feature = "broker-tests")]

mod api;
mod attempts;
mod bad_days;
mod chaos;
mod connect_client;
mod contents;
mod crash;
mod crew;
mod dead_letter_blame;
mod dead_letter_rights;
mod dead_letters;
mod ending;
mod fairness;
mod figures;
mod flushing;
mod groups;
mod history;
mod http;
mod kafka_sink;
mod last_attempt;
mod load;
mod logins;
mod main_job;
mod memory;
mod outage;
mod parked_before;
mod parking;
mod parking_crew;
mod poison;
mod reauthentication;
mod records;
mod refusals;
mod rest;
mod rights;
mod scaling;
mod scrape;
mod secrets;
mod secured;
mod security;
mod slow_target;
mod span;
mod stage;
mod surfaces;
mod transforms;
