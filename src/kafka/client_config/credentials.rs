//! What a connection that lives on authenticates with anew.

use krafka::auth::AuthConfig;

use super::token::{TokenError, TokenSource};

/// Where fresh credentials come from.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// The same as for the login.
    Constant(AuthConfig),
    /// Each token ends some time.
    Tokens(TokenSource),
}

impl Credentials {
    /// Credentials that hold as long as any that can be had now.
    ///
    /// # Errors
    /// If there is no token.
    pub async fn fresh(&self) -> Result<AuthConfig, TokenError> {
        match self {
            Self::Constant(auth) => Ok(auth.clone()),
            Self::Tokens(source) => {
                let token = source.fetch().await?;
                Ok(AuthConfig::sasl_oauthbearer_token(token.to_krafka()))
            }
        }
    }
}
