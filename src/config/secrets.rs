//! Which values are never shown, and how the others are.

mod addresses;
mod names;
mod texts;

use std::borrow::Cow;

use super::definition::{Key, Kind};
use super::layers::Settings;

pub use addresses::address;
pub use names::{is_address, is_secret};
pub use texts::scrub;

/// What stands in place of a secret.
pub const HIDDEN: &str = "[hidden]";

/// Wherever a private key was put, also where only a certificate belongs.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Whether a value of this key is never shown. A table cannot declare away
/// what the name tells, but a number or a choice holds no secret.
#[must_use]
pub fn hides(name: &str, key: Option<&Key>) -> bool {
    match key.map(|key| key.kind) {
        Some(Kind::Secret) => true,
        Some(
            Kind::Boolean | Kind::Int { .. } | Kind::DurationMs | Kind::Size | Kind::Choice(_),
        ) => false,
        Some(Kind::Text | Kind::List) | None => is_secret(name),
    }
}

/// A value as it may be shown.
#[must_use]
pub fn shown<'a>(name: &str, key: Option<&Key>, value: &'a str) -> Cow<'a, str> {
    if value.is_empty() {
        return Cow::Borrowed(value);
    }
    if hides(name, key) || value.contains(PRIVATE_KEY) {
        return Cow::Borrowed(HIDDEN);
    }
    match address(value) {
        Cow::Borrowed(value) => scrub(value),
        Cow::Owned(address) => Cow::Owned(scrub(&address).into_owned()),
    }
}

/// A setting as it may be shown: where config providers have filled it in, what
/// they were asked for.
#[must_use]
pub fn setting<'a>(settings: &'a Settings, name: &str, key: Option<&Key>) -> Option<Cow<'a, str>> {
    let written = settings.as_written(name)?;
    if settings.is_filled_in(name) && is_one_reference(written) {
        return Some(Cow::Borrowed(written));
    }
    Some(shown(name, key, written))
}

/// Such a value has nothing beside the reference that could be a secret.
fn is_one_reference(written: &str) -> bool {
    written.starts_with("${") && written.find('}') == Some(written.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definition::Preset;

    fn key(kind: Kind) -> Key {
        Key {
            name: "",
            kind,
            preset: Preset::Unset,
            doc: "",
        }
    }

    #[test]
    fn a_table_can_declare_any_name_secret_and_none_harmless() {
        assert_eq!(shown("dsn", Some(&key(Kind::Secret)), "hush"), HIDDEN);
        assert_eq!(shown("api.token", Some(&key(Kind::Text)), "hush"), HIDDEN);
        assert_eq!(shown("api.token", None, "hush"), HIDDEN);
        assert_eq!(shown("api.token", None, ""), "", "there is none");
    }

    #[test]
    fn a_number_is_shown_whatever_its_name() {
        for kind in [Kind::Size, Kind::DurationMs, Kind::Choice(&["7"])] {
            assert_eq!(shown("token", Some(&key(kind)), "7"), "7");
        }
    }

    #[test]
    fn a_private_key_is_hidden_where_only_a_certificate_belongs() {
        let pem = "-----BEGIN CERTIFICATE-----\nx\n-----BEGIN PRIVATE KEY-----\nhush";
        assert_eq!(shown("ssl.keystore.certificate.chain", None, pem), HIDDEN);
        let pem = "-----BEGIN CERTIFICATE-----\nx";
        assert_eq!(shown("ssl.keystore.certificate.chain", None, pem), pem);
    }

    #[test]
    fn both_addresses_and_what_stands_beside_them_are_cleaned() {
        assert_eq!(
            shown("x", None, "password=hush https://h/hush"),
            "password=[hidden] https://h/[hidden]"
        );
    }
}
