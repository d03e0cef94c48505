//! The cookies of one server in a build without the feature `cookies`: none are kept.

use http::HeaderMap;
use url::Url;

#[derive(Debug, Default)]
pub(super) struct CookieJar {}

#[expect(clippy::unused_self, reason = "the signatures are those of the functions that they replace")]
impl CookieJar {
    pub(super) fn store_cookies(&self, _url: &Url, _headers: &HeaderMap) {}

    pub(super) fn apply(&self, _url: &Url, _headers: &mut HeaderMap) {}

    pub(super) fn clear(&self) {}
}
