//! What the worker and its connectors are told: names, layers, checks.

pub mod definition;
