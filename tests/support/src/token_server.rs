//! A token endpoint for tests: unsecured tokens for whoever has the right
//! credentials.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Lives as long as it is held.
#[derive(Debug)]
pub struct TokenServer {
    url: String,
    issued: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl TokenServer {
    /// Serves tokens that last so long, by client credentials.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start(client_id: &str, client_secret: &str, lifetime: Duration) -> Result<Self> {
        Self::start_slow(client_id, client_secret, lifetime, Duration::ZERO).await
    }

    /// The same, taking so long for each answer.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start_slow(
        client_id: &str,
        client_secret: &str,
        lifetime: Duration,
        delay: Duration,
    ) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/token", listener.local_addr()?);
        let issued = Arc::<Mutex<Vec<String>>>::default();
        let issuer = Arc::new(Issuer {
            credentials: STANDARD.encode(format!("{client_id}:{client_secret}")),
            subject: client_id.to_owned(),
            lifetime,
            delay,
            issued: Arc::clone(&issued),
        });
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&issuer).serve(stream));
            }
        });
        Ok(Self {
            url,
            issued,
            serving,
        })
    }

    /// The tokens that it has handed out.
    #[must_use]
    pub fn issued(&self) -> Vec<String> {
        self.issued.lock().clone()
    }

    /// Where it is, as `sasl.oauthbearer.token.endpoint.url`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for TokenServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Who gets which tokens, and when.
struct Issuer {
    credentials: String,
    subject: String,
    lifetime: Duration,
    delay: Duration,
    issued: Arc<Mutex<Vec<String>>>,
}

impl Issuer {
    async fn serve(self: Arc<Self>, stream: TcpStream) {
        tokio::time::sleep(self.delay).await;
        // A client that goes away is no fault of ours.
        if let Ok(token) = token(&self.subject, self.lifetime)
            && let Ok(true) = self.answer(stream, &token).await
        {
            self.issued.lock().push(token);
        }
    }

    /// Whether the client got the token.
    async fn answer(&self, mut stream: TcpStream, token: &str) -> Result<bool> {
        let request = head(&mut stream).await?;
        let is_known = request.contains(&format!("Basic {}", self.credentials));
        let (status, body) = if is_known {
            let seconds = self.lifetime.as_secs();
            let body = format!(r#"{{"access_token":"{token}","expires_in":{seconds}}}"#);
            ("200 OK", body)
        } else {
            (
                "401 Unauthorized",
                r#"{"error":"invalid_client"}"#.to_owned(),
            )
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        Ok(is_known)
    }
}

async fn head(stream: &mut TcpStream) -> Result<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await?;
        request.extend_from_slice(buffer.get(..read).context("no bytes")?);
        let text = String::from_utf8_lossy(&request);
        if read == 0 || text.contains("grant_type=") {
            return Ok(text.into_owned());
        }
    }
}

fn token(subject: &str, lifetime: Duration) -> Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let (issued, expires) = (now.as_secs(), (now + lifetime).as_secs());
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let claims = format!(r#"{{"sub":"{subject}","iat":{issued},"exp":{expires}}}"#);
    Ok(format!("{header}.{}.", URL_SAFE_NO_PAD.encode(claims)))
}
