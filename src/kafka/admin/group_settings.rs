//! A share group's settings: what Sluice would set, what it leaves alone,
//! and what holds in the end. Pure; the calls are in `group_configs`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub(super) const AUTO_OFFSET_RESET: &str = "share.auto.offset.reset";
pub(super) const MAX_RECORD_LOCKS: &str = "share.partition.max.record.locks";
pub(super) const DELIVERY_LIMIT: &str = "share.delivery.count.limit";
pub(super) const LOCK_DURATION: &str = "share.record.lock.duration.ms";
pub(super) const RENEW_ENABLE: &str = "share.renew.acknowledge.enable";

/// Sinks expect the whole topic; a share group by itself begins at its end.
const DEFAULT_RESET: &str = "earliest";
pub(super) const LATEST: &str = "latest";

/// The highest limit that brokers allow unless told otherwise. Each return of
/// a record uses up an attempt, whatever the cause, and the last one loses it.
pub(super) const RAISED_DELIVERY_LIMIT: u16 = 10;

/// What holds when the group's settings cannot be read: Kafka's defaults, but
/// the lowest limit that a broker can have, since a wrong guess upwards would
/// release a record on its last attempt.
const ASSUMED_LOCK_DURATION: Duration = Duration::from_secs(30);
const ASSUMED_DELIVERY_LIMIT: u16 = 2;
const ASSUMED_MAX_RECORD_LOCKS: u32 = 2000;
const ASSUMED_RENEW_ENABLED: bool = true;
const ASSUMED_RESET: &str = LATEST;

/// What a connector asks for; `None` leaves it to Sluice or the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedSettings {
    /// `earliest`, `latest` or `by_duration:ISO8601`.
    pub auto_offset_reset: Option<String>,
    pub max_record_locks: Option<u32>,
    pub delivery_limit: Option<u16>,
    pub lock_duration: Option<Duration>,
}

impl WantedSettings {
    /// The policy to be in force: what was asked for, else `earliest`.
    pub(super) fn reset(&self) -> &str {
        self.auto_offset_reset.as_deref().unwrap_or(DEFAULT_RESET)
    }

    /// Everything Sluice would like the group to have. What was asked for
    /// comes first: if the broker refuses that, nothing else was changed.
    fn changes(&self) -> Vec<Change> {
        let asked = |key, value: Option<String>| {
            value.map(|value| Change {
                key,
                value,
                asked: true,
            })
        };
        let mut changes: Vec<Change> = [
            asked(
                MAX_RECORD_LOCKS,
                self.max_record_locks.map(|locks| locks.to_string()),
            ),
            asked(
                DELIVERY_LIMIT,
                self.delivery_limit.map(|limit| limit.to_string()),
            ),
            asked(
                LOCK_DURATION,
                self.lock_duration
                    .map(|duration| duration.as_millis().to_string()),
            ),
        ]
        .into_iter()
        .flatten()
        .collect();
        changes.push(Change {
            key: AUTO_OFFSET_RESET,
            value: self.reset().to_owned(),
            asked: self.auto_offset_reset.is_some(),
        });
        if self.delivery_limit.is_none() {
            changes.push(Change {
                key: DELIVERY_LIMIT,
                value: RAISED_DELIVERY_LIMIT.to_string(),
                asked: false,
            });
        }
        changes
    }
}

/// One key as the broker tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: String,
    /// Set on this very group, not inherited from the broker.
    pub(super) of_group: bool,
}

pub(super) type Entries = BTreeMap<String, Entry>;

/// A key to be set on the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) key: &'static str,
    pub(super) value: String,
    /// By the connector; else it is Sluice's own default.
    pub(super) asked: bool,
}

/// What to set, and what stays as an operator set it though we differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    pub(super) kept: Vec<(Change, String)>,
}

pub(super) fn plan(wanted: &WantedSettings, entries: &Entries) -> Plan {
    let mut plan = Plan::default();
    for change in wanted.changes() {
        match entries.get(change.key) {
            Some(entry) if entry.value == change.value || is_enough(&change, &entry.value) => {}
            Some(entry) if entry.of_group => plan.kept.push((change, entry.value.clone())),
            // A broker that does not know the key would refuse it.
            None if !change.asked => {}
            _ => plan.changes.push(change),
        }
    }
    plan
}

/// Sluice's own default only raises the delivery limit.
fn is_enough(change: &Change, current: &str) -> bool {
    !change.asked
        && change.key == DELIVERY_LIMIT
        && current
            .parse()
            .is_ok_and(|limit: u16| limit >= RAISED_DELIVERY_LIMIT)
}

/// A value and whether the broker said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    /// `false`: it could not be read, and `value` is assumed.
    pub known: bool,
}

impl<T> Setting<T> {
    fn read(entries: &Entries, key: &str, parse: impl Fn(&str) -> Option<T>, assumed: T) -> Self {
        match entries.get(key).and_then(|entry| parse(&entry.value)) {
            Some(value) => Self { value, known: true },
            None => Self {
                value: assumed,
                known: false,
            },
        }
    }
}

/// The settings in force for a share group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// For planning only: each acquisition brings its true lock time.
    pub lock_duration: Setting<Duration>,
    pub delivery_limit: Setting<u16>,
    /// The span that open records of one partition may reach.
    pub max_record_locks: Setting<u32>,
    pub renew_enabled: Setting<bool>,
    pub auto_offset_reset: Setting<String>,
}

impl GroupSettings {
    pub(super) fn read(entries: &Entries) -> Self {
        Self {
            lock_duration: Setting::read(
                entries,
                LOCK_DURATION,
                |text| text.parse().ok().map(Duration::from_millis),
                ASSUMED_LOCK_DURATION,
            ),
            delivery_limit: Setting::read(entries, DELIVERY_LIMIT, parsed, ASSUMED_DELIVERY_LIMIT),
            max_record_locks: Setting::read(
                entries,
                MAX_RECORD_LOCKS,
                parsed,
                ASSUMED_MAX_RECORD_LOCKS,
            ),
            renew_enabled: Setting::read(entries, RENEW_ENABLE, parsed, ASSUMED_RENEW_ENABLED),
            auto_offset_reset: Setting::read(
                entries,
                AUTO_OFFSET_RESET,
                |text| Some(text.to_owned()),
                ASSUMED_RESET.to_owned(),
            ),
        }
    }

    /// What the operator should know about these settings.
    pub(super) fn warnings(&self, group: &str) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.delivery_limit.known {
            warnings.push(format!(
                "{DELIVERY_LIMIT} of share group {group} is unknown, so the lowest one is assumed \
                 ({ASSUMED_DELIVERY_LIMIT}): a record is held, not released, from its second \
                 delivery on"
            ));
        }
        if !self.renew_enabled.value {
            warnings.push(format!(
                "{RENEW_ENABLE} is false for share group {group}: locks cannot be renewed, so a \
                 put that takes longer than {} ms is delivered again; set it to true",
                self.lock_duration.value.as_millis()
            ));
        }
        warnings
    }
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

impl GroupSettings {
    /// Key, value, and whether the broker said it.
    pub(super) fn shown(&self) -> [(&'static str, String, bool); 5] {
        [
            (
                LOCK_DURATION,
                self.lock_duration.value.as_millis().to_string(),
                self.lock_duration.known,
            ),
            (
                DELIVERY_LIMIT,
                self.delivery_limit.value.to_string(),
                self.delivery_limit.known,
            ),
            (
                MAX_RECORD_LOCKS,
                self.max_record_locks.value.to_string(),
                self.max_record_locks.known,
            ),
            (
                RENEW_ENABLE,
                self.renew_enabled.value.to_string(),
                self.renew_enabled.known,
            ),
            (
                AUTO_OFFSET_RESET,
                self.auto_offset_reset.value.clone(),
                self.auto_offset_reset.known,
            ),
        ]
    }
}

impl fmt::Display for GroupSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (key, value, known)) in self.shown().into_iter().enumerate() {
            let gap = if place == 0 { "" } else { ", " };
            let mark = if known { "" } else { " (assumed)" };
            write!(f, "{gap}{key}={value}{mark}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(listed: &[(&str, &str, bool)]) -> Entries {
        listed
            .iter()
            .map(|(key, value, of_group)| {
                let entry = Entry {
                    value: (*value).to_owned(),
                    of_group: *of_group,
                };
                ((*key).to_owned(), entry)
            })
            .collect()
    }

    fn fresh_group() -> Entries {
        entries(&[
            (AUTO_OFFSET_RESET, "latest", false),
            (MAX_RECORD_LOCKS, "2000", false),
            (DELIVERY_LIMIT, "5", false),
            (LOCK_DURATION, "30000", false),
            (RENEW_ENABLE, "true", false),
        ])
    }

    fn with(key: &str, value: &str) -> Entries {
        let mut entries = fresh_group();
        entries.insert(
            key.to_owned(),
            Entry {
                value: value.to_owned(),
                of_group: true,
            },
        );
        entries
    }

    fn set(plan: &Plan) -> Vec<(&str, &str)> {
        plan.changes
            .iter()
            .map(|change| (change.key, change.value.as_str()))
            .collect()
    }

    #[test]
    fn fresh_group_begins_at_earliest_with_ten_attempts_and_nothing_else() {
        let plan = plan(&WantedSettings::default(), &fresh_group());
        assert_eq!(
            set(&plan),
            [(AUTO_OFFSET_RESET, "earliest"), (DELIVERY_LIMIT, "10")]
        );
        assert!(plan.changes.iter().all(|change| !change.asked));
    }

    #[test]
    fn what_the_connector_asks_for_is_set_before_our_defaults() {
        let wanted = WantedSettings {
            auto_offset_reset: Some("by_duration:PT1H".to_owned()),
            max_record_locks: Some(4000),
            delivery_limit: Some(7),
            lock_duration: Some(Duration::from_secs(45)),
        };
        let plan = plan(&wanted, &fresh_group());
        assert_eq!(
            set(&plan),
            [
                (MAX_RECORD_LOCKS, "4000"),
                (DELIVERY_LIMIT, "7"),
                (LOCK_DURATION, "45000"),
                (AUTO_OFFSET_RESET, "by_duration:PT1H"),
            ]
        );
        assert!(plan.changes.iter().all(|change| change.asked));
    }

    #[test]
    fn operators_own_value_is_kept_and_told() {
        let plan = plan(
            &WantedSettings::default(),
            &with(AUTO_OFFSET_RESET, "latest"),
        );
        assert_eq!(set(&plan), [(DELIVERY_LIMIT, "10")]);
        let (ours, theirs) = &plan.kept[0];
        assert_eq!(
            (ours.value.as_str(), theirs.as_str()),
            ("earliest", "latest")
        );
        assert_eq!(plan.kept.len(), 1);
    }

    #[test]
    fn equal_value_needs_no_change_and_no_word() {
        let plan = plan(
            &WantedSettings::default(),
            &with(AUTO_OFFSET_RESET, "earliest"),
        );
        assert_eq!(set(&plan), [(DELIVERY_LIMIT, "10")]);
        assert!(plan.kept.is_empty());
    }

    #[test]
    fn higher_limit_is_never_lowered_by_our_default_but_by_asking() {
        let generous = entries(&[(DELIVERY_LIMIT, "20", false)]);
        assert!(
            plan(&WantedSettings::default(), &generous)
                .changes
                .is_empty()
        );
        let wanted = WantedSettings {
            delivery_limit: Some(3),
            ..WantedSettings::default()
        };
        assert_eq!(set(&plan(&wanted, &generous)), [(DELIVERY_LIMIT, "3")]);
    }

    #[test]
    fn key_that_the_broker_does_not_list_is_set_only_when_asked_for() {
        assert!(
            plan(&WantedSettings::default(), &Entries::new())
                .changes
                .is_empty()
        );
        let wanted = WantedSettings {
            max_record_locks: Some(500),
            ..WantedSettings::default()
        };
        assert_eq!(
            set(&plan(&wanted, &Entries::new())),
            [(MAX_RECORD_LOCKS, "500")]
        );
    }

    #[test]
    fn unknown_settings_are_assumed_low_and_said_so() {
        let settings = GroupSettings::read(&Entries::new());
        assert_eq!(
            settings.delivery_limit,
            Setting {
                value: 2,
                known: false
            }
        );
        assert!(!settings.lock_duration.known && !settings.renew_enabled.known);
        assert!(
            settings
                .to_string()
                .contains("share.delivery.count.limit=2 (assumed)")
        );
        let warnings = settings.warnings("share-orders");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("share.delivery.count.limit of share group share-orders"));
    }

    #[test]
    fn known_settings_are_taken_as_told() {
        let settings = GroupSettings::read(&fresh_group());
        assert_eq!(
            settings.delivery_limit,
            Setting {
                value: 5,
                known: true
            }
        );
        assert_eq!(
            settings.max_record_locks,
            Setting {
                value: 2000,
                known: true
            }
        );
        assert_eq!(settings.lock_duration.value, Duration::from_secs(30));
        assert!(settings.warnings("share-orders").is_empty());
        assert!(!settings.to_string().contains("assumed"));
    }

    #[test]
    fn disabled_renewal_is_told_with_the_lock_time() {
        let settings = GroupSettings::read(&with(RENEW_ENABLE, "false"));
        assert!(!settings.renew_enabled.value);
        assert!(settings.warnings("share-orders")[0].contains("longer than 30000 ms"));
    }
}
