//! Which values are never shown, and how the others are.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::definition::{Key, Kind};

/// What stands in place of a secret.
pub const HIDDEN: &str = "[hidden]";

/// Parts of a name that tell a secret. Too many rather than too few: a hidden
/// setting costs a look into the file, a shown password costs more.
const TELLTALES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "token",
    "jaas",
    "user.info",
    "userinfo",
    "apikey",
    "authorization",
];

/// Whether a key of that name holds a secret, whatever its table says.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with(".key")
        || name.ends_with("_key")
        || TELLTALES.iter().any(|telltale| name.contains(telltale))
}

/// Whether a value of this key is never shown.
#[must_use]
pub fn hides(name: &str, key: Option<&Key>) -> bool {
    key.is_some_and(|key| key.kind == Kind::Secret) || is_secret(name)
}

/// A value as it may be shown.
#[must_use]
pub fn shown<'a>(name: &str, key: Option<&Key>, value: &'a str) -> Cow<'a, str> {
    if hides(name, key) && !value.is_empty() {
        return Cow::Borrowed(HIDDEN);
    }
    scrub(value)
}

/// `user:password@` before a host.
static USER_INFO: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?<scheme>://)\S*@").ok());

/// `password=...` and its kin among the parameters of an address, or between
/// the semicolons of a JDBC one.
static PARAMETER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?<name>[\w.-]*(?:password|passwd|secret|token|credential|apikey|api_key|signature)[\w.-]*\s*=\s*)(?<value>[^&;\s,]+)",
    )
    .ok()
});

/// Hides passwords inside addresses: `user:password@host`, `?password=...`.
#[must_use]
pub fn scrub(value: &str) -> Cow<'_, str> {
    let mut value = Cow::Borrowed(value);
    let rules = [
        (&*USER_INFO, format!("${{scheme}}{HIDDEN}@")),
        (&*PARAMETER, format!("${{name}}{HIDDEN}")),
    ];
    for (pattern, replacement) in rules {
        if let Some(pattern) = pattern
            && pattern.is_match(&value)
        {
            value = Cow::Owned(
                pattern
                    .replace_all(&value, replacement.as_str())
                    .into_owned(),
            );
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definition::Preset;

    #[test]
    fn names_that_tell_a_secret_are_hidden() {
        for name in [
            "sasl.jaas.config",
            "ssl.keystore.key",
            "ssl.key.password",
            "value.converter.basic.auth.user.info",
            "aws.secret.access.key",
            "consumer.override.sasl.jaas.config",
            "http.authorization.header",
        ] {
            assert_eq!(shown(name, None, "hush"), HIDDEN, "{name}");
        }
        for name in ["key.converter", "topics", "share.order", "errors.tolerance"] {
            assert_eq!(shown(name, None, "plain"), "plain", "{name}");
        }
    }

    #[test]
    fn a_table_can_declare_any_name_secret() {
        let key = Key {
            name: "dsn",
            kind: Kind::Secret,
            preset: Preset::Unset,
            doc: "",
        };
        assert_eq!(shown("dsn", Some(&key), "hush"), HIDDEN);
    }

    #[test]
    fn passwords_inside_addresses_are_hidden() {
        assert_eq!(
            scrub("postgres://alice:hush@db:5432/orders?ssl=true"),
            "postgres://[hidden]@db:5432/orders?ssl=true"
        );
        assert_eq!(
            scrub("jdbc:sqlserver://db;user=sa;Password=hush;encrypt=true"),
            "jdbc:sqlserver://db;user=sa;Password=[hidden];encrypt=true"
        );
        assert_eq!(
            scrub("https://host/x?access_token=hush&y=1"),
            "https://host/x?access_token=[hidden]&y=1"
        );
        assert_eq!(scrub("mail@example.com"), "mail@example.com");
    }
}
