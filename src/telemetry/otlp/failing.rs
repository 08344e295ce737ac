//! When exports begin to fail, and when it is over.

use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry_sdk::error::OTelSdkResult;

/// Whether exports fail: the log is to tell when that changes, and no more.
#[derive(Debug, Default)]
pub(in crate::telemetry) struct Failing(AtomicBool);

impl Failing {
    /// Takes what an export came to; whether that is another end than before.
    pub(in crate::telemetry) fn changes(&self, exported: &OTelSdkResult) -> bool {
        self.0.swap(exported.is_err(), Ordering::AcqRel) != exported.is_err()
    }
}
