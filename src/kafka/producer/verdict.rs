//! What an answer about a record means for it and for the sink.

use rdkafka::types::RDKafkaErrorCode as Code;

/// What is to be done about a record that was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No broker takes this record, or another one of its batch.
    Reject,
    /// It may work later.
    Retry,
    /// No record is to blame: rights, brokers.
    Unavailable,
    /// Settings do not fit the cluster.
    Fatal,
    /// The producer is of no use any more; the record may go through another.
    ProducerDied,
}

/// Without this the record would be tried again, which loses nothing: only
/// what cannot get better is a reject.
pub(super) const fn judge(code: Code) -> Verdict {
    match code {
        Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidRecord
        | Code::InvalidDifferentRecord
        | Code::InvalidTimestamp
        | Code::InvalidTopic
        | Code::PolicyViolation
        | Code::UnsupportedForMessageFormat => Verdict::Reject,
        Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::SaslAuthenticationFailed
        | Code::Authentication
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::SSL
        | Code::BrokerTransportFailure
        | Code::UnsupportedFeature
        | Code::UnsupportedVersion => Verdict::Unavailable,
        Code::UnknownPartition => Verdict::Fatal,
        Code::Fatal
        | Code::Fenced
        | Code::ProducerFenced
        | Code::Inconsistent
        | Code::GaplessGuarantee
        | Code::OutOfOrderSequenceNumber
        | Code::UnknownProducerId
        | Code::InvalidProducerEpoch => Verdict::ProducerDied,
        _ => Verdict::Retry,
    }
}

/// What the person who must mend it should know beyond the code's own words.
pub(super) const fn advice(code: Code) -> &'static str {
    match code {
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => {
            "; the topic's max.message.bytes is less than the record"
        }
        Code::InvalidTimestamp => "; see message.timestamp.before.max.ms of the topic",
        Code::UnknownTopic | Code::UnknownTopicOrPartition => "; create the topic",
        Code::UnknownPartition => {
            "; partition=source needs a topic with as many partitions: add partitions, or set \
             partition=key"
        }
        Code::MessageTimedOut | Code::NotEnoughReplicas | Code::NotEnoughReplicasAfterAppend => {
            "; see that its partitions have a leader, and min.insync.replicas of them are in sync"
        }
        Code::TopicAuthorizationFailed => "; grant WRITE on the topic",
        Code::ClusterAuthorizationFailed => "; grant IDEMPOTENT_WRITE on the cluster",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_broker_takes_is_a_reject() {
        for code in [
            Code::MessageSizeTooLarge,
            Code::InvalidRecord,
            Code::InvalidDifferentRecord,
        ] {
            assert_eq!(judge(code), Verdict::Reject, "{code}");
        }
        for code in [
            Code::MessageTimedOut,
            Code::NotEnoughReplicas,
            Code::UnknownTopic,
            Code::UnknownTopicOrPartition,
            Code::KafkaStorageError,
            Code::PurgeQueue,
            Code::QueueFull,
        ] {
            assert_eq!(judge(code), Verdict::Retry, "{code}");
        }
    }

    #[test]
    fn lost_rights_are_no_records_fault() {
        for code in [
            Code::TopicAuthorizationFailed,
            Code::ClusterAuthorizationFailed,
            Code::Authentication,
        ] {
            assert_eq!(judge(code), Verdict::Unavailable, "{code}");
        }
    }
}
