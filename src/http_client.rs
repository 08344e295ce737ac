//! What the HTTP clients of this program share.

pub(crate) mod client_credentials;

use std::error::Error;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Response, Url};
use rustls::client::WantsClientCert;
use rustls::crypto::ring;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

/// The authorities that browsers trust.
pub(crate) fn public_roots() -> RootCertStore {
    RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned())
}

/// TLS that trusts these authorities, on the one provider there is.
pub(crate) fn tls(
    roots: RootCertStore,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots))
}

/// Scheme, host and port: what may be said of an address. The rest may hold a
/// secret.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// An error with its causes, but without the address, and without what the
/// other side said: in HTTP/2 its good-bye may have words.
pub(crate) fn told(error: &reqwest::Error) -> String {
    let causes = error.source().map(causes).unwrap_or_default();
    match causes.is_empty() {
        true if error.is_timeout() => "timed out".to_owned(),
        true => match error.status() {
            Some(status) => format!("the answer is {status}"),
            None => "the request failed".to_owned(),
        },
        false => causes,
    }
}

/// An error and what lies below it, by the same rule.
pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut causes = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let cause_text = words(cause);
        // Some causes repeat those below them.
        if !causes
            .iter()
            .any(|told: &String| told.contains(&cause_text))
        {
            causes.push(cause_text);
        }
        next = cause.source();
    }
    causes.join(": ")
}

fn words(error: &(dyn Error + 'static)) -> String {
    let reason = error
        .downcast_ref::<h2::Error>()
        .and_then(h2::Error::reason);
    reason.map_or_else(|| error.to_string(), |reason| reason.to_string())
}

/// The beginning of a body. One that goes on beyond the limit is left, and its
/// connection with it.
pub(crate) async fn read_up_to(
    mut answer: Response,
    limit: usize,
) -> Result<Bytes, reqwest::Error> {
    let mut body = BytesMut::new();
    while body.len() < limit {
        match answer.chunk().await? {
            Some(part) => body.extend_from_slice(&part[..part.len().min(limit - body.len())]),
            None => break,
        }
    }
    Ok(body.freeze())
}

const ESCAPED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Everything but letters, digits and `-._~` as `%XX`.
pub(crate) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, &ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn an_error_is_told_without_the_address() {
        // Bound and closed again: nobody listens there.
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hush?hush", socket.local_addr().unwrap());
        drop(socket);
        let tls = tls(public_roots()).unwrap().with_no_client_auth();
        let client = reqwest::Client::builder().tls_backend_preconfigured(tls);
        let client = client.no_proxy().build().unwrap();
        let refused = client.get(url).send().await.unwrap_err();
        let unknown = client.get("hush://hush").send().await.unwrap_err();
        assert!(told(&refused).contains("refused"), "{}", told(&refused));
        for error in [refused, unknown] {
            assert!(format!("{error}").contains("hush"), "{error}");
            assert!(!told(&error).contains("hush"), "{}", told(&error));
        }
    }

    /// Settings, and a good-bye with words.
    const GOOD_BYE: &[u8] = b"\0\0\0\x04\0\0\0\0\0\
        \0\0\x0c\x07\0\0\0\0\0\0\0\0\0\0\0\0\x02hush";

    #[tokio::test]
    async fn an_error_is_told_without_the_words_of_a_good_bye() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let client = reqwest::Client::builder().http2_prior_knowledge();
        let tls = tls(public_roots()).unwrap().with_no_client_auth();
        let client = client
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .build()
            .unwrap();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(GOOD_BYE).await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        };
        let (said, ()) = tokio::join!(client.get(url).send(), server);
        let error = said.unwrap_err();
        assert!(format!("{error:?}").contains("hush"), "{error:?}");
        let told = told(&error);
        assert!(!told.contains("hush"), "{told}");
        assert!(told.contains("unexpected internal error"), "{told}");
    }

    #[test]
    fn an_address_is_told_by_its_origin() {
        let url = Url::parse("https://alice:hush@h:8443/hush?hush#hush").unwrap();
        assert_eq!(origin(&url), "https://h:8443");
    }

    #[test]
    fn only_letters_digits_and_four_signs_are_sent_as_they_are() {
        assert_eq!(
            percent_encoded("aZ0-._~ &/\u{e4}"),
            "aZ0-._~%20%26%2F%C3%A4"
        );
    }
}
