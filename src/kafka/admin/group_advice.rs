//! What an operator is told about a share group's settings.

use super::error::AdminError;
use super::group_settings::{AUTO_OFFSET_RESET, Change, LATEST};

/// Words about one group, with commands that can be run as they stand.
pub(super) struct Advice<'a> {
    pub(super) bootstrap_servers: &'a str,
    pub(super) group: &'a str,
}

impl Advice<'_> {
    /// A value that was there already stays.
    pub(super) fn kept(&self, ours: &Change, theirs: &str) -> String {
        format!(
            "{key}={theirs} is set on share group {group} already and is kept; this connector \
             would set {value}; to have that, run `{command}`",
            group = self.group,
            key = ours.key,
            value = ours.value,
            command = self.command(std::slice::from_ref(ours)),
        )
    }

    /// These could not be set. The connector goes on without, unless its group
    /// would then begin at `latest` though nobody asked for that.
    pub(super) fn left(
        &self,
        changes: &[Change],
        cause: &AdminError,
        right: &'static str,
    ) -> Result<String, AdminError> {
        let group = self.group;
        if cause.is_not_offered() {
            return Ok(format!(
                "{cause}; the broker's own settings hold for share group {group}"
            ));
        }
        let command = self.command(changes);
        let reset = changes
            .iter()
            .find(|change| change.key == AUTO_OFFSET_RESET && change.value != LATEST);
        if let Some(reset) = reset {
            return Err(AdminError::WouldSkipBacklog {
                group: group.to_owned(),
                wanted: reset.value.clone(),
                right,
                command,
            });
        }
        Ok(format!(
            "{cause}; share group {group} goes on with the settings that it has; to have those \
             of this connector, run `{command}`"
        ))
    }

    /// The operator's command that makes these changes.
    fn command(&self, changes: &[Change]) -> String {
        let pairs: Vec<String> = changes
            .iter()
            .map(|change| format!("{}={}", change.key, change.value))
            .collect();
        format!(
            "kafka-configs.sh --bootstrap-server {} --alter --entity-type groups --entity-name {} \
             --add-config {}",
            self.bootstrap_servers,
            self.group,
            pairs.join(",")
        )
    }
}

#[cfg(test)]
mod tests {
    use krafka::error::{ErrorCode, KrafkaError};

    use super::super::error::Attempt;
    use super::*;

    const ADVICE: Advice<'_> = Advice {
        bootstrap_servers: "kafka:9092",
        group: "share-orders",
    };

    fn change(key: &'static str, value: &str) -> Change {
        Change {
            key,
            value: value.to_owned(),
            asked: false,
        }
    }

    fn cause(code: ErrorCode) -> AdminError {
        let attempt = Attempt {
            doing: "change the settings",
            right: "ALTER_CONFIGS",
            resource: "group share-orders".to_owned(),
        };
        attempt.failed(KrafkaError::broker(code, "no"))
    }

    #[test]
    fn group_that_would_skip_its_backlog_is_refused_with_right_and_command() {
        let changes = [change(AUTO_OFFSET_RESET, "earliest")];
        let denied = cause(ErrorCode::GroupAuthorizationFailed);
        let error = ADVICE.left(&changes, &denied, "ALTER_CONFIGS").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("the right ALTER_CONFIGS on group share-orders is missing"),
            "{text}"
        );
        assert!(
            text.contains(
                "`kafka-configs.sh --bootstrap-server kafka:9092 --alter --entity-type groups \
                 --entity-name share-orders --add-config share.auto.offset.reset=earliest`"
            ),
            "{text}"
        );
    }

    #[test]
    fn latest_that_was_asked_for_skips_with_a_warning() {
        let changes = [
            change(AUTO_OFFSET_RESET, "latest"),
            change("share.delivery.count.limit", "10"),
        ];
        let denied = cause(ErrorCode::GroupAuthorizationFailed);
        let warning = ADVICE.left(&changes, &denied, "ALTER_CONFIGS").unwrap();
        assert!(
            warning.contains("share.auto.offset.reset=latest,share.delivery.count.limit=10`"),
            "{warning}"
        );
    }

    #[test]
    fn broker_without_group_settings_is_gone_on_with() {
        let changes = [change(AUTO_OFFSET_RESET, "earliest")];
        let lacking = cause(ErrorCode::UnsupportedVersion);
        let warning = ADVICE.left(&changes, &lacking, "ALTER_CONFIGS").unwrap();
        assert!(
            warning.contains("the broker's own settings hold"),
            "{warning}"
        );
        assert!(!warning.contains("kafka-configs.sh"), "{warning}");
    }
}
