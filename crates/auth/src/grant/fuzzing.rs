//! Entry points for the fuzz targets of the grants.

use std::time::SystemTime;

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use url::Url;

use super::form_post::{self, PostForm};
use super::{device, token_response};
use crate::tokens::Tokens;

/// A secret that is sent, and might come back in an error response.
const SENT: &str = "rt-canary-51ab07";

/// Parses a response to a form. No error may repeat what was sent.
pub(crate) fn read(kind: u8, body: &[u8]) -> Option<Map<String, Value>> {
    let url: Url = "https://as.example/token".parse().expect("an address");
    let status = [200, 201, 302, 400, 401, 403, 429, 500][usize::from(kind % 8)];
    let media =
        if kind & 8 == 0 { "application/json" } else { "application/x-www-form-urlencoded; charset=utf-8" };
    let response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, media)
        .body(Bytes::copy_from_slice(body))
        .expect("a response");
    let mut form = PostForm::default();
    form.add("refresh_token", SENT);
    match form_post::parse_response(&response, &url, &form) {
        Ok(object) => Some(object),
        Err(refusal) => {
            let shown = refusal.into_error().to_string();
            assert!(!shown.contains(SENT), "{shown}");
            assert!(!shown.contains(char::is_control), "{shown:?}");
            None
        }
    }
}

/// Parses the tokens in such an object.
pub(crate) fn tokens(body: &Map<String, Value>, asked_at: SystemTime) -> Option<Tokens> {
    token_response::parse_tokens(body, asked_at).ok()
}

/// Parses a device authorization: the user code and its page, if they may be shown.
pub(crate) fn device_code(body: &Map<String, Value>) -> Option<(String, Url)> {
    device::parse_response(body).ok().map(|code| (code.user_code, code.verification_url))
}
