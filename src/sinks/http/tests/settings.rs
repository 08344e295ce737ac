//! What settings are refused, by key and with what to do.

use super::*;

const URL: (&str, &str) = ("http.url", "http://localhost/in");

fn faults(settings: &[(&str, &str)]) -> Vec<String> {
    let (factory, faults) = read(settings);
    assert_eq!(factory.is_none(), !faults.is_empty());
    faults.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn an_address_is_all_that_is_needed() {
    assert!(faults(&[URL]).is_empty());
    assert_eq!(faults(&[]), ["http.url: is required and not set"]);
}

#[tokio::test]
async fn each_bad_setting_is_told_by_its_key() {
    for (key, value, says) in [
        ("http.url", "localhost:80/in", "http:"),
        ("request.method", "GET", "not one of POST, PUT"),
        ("http.headers.content.type", "a\nb", "cannot be the value"),
        ("http.headers.additional", "no-colon", "its item 1"),
        (
            "http.headers.additional",
            "a:b, Authorization: x",
            "http.authorization.type",
        ),
        (
            "http.headers.additional",
            "content-type: x",
            "http.headers.content.type",
        ),
        ("http.headers.additional", "Host: x", "remove it"),
        ("http.headers.forward", "a, b c", "\"b c\""),
        ("http.headers.forward", "a, *", "* alone"),
        ("http.headers.forward", "Authorization", "cannot be set"),
        (
            "http.authorization.type",
            "digest",
            "not one of none, basic",
        ),
        ("connection.password", "hush", "set that to basic"),
        ("http.headers.authorization", "hush", "set that to static"),
        ("oauth2.client.secret", "hush", "set that to oauth2"),
        (
            "behavior.on.null.values",
            "delete",
            "needs ${key} in http.url",
        ),
        ("http.request.timeout.ms", "0", "longer than 0"),
        ("max.in.flight.requests", "0", "not between 1 and 1000"),
        ("idempotency.key.header", "a b", "choose another"),
        ("retry.on.status.codes", "4xx", "range (500-599)"),
        (
            "response.item.error.pointer",
            "/e",
            "without response.items.pointer",
        ),
        (
            "https.ssl.truststore.location",
            "/nowhere.pem",
            "cannot be read",
        ),
        (
            "https.ssl.keystore.location",
            "Cargo.toml",
            "no unlocked private key",
        ),
    ] {
        let mut settings = vec![(key, value)];
        if key != URL.0 {
            settings.push(URL);
        }
        let found = faults(&settings);
        let [fault] = found.as_slice() else {
            panic!("{key}={value}: {found:?}");
        };
        assert!(fault.starts_with(&format!("{key}: ")), "{fault}");
        assert!(fault.contains(says), "{fault}");
        assert!(!fault.contains("hush"), "{fault}");
    }
}

#[tokio::test]
async fn credentials_must_be_whole() {
    let of = |kind| faults(&[URL, ("http.authorization.type", kind)]);
    let missing =
        |kind, key| format!("{key}: is required with http.authorization.type={kind} and not set");
    assert_eq!(
        of("static"),
        [missing("static", "http.headers.authorization")]
    );
    assert_eq!(
        of("basic"),
        [
            missing("basic", "connection.user"),
            missing("basic", "connection.password")
        ]
    );
    assert_eq!(
        of("oauth2"),
        [
            missing("oauth2", "oauth2.access.token.url"),
            missing("oauth2", "oauth2.client.id"),
            missing("oauth2", "oauth2.client.secret")
        ]
    );
}

#[tokio::test]
async fn a_batch_has_neither_one_key_nor_one_records_headers() {
    let settings = [
        ("http.url", "http://h/${key}"),
        ("batching.enabled", "true"),
        ("http.headers.forward", "*"),
    ];
    let found = faults(&settings);
    assert!(found[0].starts_with("http.headers.forward: cannot be used with batching.enabled"));
    assert!(found[1].starts_with("http.url: has ${key}, but with batching.enabled"));
}

#[test]
fn settings_can_be_checked_before_anything_runs() {
    assert!(faults(&[URL]).is_empty());
}

#[tokio::test]
async fn a_sink_that_deduplicates_by_key_says_so() {
    let traits = |from| factory(URL.1, &[("idempotency.key.from", from)]).traits();
    assert!(traits("topic").idempotent && !traits("none").idempotent);
    assert!(!traits("topic").buffers);
}
