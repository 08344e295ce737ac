//! HTTPS with authorities of one's own, and certificates for clients.

use sluice_test_support::tls::Certificates;

use super::*;

/// A server that asks clients for a certificate of the same authority.
async fn secure(certificates: &Certificates) -> Receiver {
    let config = certificates.server_config().unwrap();
    Receiver::start_tls(config, |_| Reply::ok()).await.unwrap()
}

#[tokio::test]
async fn only_known_authorities_are_trusted_and_clients_show_their_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::create(folder.path()).unwrap();
    let receiver = secure(&certificates).await;
    let url = receiver.url("/in");
    let trust = (
        "https.ssl.truststore.location",
        certificates.ca.to_str().unwrap(),
    );
    let identity = (
        "https.ssl.keystore.location",
        certificates.client.to_str().unwrap(),
    );

    let (told, cause) = fate(sink(&url, &[]).await.as_mut(), "a").await;
    assert_eq!(told, "unavailable", "a public authority did not sign it");
    assert!(cause.contains("certificate"), "{cause}");
    // The server refuses after the client is through with its part.
    let (told, _) = fate(sink(&url, &[trust]).await.as_mut(), "a").await;
    assert!(["unavailable", "retry"].contains(&told), "{told}");
    assert_eq!(receiver.count(), 0);
    let (told, cause) = fate(sink(&url, &[trust, identity]).await.as_mut(), "a").await;
    assert_eq!(told, "delivered", "{cause}");
}
