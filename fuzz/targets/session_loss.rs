//! Fuzzes the judgment of refusals: only a 404 or 410 is a session loss by itself, and nothing is
//! one if no session was named.
//!
//! An input is the status and flags in three bytes, then the method, a challenge and the body.
#![no_main]

use bowline_fuzz::parts;
use bowline_proto::client::loss::{BodyHead, Exchange, Verdict, judge};
use bowline_proto::wire::find_error;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [high, low, flags, rest @ ..] = input else { return };
    let status = 100 + u16::from_be_bytes([*high, *low]) % 500;
    let mut parts = parts(rest);
    let method = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let challenge = [String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned()];
    let body = parts.next().unwrap_or_default();
    let error = find_error(&Bytes::copy_from_slice(body));
    let exchange = Exchange {
        method: &method,
        session: flags & 1 != 0,
        credentials: flags & 2 != 0,
        status,
        challenge: &challenge,
        body: BodyHead { bytes: body, is_cut: flags & 4 != 0 },
        error: error.as_ref().map(|(_, error)| error),
        own_id: flags & 8 != 0,
    };
    let verdict = judge(&exchange);
    assert_eq!(judge(&exchange), verdict, "the verdict depends on nothing else");
    match verdict {
        Verdict::Lost => assert!(exchange.session && matches!(status, 404 | 410), "{exchange:?}"),
        Verdict::Suspect(_) => assert!(exchange.session && status != 429, "{exchange:?}"),
        Verdict::Login => assert!(matches!(status, 401 | 403), "{exchange:?}"),
        Verdict::Answer => {}
    }
});
