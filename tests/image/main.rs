//! The container image that `deploy/image` has made, run as users run it.
#![cfg(feature = "broker-tests")]

mod containers;
mod first_run;
mod guide;
