//! What a connection that lives on authenticates with anew.

use std::sync::Arc;

use krafka::auth::AuthConfig;

use super::token::{TokenError, TokenSource};

/// Where fresh credentials come from.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// The same as for the login.
    Constant(Arc<AuthConfig>),
    /// Each token ends some time.
    Tokens(TokenSource),
}

impl Credentials {
    /// Credentials that hold as long as any that can be had now.
    ///
    /// # Errors
    /// If there is no token.
    pub async fn fresh(&self) -> Result<Arc<AuthConfig>, TokenError> {
        match self {
            Self::Constant(auth) => Ok(Arc::clone(auth)),
            Self::Tokens(source) => {
                let token = source.fetch().await?;
                Ok(Arc::new(AuthConfig::sasl_oauthbearer_token(
                    token.to_krafka(),
                )))
            }
        }
    }
}
