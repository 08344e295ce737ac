//! What a collector refuses of an export that it has taken otherwise. Of its
//! answer only the number counts: the words beside it may repeat a header.

use bytes::Buf;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use prost::Message as _;

/// How many spans or data points: the answers of both signals are alike on the
/// wire. One that cannot be read refuses nothing, as its status says.
pub(super) fn refused(answer: impl Buf) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let partial = answer.partial_success.unwrap_or_default();
    u64::try_from(partial.rejected_spans).unwrap_or_default()
}

/// A failure if any were: it is to be told, and nothing is to be sent again.
pub(in crate::telemetry) fn whole(refused: u64) -> OTelSdkResult {
    match refused {
        0 => Ok(()),
        _ => Err(OTelSdkError::InternalFailure(format!(
            "the collector refused {refused} of them"
        ))),
    }
}
