//! OAUTHBEARER.

use sluice_test_support::token_server::TokenServer;

use super::token::{millis, now};
use super::*;

const OAUTH: (&str, &str) = ("sasl.mechanism", "OAUTHBEARER");
const TOKEN_URL: &str = "sasl.oauthbearer.token.endpoint.url";

fn oauth_jaas(options: &str) -> String {
    format!(
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {options};"
    )
}

#[test]
fn oauthbearer_has_one_source_for_both_clients() {
    let jaas = oauth_jaas(r#"clientId="c" clientSecret="hush" scope="kafka""#);
    let pairs = [
        ("security.protocol", "SASL_SSL"),
        OAUTH,
        ("sasl.jaas.config", jaas.as_str()),
        (TOKEN_URL, "https://idp/token"),
        (
            "sasl.login.callback.handler.class",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        ),
    ];
    let (client, faults) = read(&pairs);
    assert_eq!(faults, "");
    assert_eq!(
        client.auth().sasl_mechanism(),
        Some(&SaslMechanism::OAuthBearer)
    );
    assert_eq!(
        client.librdkafka().get("sasl.mechanism"),
        Some("OAUTHBEARER")
    );
    assert!(client.token_source().is_some());
    let printed = format!("{client:?} {:?}", client.auth());
    assert!(!printed.contains("hush"), "{printed}");

    // Kafka's newer names for the same.
    let (newer, faults) = read(&[
        pairs[0],
        OAUTH,
        ("sasl.jaas.config", &oauth_jaas("")),
        pairs[3],
        ("sasl.oauthbearer.client.credentials.client.id", "c"),
        ("sasl.oauthbearer.client.credentials.client.secret", "hush"),
        ("sasl.oauthbearer.scope", "kafka"),
    ]);
    assert_eq!(faults, "");
    assert_eq!(newer.token_source(), client.token_source());
}

#[tokio::test]
async fn a_connection_authenticates_anew_with_a_token_that_is_just_fetched() {
    let jaas =
        oauth_jaas(r#"unsecuredLoginStringClaim_sub="alice" unsecuredLoginLifetimeSeconds="60""#);
    let (client, faults) = read(&[
        ("security.protocol", "SASL_PLAINTEXT"),
        OAUTH,
        ("sasl.jaas.config", &jaas),
    ]);
    assert_eq!(faults, "");
    let before = millis(now());
    let fresh = client.credentials().fresh().await.unwrap();
    assert_eq!(fresh.sasl_mechanism(), Some(&SaslMechanism::OAuthBearer));
    let token = fresh.oauthbearer_token().unwrap();
    assert!(token.lifetime_ms().unwrap() >= before + 60_000);
}

#[test]
fn credentials_are_encoded_only_if_asked_for() {
    let with = |more: &[(&str, &str)]| {
        let jaas = oauth_jaas(r#"clientId="c" clientSecret="hush""#);
        let base = [
            ("security.protocol", "SASL_SSL"),
            OAUTH,
            ("sasl.jaas.config", &jaas),
            (TOKEN_URL, "https://idp/token"),
        ];
        read(&base.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let encoded = |value| with(&[("sasl.oauthbearer.header.urlencode", value)]);
    let (plain, _) = with(&[]);
    assert_eq!(encoded("false").0.token_source(), plain.token_source());
    assert_ne!(encoded("true").0.token_source(), plain.token_source());
    let (_, faults) = encoded("yes");
    assert_eq!(
        faults,
        "sasl.oauthbearer.header.urlencode: \"yes\" is neither true nor false"
    );
    let (_, faults) = with(&[("sasl.login.read.timeout.ms", "soon")]);
    assert_eq!(
        faults,
        "sasl.login.read.timeout.ms: \"soon\" is not a number of milliseconds"
    );
}

#[test]
fn an_unsecured_token_needs_a_subject_and_no_endpoint() {
    let with = |jaas: &str, more: &[(&str, &str)]| {
        let jaas = oauth_jaas(jaas);
        let base = [
            ("security.protocol", "SASL_PLAINTEXT"),
            OAUTH,
            ("sasl.jaas.config", &jaas),
        ];
        read(&base.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let (client, faults) = with(r#"unsecuredLoginStringClaim_sub="alice""#, &[]);
    assert_eq!(faults, "");
    let token = client.token_source().unwrap().fetch_blocking().unwrap();
    assert_eq!(token.principal, "alice");
    for (jaas, more, fault) in [
        (
            "",
            &[][..],
            "sasl.jaas.config: has no unsecuredLoginStringClaim_sub",
        ),
        (
            r#"unsecuredLoginStringClaim_sub="a" extension_x="hush""#,
            &[],
            "sasl.jaas.config: has the option extension_x, which cannot be honoured",
        ),
        (
            r#"clientId="c""#,
            &[(TOKEN_URL, "https://idp/token")],
            "sasl.jaas.config: has no clientSecret, and sasl.oauthbearer.client.credentials.client.secret is not set either",
        ),
        (
            r#"clientId="c" clientSecret="hush""#,
            &[(TOKEN_URL, "http://idp/token")],
            "sasl.oauthbearer.token.endpoint.url: would send the client's secret in clear; use https",
        ),
        (
            r#"unsecuredLoginStringClaim_sub="a""#,
            &[("sasl.login.callback.handler.class", "com.example.Mine")],
            "sasl.login.callback.handler.class: cannot be honoured: Java classes are not loaded",
        ),
    ] {
        let (_, faults) = with(jaas, more);
        assert!(faults.starts_with(fault), "{faults}");
        assert!(!faults.contains("hush"), "{faults}");
    }
}

#[tokio::test]
async fn an_endpoint_gives_a_token_for_the_right_secret_only() {
    let lifetime = Duration::from_secs(60);
    let server = TokenServer::start("sluice", "hush", lifetime)
        .await
        .unwrap();
    let fetched = async |secret: &str| {
        let jaas = oauth_jaas(&format!("clientId=\"sluice\" clientSecret=\"{secret}\""));
        let (client, faults) = read(&[
            ("security.protocol", "SASL_PLAINTEXT"),
            OAUTH,
            ("sasl.jaas.config", &jaas),
            (TOKEN_URL, server.url()),
        ]);
        assert_eq!(faults, "");
        client.token_source().unwrap().fetch().await
    };
    let token = fetched("hush").await.unwrap();
    assert_eq!(token.principal, "sluice");
    assert!(!format!("{token:?}").contains(token.text.reveal()));
    let error = fetched("wrong").await.unwrap_err();
    assert!(matches!(error, TokenError::Refused { .. }), "{error:?}");
    let told = error.to_string();
    let origin = server.url().strip_suffix("/token").unwrap();
    assert!(
        told.contains(origin) && told.contains("invalid_client"),
        "{told}"
    );
    for secret in ["wrong", "/token"] {
        assert!(!told.contains(secret), "{told}");
    }
}
