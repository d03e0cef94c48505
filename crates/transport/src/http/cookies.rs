//! The cookies of one server. Load balancers use them to find the instance that holds a session.

use std::sync::atomic::{AtomicBool, Ordering};

use cookie_store::CookieStore;
use http::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE};
use parking_lot::Mutex;
use url::Url;

/// Stores the cookies of one server, in bounded number and size.
#[derive(Debug, Default)]
pub(super) struct CookieJar {
    store: Mutex<CookieStore>,
    /// Whether there may be any cookie: most servers set none, and then the store is not locked.
    is_filled: AtomicBool,
}

impl CookieJar {
    /// Stores the cookies that a response sets. More than [`MAX_COOKIES`], or one over
    /// [`MAX_COOKIE_BYTES`], are not kept.
    pub(super) fn store_cookies(&self, url: &Url, headers: &HeaderMap) {
        if !headers.contains_key(SET_COOKIE) {
            return;
        }
        let mut store = self.lock();
        for value in headers.get_all(SET_COOKIE) {
            let Ok(text) = value.to_str() else { continue };
            if text.len() > MAX_COOKIE_BYTES {
                continue;
            }
            // When it is full, known cookies may still be changed or removed.
            let name = text.split('=').next().unwrap_or_default().trim();
            let known = store.iter_unexpired().any(|cookie| cookie.name() == name);
            if known || store.iter_unexpired().count() < MAX_COOKIES {
                // A cookie for another site is refused here, which is not a failure.
                let _ = store.parse(text, url);
            }
        }
        self.is_filled.store(true, Ordering::Release);
    }

    /// Adds the cookies for `url` to a request.
    pub(super) fn apply(&self, url: &Url, headers: &mut HeaderMap) {
        if !self.is_filled.load(Ordering::Acquire) {
            return;
        }
        let mut line = headers.get(COOKIE).map_or_else(Vec::new, |value| value.as_bytes().to_vec());
        for (name, value) in self.lock().get_request_values(url) {
            if !line.is_empty() {
                line.extend_from_slice(b"; ");
            }
            line.extend_from_slice(name.as_bytes());
            line.push(b'=');
            line.extend_from_slice(value.as_bytes());
        }
        if let Ok(mut value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(line))
            && !value.is_empty()
        {
            value.set_sensitive(true);
            headers.insert(COOKIE, value);
        }
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
        self.is_filled.store(false, Ordering::Release);
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, CookieStore> {
        self.store.lock()
    }
}

const MAX_COOKIES: usize = 64;
const MAX_COOKIE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_bounded() {
        let (jar, url) = (CookieJar::default(), "http://server.test/".parse().unwrap());
        for n in 0..200 {
            let value = HeaderValue::from_str(&format!("c{n}=1")).unwrap();
            jar.store_cookies(&url, &HeaderMap::from_iter([(SET_COOKIE, value)]));
        }
        let large = HeaderValue::from_str(&format!("large={}", "x".repeat(MAX_COOKIE_BYTES))).unwrap();
        jar.store_cookies(&url, &HeaderMap::from_iter([(SET_COOKIE, large)]));
        let mut headers = HeaderMap::new();
        jar.apply(&url, &mut headers);
        assert_eq!(headers[COOKIE].to_str().unwrap().split("; ").count(), MAX_COOKIES);
    }

    #[test]
    fn joins_a_configured_cookie() {
        let (jar, url) = (CookieJar::default(), "http://server.test/".parse().unwrap());
        jar.store_cookies(
            &url,
            &HeaderMap::from_iter([(SET_COOKIE, HeaderValue::from_static("route=7; Path=/"))]),
        );
        let mut headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static("mine=1"))]);
        jar.apply(&url, &mut headers);
        assert_eq!(headers[COOKIE], "mine=1; route=7");
        jar.clear();
        let mut headers = HeaderMap::new();
        jar.apply(&url, &mut headers);
        assert!(headers.is_empty());
    }
}
