//! Tokens bound to a key (DPoP, RFC 9449). Provider and server each require their own nonce in
//! every proof, and accept no proof twice.

use serde_json::json;

use crate::chromium::Chromium;
use crate::site::LoginSite;

/// AX-06, AX-07.
#[test]
fn tokens_are_bound_to_a_key() {
    let (mut site, mut chromium) = (LoginSite::with_options(json!({ "nonces": true })), Chromium::start());
    site.logs_in(&mut chromium, "bound", json!({}));
    assert_eq!(site.prints(&["call", "bound", "whoami"]).trim(), "ada");
    assert_eq!(site.json(&["auth", "--json"])["logins"][0]["scheme"], "dpop");
    site.end_access_tokens();
    assert_eq!(site.prints(&["call", "bound", "whoami"]).trim(), "ada");
    assert_eq!(site.prints(&["call", "bound", "echo", "message=ahoy"]).trim(), "ahoy");

    let record = site.record();
    assert!(record.complaints.iter().all(|it| it.error == "use_dpop_nonce"), "{:?}", record.complaints);
    assert_eq!(record.grants("refresh_token").filter(|request| request.status == 200).count(), 1);
    let schemes =
        record.shown.iter().filter(|shown| shown.path == "/dpop").filter_map(|it| it.scheme.as_deref());
    assert!(schemes.clone().count() > 4 && schemes.clone().all(|scheme| scheme == "DPoP"), "{record:?}");
    assert_eq!(site.prints(&["logout", "bound"]).trim(), "bound: logged out; the token was revoked");
    assert_eq!(site.good_access_tokens(), 0);
}
