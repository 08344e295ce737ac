//! The keys of the http sink. Where Connect's HTTP sinks have a name for a
//! thing, it is the name.

use crate::config::definition::{Key, Kind, Preset, key};

pub(super) const URL: &str = "http.url";
pub(super) const METHOD: &str = "request.method";
pub(super) const FORMAT: &str = "request.body.format";
pub(super) const CONTENT_TYPE: &str = "http.headers.content.type";
pub(super) const ADDITIONAL: &str = "http.headers.additional";
pub(super) const FORWARD: &str = "http.headers.forward";
pub(super) const TOMBSTONES: &str = "behavior.on.null.values";
pub(super) const AUTHORIZATION: &str = "http.authorization.type";
pub(super) const AUTHORIZATION_HEADER: &str = "http.headers.authorization";
pub(super) const USER: &str = "connection.user";
pub(super) const PASSWORD: &str = "connection.password";
pub(super) const TOKEN_URL: &str = "oauth2.access.token.url";
pub(super) const CLIENT_ID: &str = "oauth2.client.id";
pub(super) const CLIENT_SECRET: &str = "oauth2.client.secret";
pub(super) const SCOPE: &str = "oauth2.client.scope";
pub(super) const CLIENT_MODE: &str = "oauth2.client.authorization.mode";
pub(super) const TOKEN_PROPERTY: &str = "oauth2.response.token.property";
pub(super) const TRUST: &str = "https.ssl.truststore.location";
pub(super) const IDENTITY: &str = "https.ssl.keystore.location";
pub(super) const CONNECT_TIMEOUT: &str = "http.connect.timeout.ms";
pub(super) const REQUEST_TIMEOUT: &str = "http.request.timeout.ms";
pub(super) const RETRY_AFTER_MAX: &str = "http.retry.after.max.ms";
pub(super) const FOLLOW: &str = "http.follow.redirects";
pub(super) const IN_FLIGHT: &str = "max.in.flight.requests";
pub(super) const BATCHING: &str = "batching.enabled";
pub(super) const BATCH_SIZE: &str = "batch.max.size";
pub(super) const BATCH_PREFIX: &str = "batch.prefix";
pub(super) const BATCH_SEPARATOR: &str = "batch.separator";
pub(super) const BATCH_SUFFIX: &str = "batch.suffix";
pub(super) const IDEMPOTENCY: &str = "idempotency.key.from";
pub(super) const IDEMPOTENCY_HEADER: &str = "idempotency.key.header";
pub(super) const SUCCESS_ON: &str = "success.on.status.codes";
pub(super) const RETRY_ON: &str = "retry.on.status.codes";
pub(super) const REJECT_ON: &str = "reject.on.status.codes";
pub(super) const UNAVAILABLE_ON: &str = "unavailable.on.status.codes";
pub(super) const ITEMS: &str = "response.items.pointer";
pub(super) const ITEM_STATUS: &str = "response.item.status.pointer";
pub(super) const ITEM_ERROR: &str = "response.item.error.pointer";

pub(super) const JSON: &str = "json";
pub(super) const FAIL: &str = "fail";
pub(super) const DELETE: &str = "delete";
pub(super) const BASIC: &str = "basic";
pub(super) const STATIC: &str = "static";
pub(super) const OAUTH2: &str = "oauth2";
pub(super) const IN_BODY: &str = "url";
pub(super) const BY_TOPIC: &str = "topic";
pub(super) const BY_TOPIC_ID: &str = "topic-id";

const fn preset(name: &'static str, kind: Kind, value: &'static str, doc: &'static str) -> Key {
    key(name, kind, Preset::Value(value), doc)
}

const fn unset(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    key(name, kind, Preset::Unset, doc)
}

/// The keys of the http sink.
pub const KEYS: &[Key] = &[
    key(
        URL,
        Kind::Text,
        Preset::Required,
        "Where to send records. ${topic} and ${key} are filled in, escaped, in path and query; a \
         record whose key is missing or has no text is rejected.",
    ),
    preset(
        METHOD,
        Kind::Choice(&["POST", "PUT", "PATCH", "DELETE"]),
        "POST",
        "The method of the requests.",
    ),
    preset(
        FORMAT,
        Kind::Choice(&["raw", JSON]),
        "raw",
        "raw: bytes as they are, strings as text, all else as JSON. json: every value as JSON, \
         strings in quotes and bytes in base64.",
    ),
    unset(
        CONTENT_TYPE,
        Kind::Text,
        "The content type. If unset it follows the value: application/octet-stream for bytes, \
         text/plain for strings, application/json for all else and for batches.",
    ),
    unset(
        ADDITIONAL,
        Kind::Secret,
        "Headers of every request: name:value, parted by commas. Never shown.",
    ),
    unset(
        FORWARD,
        Kind::List,
        "Names of record headers that become headers of the request, or * for all. Headers that \
         the request has of its own are left alone; a record with a header that HTTP cannot \
         carry is rejected. Not with batching.enabled.",
    ),
    preset(
        TOMBSTONES,
        Kind::Choice(&["ignore", FAIL, DELETE]),
        "ignore",
        "Records without a value. ignore: done without a request. fail: rejected. delete: a \
         DELETE request of their own; needs ${key} in http.url.",
    ),
    preset(
        AUTHORIZATION,
        Kind::Choice(&["none", BASIC, STATIC, OAUTH2]),
        "none",
        "How requests are authorized. basic: connection.user and connection.password. static: \
         http.headers.authorization. oauth2: client credentials, by the keys of oauth2.",
    ),
    unset(
        AUTHORIZATION_HEADER,
        Kind::Secret,
        "The whole Authorization header for static, Bearer abc for example.",
    ),
    unset(USER, Kind::Text, "The user for basic."),
    unset(PASSWORD, Kind::Secret, "The password for basic."),
    unset(
        TOKEN_URL,
        Kind::Text,
        "Where OAuth2 tokens come from. A token is asked for anew before it expires, and when it \
         is refused.",
    ),
    unset(CLIENT_ID, Kind::Text, "The client's id for OAuth2."),
    unset(
        CLIENT_SECRET,
        Kind::Secret,
        "The client's secret for OAuth2.",
    ),
    unset(
        SCOPE,
        Kind::Text,
        "The scope to ask for with OAuth2, if any.",
    ),
    preset(
        CLIENT_MODE,
        Kind::Choice(&["header", IN_BODY]),
        "header",
        "How the client's id and secret are sent for a token. header: as basic authorization. \
         url: as parameters of the form.",
    ),
    preset(
        TOKEN_PROPERTY,
        Kind::Text,
        "access_token",
        "The member of the answer that has the token.",
    ),
    unset(
        TRUST,
        Kind::Text,
        "A PEM file with the authorities to trust for https. If unset, the public ones.",
    ),
    unset(
        IDENTITY,
        Kind::Text,
        "A PEM file with certificate chain and unlocked private key, for endpoints that ask for \
         a client certificate.",
    ),
    preset(
        CONNECT_TIMEOUT,
        Kind::DurationMs,
        "10000",
        "How long connecting may take, TLS included.",
    ),
    preset(
        REQUEST_TIMEOUT,
        Kind::DurationMs,
        "30000",
        "How long a request may take, from connecting to the end of the answer. Keep it well \
         below share.delivery.timeout.ms.",
    ),
    preset(
        RETRY_AFTER_MAX,
        Kind::DurationMs,
        "300000",
        "A Retry-After is kept to for this long at most.",
    ),
    preset(
        FOLLOW,
        Kind::Boolean,
        "false",
        "Whether redirections are followed: only 307 and 308, which keep method and body, and \
         only to the same host and port, as others should not get the credentials, or from http \
         to https at their usual ports.",
    ),
    preset(
        IN_FLIGHT,
        Kind::Int { min: 1, max: 1000 },
        "1",
        "How many requests a task has under way at once. With 1 the records of a put go out one \
         after the other.",
    ),
    preset(
        BATCHING,
        Kind::Boolean,
        "false",
        "Whether several records go into one request. By default as a JSON array, for values \
         that are JSON; see request.body.format for those that are not.",
    ),
    preset(
        BATCH_SIZE,
        Kind::Int {
            min: 1,
            max: 100_000,
        },
        "500",
        "How many records a batch has at most. A put has max.put.records at most, so neither \
         has a batch more.",
    ),
    preset(
        BATCH_PREFIX,
        Kind::Text,
        "[",
        "What a batch begins with; \\n, \\r, \\t and \\\\ are understood.",
    ),
    preset(
        BATCH_SEPARATOR,
        Kind::Text,
        ",",
        "What stands between the records of a batch; \\n for lines of JSON.",
    ),
    preset(BATCH_SUFFIX, Kind::Text, "]", "What a batch ends with."),
    preset(
        IDEMPOTENCY,
        Kind::Choice(&["none", BY_TOPIC, BY_TOPIC_ID]),
        "none",
        "Whether requests bear a key by which the endpoint can tell a repeated one. topic: \
         topic-partition-offset. topic-id: the same with the topic's id, which differs after a \
         topic was deleted and made again. The key of a batch stands for all its records.",
    ),
    preset(
        IDEMPOTENCY_HEADER,
        Kind::Text,
        "Idempotency-Key",
        "The header of that key.",
    ),
    unset(
        SUCCESS_ON,
        Kind::List,
        "Statuses and ranges (409, 200-299) that mean delivered, besides 2xx.",
    ),
    unset(
        RETRY_ON,
        Kind::List,
        "Statuses that mean try again later, besides 408, 425 and 5xx.",
    ),
    unset(
        REJECT_ON,
        Kind::List,
        "Statuses that mean that the record can never be delivered, besides other 4xx, and besides \
         404, 405, 410, 501 and 505 if http.url has ${topic} or ${key}.",
    ),
    unset(
        UNAVAILABLE_ON,
        Kind::List,
        "Statuses that mean that the endpoint takes nothing now, besides 3xx, 401, 403, 407, 429 \
         and 503, and besides 404, 405, 410, 501 and 505 if all records have the same http.url.",
    ),
    unset(
        ITEMS,
        Kind::Text,
        "A JSON pointer (/items) to an array in the body of a successful answer, with one result \
         for each record in their order. Needs one of the two next keys.",
    ),
    unset(
        ITEM_STATUS,
        Kind::Text,
        "A JSON pointer inside a result to its status, which is read as that of an answer.",
    ),
    unset(
        ITEM_ERROR,
        Kind::Text,
        "A JSON pointer inside a result to its error. A result that has one means that its record \
         is rejected, unless it has a status other than 2xx, which then decides.",
    ),
];
