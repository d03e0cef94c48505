//! Owns how a program for which its platform vouches gets tokens (RFC 7523 §2.1).

use bowline_config::Supply;

use super::{Ask, Request, supply, tokens};
use crate::error::AuthError;
use crate::tokens::Tokens;

/// Shows the platform's statement to the authorization server. One request: what it refuses is refused, and no other
/// kind of grant is tried in its place (AX-09).
///
/// [`Ask::client`] is `None` unless a client is configured: the statement says who we are (AX-08).
pub(crate) async fn workload(ask: &Ask<'_>, statement: &Supply) -> Result<Tokens, AuthError> {
    let assertion = supply::get(statement).await?;
    tokens(ask, Request::JwtBearer { assertion: &assertion }).await
}
