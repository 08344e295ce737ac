//! Credentials, fixed and fetched.

use super::*;

#[tokio::test]
async fn basic_and_static_credentials_are_sent() {
    let receiver = receiver(|_| Reply::ok()).await;
    for (settings, expected) in [
        (
            vec![
                ("http.authorization.type", "basic"),
                ("connection.user", "alice"),
                ("connection.password", "hush"),
            ],
            "Basic YWxpY2U6aHVzaA==",
        ),
        (
            vec![
                ("http.authorization.type", "static"),
                ("http.headers.authorization", "ApiKey abc"),
            ],
            "ApiKey abc",
        ),
    ] {
        let mut sink = sink(&receiver.url("/"), &settings).await;
        assert_eq!(fate(sink.as_mut(), "a").await.0, "delivered");
        let last = receiver.arrivals().last().unwrap().clone();
        assert_eq!(last.header("authorization"), Some(expected));
    }
}

/// An endpoint that takes the newest token of `/token` only. A token is
/// renewed when `refused` says so of a body.
async fn guarded(answer: &'static str) -> Receiver {
    let issued = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    receiver(move |arrival| {
        use std::sync::atomic::Ordering::SeqCst;
        if arrival.path == "/token" {
            let number = issued.fetch_add(1, SeqCst) + 1;
            return Reply::body(200, answer.replace('N', &number.to_string()));
        }
        let number = issued.load(SeqCst);
        let sent = arrival.header("authorization").unwrap_or_default();
        match arrival.text().as_str() {
            // The token has been revoked meanwhile.
            "revoked" if sent == "Bearer token-1" => Reply::status(401),
            "refused" => Reply::body(401, format!("{sent} is not enough")),
            _ if sent == format!("Bearer token-{number}") => Reply::ok(),
            _ => Reply::status(401),
        }
    })
    .await
}

fn oauth(receiver: &Receiver) -> Vec<(&'static str, String)> {
    vec![
        ("http.authorization.type", "oauth2".into()),
        ("oauth2.access.token.url", receiver.url("/token")),
        ("oauth2.client.id", "me".into()),
        ("oauth2.client.secret", "hush&hush".into()),
        ("oauth2.client.scope", "write all".into()),
    ]
}

fn guarded_sink(receiver: &Receiver, more: &[(&'static str, &str)]) -> Arc<dyn SinkFactory> {
    let owned = oauth(receiver);
    let mut settings: Vec<_> = owned
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    settings.extend(more);
    factory(&receiver.url("/in"), &settings)
}

fn tokens(receiver: &Receiver) -> Vec<Arrival> {
    let mut arrivals = receiver.arrivals().clone();
    arrivals.retain(|it| it.path == "/token");
    arrivals
}

#[tokio::test]
async fn one_token_serves_all_tasks() {
    let receiver = guarded(r#"{"access_token":"token-N","expires_in":3600}"#).await;
    let factory = guarded_sink(&receiver, &[]);
    let tasks = (0..20).map(|number| {
        let factory = Arc::clone(&factory);
        async move {
            fate(opened(factory.as_ref(), number).await.as_mut(), "a")
                .await
                .0
        }
    });
    let fates = futures::future::join_all(tasks).await;
    assert!(fates.iter().all(|it| *it == "delivered"), "{fates:?}");
    let tokens = tokens(&receiver);
    assert_eq!(tokens.len(), 1);
    assert_eq!(
        tokens[0].text(),
        "grant_type=client_credentials&scope=write%20all"
    );
    let basic = tokens[0].header("authorization").unwrap();
    assert_eq!(basic, "Basic bWU6aHVzaCZodXNo");
}

#[tokio::test]
async fn a_client_may_be_named_in_the_form() {
    let receiver = guarded(r#"{"id_token":"token-N"}"#).await;
    let more = [
        ("oauth2.client.authorization.mode", "url"),
        ("oauth2.response.token.property", "id_token"),
    ];
    let mut sink = opened(guarded_sink(&receiver, &more).as_ref(), 0).await;
    assert_eq!(fate(sink.as_mut(), "a").await.0, "delivered");
    let token = &tokens(&receiver)[0];
    assert!(
        token
            .text()
            .ends_with("&client_id=me&client_secret=hush%26hush")
    );
    assert_eq!(token.header("authorization"), None);
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires_and_when_it_is_refused() {
    let short_lived = guarded(r#"{"access_token":"token-N","expires_in":"0"}"#).await;
    let mut sink = opened(guarded_sink(&short_lived, &[]).as_ref(), 0).await;
    for _ in 0..2 {
        assert_eq!(fate(sink.as_mut(), "a").await.0, "delivered");
    }
    assert_eq!(tokens(&short_lived).len(), 2);

    let receiver = guarded(r#"{"access_token":"token-N"}"#).await;
    let mut sink = opened(guarded_sink(&receiver, &[]).as_ref(), 0).await;
    assert_eq!(fate(sink.as_mut(), "revoked").await.0, "delivered");
    assert_eq!(tokens(&receiver).len(), 2, "once more with a new one");

    let (told, cause) = fate(sink.as_mut(), "refused").await;
    assert_eq!(told, "unavailable");
    assert!(!cause.contains("token-"), "{cause}");
    assert_eq!(tokens(&receiver).len(), 3, "and no more than once");
}

#[tokio::test]
async fn without_a_token_the_sink_is_unavailable_and_says_why() {
    for (reply, says) in [
        (
            Reply::body(401, "hush&hush is wrong for me"),
            "401 Unauthorized [hidden] is wrong",
        ),
        (Reply::body(200, "<html>"), "no JSON"),
        (Reply::body(200, "{}"), "no text \"access_token\""),
        (Reply::Reset, "no OAuth2 token from http://127.0.0.1"),
    ] {
        let receiver = receiver(move |_| reply.clone()).await;
        let mut sink = opened(guarded_sink(&receiver, &[]).as_ref(), 0).await;
        let (told, cause) = fate(sink.as_mut(), "a").await;
        assert_eq!(told, "unavailable");
        assert!(cause.contains(says) && !cause.contains("hush"), "{cause}");
        assert_eq!(receiver.count(), 1, "the record does not go out");
    }
}
