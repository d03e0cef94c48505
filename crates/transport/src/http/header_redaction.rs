//! Removes our own secrets from the body of an error response, because some servers repeat them.

use bytes::Bytes;
use http::HeaderMap;
use memchr::memmem::Finder;

/// Removes the values of these headers from a body. Of `Bearer token`, the token alone is removed
/// too.
pub(super) fn redact_header_values(body: Bytes, secrets: &HeaderMap) -> Bytes {
    let mut shown = body;
    for value in secrets.values() {
        let whole = value.as_bytes();
        let token = whole.iter().position(|byte| *byte == b' ').map_or(whole, |space| &whole[space + 1..]);
        // A shorter value is not a secret, and may be an ordinary word.
        if token.len() >= MIN_SECRET_BYTES {
            shown = replace_secret(shown, token);
        }
    }
    shown
}

const MIN_SECRET_BYTES: usize = 8;
const REPLACEMENT: &[u8] = b"[redacted]";

fn replace_secret(body: Bytes, secret: &[u8]) -> Bytes {
    let finder = Finder::new(secret);
    let mut places = finder.find_iter(&body).peekable();
    if places.peek().is_none() {
        return body;
    }
    let (mut shown, mut from) = (Vec::with_capacity(body.len()), 0);
    for place in places {
        shown.extend_from_slice(&body[from..place]);
        shown.extend_from_slice(REPLACEMENT);
        from = place + secret.len();
    }
    shown.extend_from_slice(&body[from..]);
    shown.into()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn secrets_are_left_out_wherever_they_stand() {
        let mut secrets = HeaderMap::new();
        secrets.insert("authorization", HeaderValue::from_static("Bearer hunter2hunter2"));
        secrets.insert("x-key", HeaderValue::from_static("swordfish"));
        secrets.insert("x-team", HeaderValue::from_static("red"));
        let redacted = |body: &'static str| {
            String::from_utf8(redact_header_values(Bytes::from_static(body.as_bytes()), &secrets).to_vec())
                .unwrap()
        };
        assert_eq!(redacted("hunter2hunter2"), "[redacted]");
        assert_eq!(
            redacted(
                "{\"sent\": \"Bearer hunter2hunter2\", \"key\": \"swordfish\", \"again\": \"hunter2hunter2\"}"
            ),
            "{\"sent\": \"Bearer [redacted]\", \"key\": \"[redacted]\", \"again\": \"[redacted]\"}"
        );
        assert_eq!(redacted("a red herring"), "a red herring");
    }
}
