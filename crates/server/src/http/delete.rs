//! DELETE: the host ends its session.

use http::{HeaderMap, StatusCode};

use super::refusal::Refusal;
use super::reply::{self, Reply};
use super::site::Site;
use crate::audience::Audience;

// HL-04
/// Ends the session that the headers name.
pub(crate) async fn serve_delete(
    site: &Site,
    audience: &Audience,
    headers: &HeaderMap,
) -> Result<Reply, Refusal> {
    site.find_session(audience, headers).await?.end_and_wait().await;
    Ok(reply::empty(StatusCode::NO_CONTENT))
}
