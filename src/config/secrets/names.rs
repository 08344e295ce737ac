//! Which names tell a secret.

/// Parts of a name that tell one, run together or not: `api.key`, `apiKey`,
/// `my_apikey`.
const TELLTALES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "credential",
    "jaas",
    "userinfo",
    "authorization",
    "authheader",
    "cookie",
    "signature",
    "connectionstring",
    "apikey",
    "accesskey",
    "accountkey",
    "privatekey",
    "sharedkey",
    "accesstoken",
    "apitoken",
    "authtoken",
];

/// Words that tell one only when they stand alone: `sas`, but not `sasl`.
const WORDS: &[&str] = &["sas", "sig", "pwd", "bearer"];

/// Words that tell one only at the end: `redis.pass`, but not `pass.through`.
const LAST_WORDS: &[&str] = &["pass", "license"];

/// Words at the end that say what the value is instead: `token.endpoint.url`.
/// An address is cleaned by its own rule.
const OTHER_THINGS: &[&str] = &[
    "algorithm",
    "class",
    "count",
    "enable",
    "enabled",
    "field",
    "fields",
    "file",
    "format",
    "interval",
    "length",
    "limit",
    "location",
    "mode",
    "ms",
    "name",
    "names",
    "path",
    "policy",
    "property",
    "provider",
    "seconds",
    "size",
    "source",
    "type",
    "version",
];

const ADDRESSES: &[&str] = &["url", "urls", "uri", "uris", "endpoint", "endpoints"];

/// Keys by which data is found, sorted or parted. Any other key opens something.
const KEYS_OF_DATA: &[&str] = &[
    "cache",
    "clustering",
    "composite",
    "dedup",
    "deduplication",
    "distribution",
    "document",
    "event",
    "foreign",
    "group",
    "grouping",
    "hash",
    "header",
    "idempotency",
    "join",
    "message",
    "metadata",
    "null",
    "object",
    "order",
    "ordering",
    "partition",
    "partitioning",
    "primary",
    "public",
    "range",
    "record",
    "routing",
    "row",
    "shard",
    "sharding",
    "sort",
    "unique",
];

/// Whether a key of that name holds a secret. Too many rather than too few: a
/// hidden setting costs a look into the file, a shown password costs more.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let words = words(name);
    let Some((last, before)) = words.split_last() else {
        return false;
    };
    let last = last.as_str();
    if OTHER_THINGS.contains(&last) || ADDRESSES.contains(&last) {
        return false;
    }
    let together = words.concat();
    TELLTALES.iter().any(|it| together.contains(it))
        || words.iter().any(|word| tells(word))
        || LAST_WORDS.contains(&last)
        || (last == "key" && before.last().is_some_and(|of| !is_of_data(of)))
}

/// Whether a key of that name holds an address, which may hold a secret.
#[must_use]
pub fn is_address(name: &str) -> bool {
    let words = words(name);
    words
        .last()
        .is_some_and(|it| ADDRESSES.contains(&it.as_str()))
}

fn tells(word: &str) -> bool {
    // Not `tokenizer`, and `max.tokens` are none either.
    WORDS.contains(&word) || word.ends_with("token")
}

fn is_of_data(word: &str) -> bool {
    KEYS_OF_DATA.contains(&word)
}

/// In small letters, parted at signs and where a capital begins a word.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        let begins = !letter.is_alphanumeric() || (was_small && letter.is_uppercase());
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase() || letter.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known() {
        for name in [
            "password",
            "ssl.key.password",
            "connection.passwd",
            "db.pwd",
            "redis.pass",
            "private.key.passphrase",
            "snowflake.private.key",
            "gcp.private_key.pem",
            "sasl.jaas.config",
            "consumer.override.sasl.jaas.config",
            "producer.override.ssl.keystore.key",
            "sasl.oauthbearer.client.credentials.client.secret",
            "aws.secret.access.key",
            "aws.access.key.id",
            "aws.session.token",
            "azure.sas.token",
            "azblob.sas",
            "AccountKey",
            "SharedAccessKey",
            "connection.string",
            "api.key",
            "apiKey",
            "apikey",
            "x-api-key",
            "DD_API_KEY",
            "datadog.key",
            "splunk.hec.token",
            "accessToken",
            "auth_tokens",
            "http.headers.authorization",
            "http.authorization.header",
            "proxy.auth.header",
            "request.cookie",
            "cookies",
            "hmac.signature",
            "sig",
            "value.converter.basic.auth.user.info",
            "gcs.credentials.json",
            "http.bearer",
            "confluent.license",
            "transforms.Max.secret",
        ] {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn harmless_names_that_look_alike_are_left() {
        for name in [
            "",
            "key",
            "key.converter",
            "key.converter.schemas.enable",
            "transforms.createKey.fields",
            "transforms.createKey.type",
            "message.key",
            "routing.key",
            "partition.key",
            "public.key",
            "idempotency.key.from",
            "idempotency.key.header",
            "max.tokens",
            "tokens.per.second",
            "tokenizer",
            "token.expiry.ms",
            "password.min.length",
            "oauth2.access.token.url",
            "oauth2.response.token.property",
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.mechanism",
            "sasl.login.callback.handler.class",
            "ssl.keystore.location",
            "ssl.keystore.type",
            "ssl.client.auth",
            "http.authorization.type",
            "credentials.provider.class",
            "value.converter.basic.auth.credentials.source",
            "gcs.credentials.path",
            "SharedAccessKeyName",
            "signature.algorithm",
            "errors.pass.through",
            "compass.heading",
            "topics",
            "share.order",
            "errors.tolerance",
            "connection.user",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn an_address_is_known_by_its_last_word() {
        assert!(is_address("http.url") && is_address("mongo.connection.uri"));
        assert!(!is_address("url.pattern") && !is_address(""));
    }
}
