//! What a status means for the records of a request.

use std::ops::RangeInclusive;

use crate::config::definition::Reader;
use crate::sinks::http::keys;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The endpoint has them.
    Success,
    /// Not now; perhaps later.
    Retry,
    /// Never.
    Reject,
    /// The endpoint takes nothing now, whatever the record.
    Unavailable,
}

type Codes = RangeInclusive<u16>;

/// HTTP's own meaning, and what the settings say instead.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    set: Vec<(Codes, Class)>,
}

const SETTINGS: [(&str, Class); 4] = [
    (keys::SUCCESS_ON, Class::Success),
    (keys::RETRY_ON, Class::Retry),
    (keys::REJECT_ON, Class::Reject),
    (keys::UNAVAILABLE_ON, Class::Unavailable),
];

impl Classes {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut set: Vec<(&str, Codes, Class)> = Vec::new();
        for (key, class) in SETTINGS {
            for item in reader.list(key) {
                let Some(codes) = parse(&item) else {
                    reader.fault(
                        key,
                        format!("{item:?} is neither a status (404) nor a range (500-599)"),
                    );
                    continue;
                };
                let taken = set.iter().find(|(_, other, _)| overlap(other, &codes));
                if let Some((other, ..)) = taken {
                    reader.fault(key, format!("{item} is in {other} too; leave it in one"));
                }
                set.push((key, codes, class));
            }
        }
        let set = set.into_iter().map(|(_, codes, class)| (codes, class));
        Self { set: set.collect() }
    }

    /// Of a single record's result in an answer.
    pub(super) fn of(&self, status: u16) -> Class {
        self.set_for(status).unwrap_or_else(|| usual(status))
    }

    /// Of an answer from an address that all records have: what is wrong with
    /// address or method is wrong whatever the record.
    pub(super) fn of_fixed_address(&self, status: u16) -> Class {
        let set = self.set_for(status);
        set.unwrap_or_else(|| match is_about_the_address(status) {
            true => Class::Unavailable,
            false => usual(status),
        })
    }

    /// Of the answer to a tombstone's DELETE: what was to be gone is gone, also
    /// when the tombstone comes again or there never was anything.
    pub(super) fn of_delete(&self, status: u16) -> Class {
        let set = self.set_for(status);
        set.unwrap_or_else(|| match status {
            404 | 410 => Class::Success,
            _ => usual(status),
        })
    }

    fn set_for(&self, status: u16) -> Option<Class> {
        let set = self.set.iter().find(|(codes, _)| codes.contains(&status));
        set.map(|(_, class)| *class)
    }
}

/// Not found, method not allowed, gone, method and version not known.
pub(super) const fn is_about_the_address(status: u16) -> bool {
    matches!(status, 404 | 405 | 410 | 501 | 505)
}

fn usual(status: u16) -> Class {
    match status {
        200..=299 => Class::Success,
        // A redirection that is not followed comes from a setting, not from
        // the record.
        300..=399 | 401 | 403 | 407 | 429 | 503 => Class::Unavailable,
        501 | 505 => Class::Reject,
        408 | 425 | 500..=599 => Class::Retry,
        400..=499 => Class::Reject,
        _ => Class::Retry,
    }
}

fn parse(item: &str) -> Option<Codes> {
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let code = |text: &str| {
        let code: u16 = text.trim().parse().ok()?;
        (100..=599).contains(&code).then_some(code)
    };
    let (first, last) = (code(first)?, code(last)?);
    (first <= last).then_some(first..=last)
}

fn overlap(left: &Codes, right: &Codes) -> bool {
    left.start() <= right.end() && right.start() <= left.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definition::{Faults, Properties};

    fn read(settings: &[(&str, &str)]) -> (Classes, Faults) {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let properties: Properties = settings.iter().map(owned).collect();
        let mut faults = Faults::default();
        let classes = Classes::read(&mut Reader::new(&properties, "", keys::KEYS, &mut faults));
        (classes, faults)
    }

    #[test]
    fn each_status_has_its_class() {
        let (classes, _) = read(&[]);
        for (class, codes) in [
            (Class::Success, vec![200, 201, 202, 204, 299]),
            (Class::Retry, vec![408, 425, 500, 502, 504, 507, 599, 600]),
            (
                Class::Reject,
                vec![400, 404, 405, 409, 410, 413, 422, 501, 505],
            ),
            (
                Class::Unavailable,
                vec![301, 302, 307, 401, 403, 407, 429, 503],
            ),
        ] {
            for code in codes {
                assert_eq!(classes.of(code), class, "{code}");
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_fixed_address_is_no_records_fault() {
        let (classes, _) = read(&[]);
        for code in [404, 405, 410, 501, 505] {
            assert_eq!(classes.of_fixed_address(code), Class::Unavailable, "{code}");
            assert_eq!(classes.of(code), Class::Reject, "{code}");
        }
        for code in [200, 400, 401, 409, 413, 415, 422, 429, 500, 503] {
            let usual = classes.of(code);
            assert_eq!(classes.of_fixed_address(code), usual, "{code}");
        }
        let (classes, _) = read(&[("reject.on.status.codes", "404")]);
        assert_eq!(classes.of_fixed_address(404), Class::Reject, "as it is set");
    }

    #[test]
    fn settings_change_single_statuses_and_ranges() {
        let (classes, faults) = read(&[
            ("success.on.status.codes", "409"),
            ("retry.on.status.codes", "404, 429"),
            ("reject.on.status.codes", "500-502"),
            ("unavailable.on.status.codes", "504"),
        ]);
        assert!(faults.is_empty(), "{faults}");
        let classed = [409, 404, 429, 500, 502, 503, 504].map(|code| classes.of(code));
        let expected = [
            Class::Success,
            Class::Retry,
            Class::Retry,
            Class::Reject,
            Class::Reject,
            Class::Unavailable,
            Class::Unavailable,
        ];
        assert_eq!(classed, expected);
    }

    #[test]
    fn what_a_delete_does_not_find_is_gone_unless_the_settings_say_otherwise() {
        let (classes, _) = read(&[]);
        for code in [404, 410] {
            assert_eq!(classes.of_delete(code), Class::Success, "{code}");
        }
        for code in [200, 204, 400, 401, 405, 409, 429, 500, 501, 503] {
            assert_eq!(classes.of_delete(code), classes.of(code), "{code}");
        }
        let (classes, _) = read(&[("reject.on.status.codes", "404")]);
        assert_eq!(classes.of_delete(404), Class::Reject);
        assert_eq!(classes.of_delete(410), Class::Success);
    }

    #[test]
    fn what_is_no_status_or_stands_twice_is_refused_by_key() {
        let (_, faults) = read(&[
            ("success.on.status.codes", "409, 4xx"),
            ("retry.on.status.codes", "700, 510-500"),
            ("reject.on.status.codes", "400-410"),
        ]);
        let found: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].starts_with("success.on.status.codes: \"4xx\""));
        assert_eq!(
            found[3],
            "reject.on.status.codes: 400-410 is in success.on.status.codes too; leave it in one"
        );
    }
}
