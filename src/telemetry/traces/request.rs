//! Requests to the REST API, as they are traced.

use std::fmt::Debug;
use std::time::SystemTime;

use sluice_actors::trace_context::Parent;

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedRequest {
    pub method: String,
    /// The pattern that its path was found by.
    pub route: Option<String>,
    pub path: String,
    pub query: Option<String>,
    /// `Host`, with its port if it has one.
    pub host: Option<String>,
    pub user_agent: Option<String>,
    /// 1.1
    pub version: &'static str,
    pub status: u16,
    /// What the client says of its own span.
    pub parent: Option<Parent>,
    pub began: SystemTime,
    pub ended: SystemTime,
}

/// Takes requests when they were answered. No call waits.
pub trait RequestTracer: Debug + Send + Sync + 'static {
    fn served(&self, request: ServedRequest);
}
