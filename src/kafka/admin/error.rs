//! What can go wrong on Kafka's admin side, and what to do about it.

use krafka::error::{ErrorCode, KrafkaError, ProtocolErrorKind};

/// Each text names the resource and the way out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AdminError {
    #[error(
        "cannot {doing} of {resource}: the right {right} is missing; grant {right} on {resource} \
         to the principal that this connector uses"
    )]
    Unauthorized {
        doing: &'static str,
        right: &'static str,
        resource: String,
    },
    #[error("cannot {doing} of {resource}: the broker does not offer the API ({source})")]
    NotOffered {
        doing: &'static str,
        resource: String,
        source: KrafkaError,
    },
    #[error("cannot {doing} of {resource}: {source}; {}", remedy(source))]
    Failed {
        doing: &'static str,
        resource: String,
        source: KrafkaError,
    },
    #[error(
        "group id {group} belongs to {owner}: share and consumer groups share one id space, and \
         an id stays with its kind also while the group is empty; choose a free id \
         (share.group.id), or delete that group if nobody needs its offsets"
    )]
    GroupTaken { group: String, owner: String },
    #[error(
        "share group {group} is new, but group {consumer_group} has committed offsets for \
         {topics}, which would be read again by the reset policy; carry the positions over with \
         `sluice migrate {connector} --to share`, or set share.auto.offset.reset to start by \
         that policy"
    )]
    NotMigrated {
        connector: String,
        group: String,
        consumer_group: String,
        topics: String,
    },
    #[error(
        "share group {group} would start at latest and skip what its topics hold already: \
         share.auto.offset.reset={wanted} cannot be set on it, as the right {right} on group \
         {group} is missing; grant it, or let an operator run `{command}`, or set \
         share.auto.offset.reset=latest if the backlog may be skipped"
    )]
    WouldSkipBacklog {
        group: String,
        wanted: String,
        right: &'static str,
        command: String,
    },
    #[error("{key}={value} is refused for share group {group}: {bound}")]
    InvalidSetting {
        group: String,
        key: &'static str,
        value: String,
        bound: String,
    },
    #[error(
        "{key} was set on share group {group}, but the brokers do not show it yet; try again \
         before joining"
    )]
    SettingNotShown { group: String, key: &'static str },
    #[error("group {group} still has members (state {state}): stop {user} first")]
    HasMembers {
        group: String,
        state: String,
        user: &'static str,
    },
    #[error("group {group} has no position for {topics}: nothing to carry over; check its name")]
    NothingToMigrate { group: String, topics: String },
    #[error(
        "group {group} stands at offset {ahead} of {partition}, past offset {behind} of group \
         {other}: it has gone on by itself; to read these records again, reset its offsets with \
         Kafka's own tool, then migrate"
    )]
    TargetAhead {
        group: String,
        other: String,
        partition: String,
        ahead: i64,
        behind: i64,
    },
    #[error(
        "offset {wanted} of {partition} was set for group {group}, but it shows {shown}: run the \
         migration again before the group is used"
    )]
    NotReadBack {
        group: String,
        partition: String,
        wanted: i64,
        shown: String,
    },
    #[error(
        "errors.deadletterqueue.topic.name: no dead letters would arrive in {topic}: {obstacle}"
    )]
    NoDeadLetters { topic: String, obstacle: String },
    #[error(
        "errors.deadletterqueue.topic.name: {ours} is this connector's topic of dead letters, but \
         share group {group} has {theirs} set on it already; name that one, or remove it from the \
         group"
    )]
    OtherDeadLetters {
        group: String,
        ours: String,
        theirs: String,
    },
    #[error(
        "errors.deadletterqueue.topic.name of share group {group} is {theirs} now, so that the \
         brokers would write no letter to {topic} of a record that is rejected; set it again with \
         `kafka-configs.sh --bootstrap-server {servers} --alter --entity-type groups --entity-name \
         {group} --add-config errors.deadletterqueue.topic.name={topic}`"
    )]
    DeadLettersTakenAway {
        group: String,
        topic: String,
        theirs: String,
        servers: String,
    },
    #[error(
        "errors.deadletterqueue.copy.record.enable of share group {group} is {found} now, so that \
         the brokers would write letters to {topic} without key and value; set it again with \
         `kafka-configs.sh --bootstrap-server {servers} --alter --entity-type groups --entity-name \
         {group} --add-config errors.deadletterqueue.copy.record.enable=true`, or restart the \
         connector if letters are to be without"
    )]
    LettersWithoutContents {
        group: String,
        topic: String,
        found: String,
        servers: String,
    },
    #[error(
        "{key}: topic {topic} cannot be created with {replication_factor} replicas, there are \
         fewer brokers; lower it"
    )]
    TooFewBrokers {
        key: &'static str,
        topic: String,
        replication_factor: i16,
    },
    #[error(
        "topic {topic} has {setting}={value}, and would lose records that lie in it; set it right \
         with `kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics \
         --entity-name {topic} --add-config {setting}={wanted}`"
    )]
    TopicForgets {
        topic: String,
        setting: &'static str,
        value: String,
        wanted: &'static str,
        servers: String,
    },
    #[error("topic {topics} is not there: create it, or correct the connector's topics")]
    TopicMissing { topics: String },
}

impl AdminError {
    /// Whether the broker lacks the API, so that the caller may go on without.
    #[must_use]
    pub const fn is_not_offered(&self) -> bool {
        matches!(self, Self::NotOffered { .. })
    }

    /// Whether the same call may succeed later without anybody's doing.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Failed { source, .. } => source.is_retriable(),
            Self::SettingNotShown { .. } => true,
            _ => false,
        }
    }
}

/// One call, as its errors call it: "cannot `doing` of `resource`".
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) doing: &'static str,
    /// What the broker's ACLs must allow for it.
    pub(super) right: &'static str,
    pub(super) resource: String,
}

impl Attempt {
    pub(super) fn failed(&self, source: KrafkaError) -> AdminError {
        let resource = self.resource.clone();
        match code(&source) {
            Some(
                ErrorCode::GroupAuthorizationFailed
                | ErrorCode::TopicAuthorizationFailed
                | ErrorCode::ClusterAuthorizationFailed,
            ) => AdminError::Unauthorized {
                doing: self.doing,
                right: self.right,
                resource,
            },
            _ if lacks_api(&source) => AdminError::NotOffered {
                doing: self.doing,
                resource,
                source,
            },
            _ => AdminError::Failed {
                doing: self.doing,
                resource,
                source,
            },
        }
    }
}

pub(super) const fn code(error: &KrafkaError) -> Option<ErrorCode> {
    match error {
        KrafkaError::Broker { code, .. } => Some(*code),
        _ => None,
    }
}

fn lacks_api(error: &KrafkaError) -> bool {
    code(error) == Some(ErrorCode::UnsupportedVersion)
        || error.protocol_error_kind() == Some(ProtocolErrorKind::UnknownApiVersion)
}

/// What the operator can do about it.
pub(crate) fn remedy(error: &KrafkaError) -> &'static str {
    match error {
        KrafkaError::Auth { message, .. } if message.contains("SASL") => {
            "check user and password in sasl.jaas.config, and sasl.mechanism"
        }
        KrafkaError::Auth { .. } => "check security.protocol, sasl.* and ssl.*",
        KrafkaError::Network(_) | KrafkaError::Timeout { .. } => {
            "check bootstrap.servers and that the brokers are up"
        }
        _ if error.is_retriable() => "try again",
        _ => "see the broker's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(source: KrafkaError) -> AdminError {
        let attempt = Attempt {
            doing: "read the committed offsets",
            right: "DESCRIBE",
            resource: "group connect-orders".to_owned(),
        };
        attempt.failed(source)
    }

    #[test]
    fn refused_credentials_and_certificates_name_their_keys() {
        let refused = |message: &str| remedy(&KrafkaError::auth(message));
        let sasl = "SASL authentication step failed: SaslAuthenticationFailed";
        assert!(refused(sasl).contains("sasl.jaas.config"));
        assert!(refused("invalid peer certificate: UnknownIssuer").contains("ssl.*"));
    }

    #[test]
    fn missing_right_names_right_and_resource() {
        let error = failed(KrafkaError::broker(
            ErrorCode::GroupAuthorizationFailed,
            "Group authorization failed.",
        ));
        assert_eq!(
            error.to_string(),
            "cannot read the committed offsets of group connect-orders: the right DESCRIBE is \
             missing; grant DESCRIBE on group connect-orders to the principal that this \
             connector uses"
        );
        assert!(!error.is_retriable());
    }

    #[test]
    fn lacking_api_is_told_from_a_failure() {
        let lacking = KrafkaError::protocol_kind(ProtocolErrorKind::UnknownApiVersion, "none");
        assert!(failed(lacking).is_not_offered());
        let refused = KrafkaError::broker(ErrorCode::UnsupportedVersion, "none");
        assert!(failed(refused).is_not_offered());
        let malformed = KrafkaError::protocol_kind(ProtocolErrorKind::Malformed, "bytes");
        assert!(!failed(malformed).is_not_offered());
    }

    #[test]
    fn failure_says_what_to_check() {
        let error = failed(KrafkaError::timeout("OffsetFetch"));
        assert!(error.is_retriable());
        assert!(
            error
                .to_string()
                .ends_with("check bootstrap.servers and that the brokers are up")
        );
        let error = failed(KrafkaError::auth("bad password"));
        assert!(error.to_string().contains("check security.protocol"));
    }
}
