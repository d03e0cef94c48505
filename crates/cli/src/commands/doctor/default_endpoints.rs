//! Checks whether a server that publishes no metadata has the endpoints of 2025-03-26 at all. If not, it most likely
//! wants a key or a token.

use std::time::Duration;

use bowline::config::Http;
use bowline_auth::{AuthorizationExamination, DiscoveryKind};
use bowline_transport::http::{AddressSource, FetchLimits, Fetcher, Proxies};
use bytes::Bytes;
use http::{Request, StatusCode};
use url::Url;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns whether a login would be sent to endpoints that are only assumed, and that do not exist. Each is asked for
/// with GET, which registers nothing.
pub(super) async fn are_missing(examination: &AuthorizationExamination, http: &Http) -> bool {
    let Some(Ok(discovery)) = examination.issuer.as_ref().map(|issuer| issuer.outcome.as_ref()) else {
        return false;
    };
    if discovery.kind != DiscoveryKind::DefaultEndpoints {
        return false;
    }
    let metadata = &discovery.metadata;
    let endpoints =
        [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.registration_endpoint];
    for endpoint in endpoints.into_iter().flatten() {
        if fetch_status(endpoint, http).await != Some(StatusCode::NOT_FOUND) {
            return false;
        }
    }
    true
}

async fn fetch_status(endpoint: &Url, http: &Http) -> Option<StatusCode> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = endpoint.as_str().parse().ok()?;
    let limits = FetchLimits { connect: REQUEST_TIMEOUT, total: REQUEST_TIMEOUT, ..FetchLimits::default() };
    let fetcher =
        Fetcher::new(http.tls.clone(), Proxies::System).with_certificate_for(&http.url).limits(limits);
    Some(fetcher.send(request, AddressSource::User).await.ok()?.status())
}
