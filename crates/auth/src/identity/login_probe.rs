//! Asks a server without credentials whether it requires a login.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request};

use crate::challenge::Challenge;
use crate::context::AuthContext;

/// The server's response to a request without credentials.
pub(crate) enum LoginProbeOutcome {
    /// The server requires a login.
    Refused(Challenge),
    /// The server processed the request.
    Accepted,
    /// Anything else, or the server is unreachable.
    Unknown,
}

/// Sends a `ping` without credentials to learn the server's challenge. Failures are not reported
/// here; discovery runs into them anyway.
pub(crate) async fn probe(ctx: &AuthContext) -> LoginProbeOutcome {
    let mut request = Request::new(Bytes::from_static(br#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#));
    *request.method_mut() = Method::POST;
    let Ok(uri) = ctx.url.as_str().parse() else { return LoginProbeOutcome::Unknown };
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    match ctx.http_client.request_configured(request).await {
        Ok(response) if response.status() == 401 => {
            let values = response.headers().get_all(WWW_AUTHENTICATE).into_iter();
            let values: Vec<String> =
                values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
            LoginProbeOutcome::Refused(Challenge::parse(&values))
        }
        // The server processed the request without checking who sent it.
        Ok(response) if matches!(response.status().as_u16(), 200..=299 | 400 | 405 | 406 | 415 | 422) => {
            LoginProbeOutcome::Accepted
        }
        Ok(_) => LoginProbeOutcome::Unknown,
        Err(error) => {
            tracing::debug!(server = %ctx.server, %error, "cannot ask the server how to authenticate");
            LoginProbeOutcome::Unknown
        }
    }
}
