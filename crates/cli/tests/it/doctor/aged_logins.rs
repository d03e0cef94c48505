//! Logins that have aged, and authorization servers that changed since.

#![cfg(unix)]

use std::time::Duration;

use super::authorization::{after_login, verdict_at};
use super::{Examined, verdict};
use crate::login::LoginSite;

after_login!(expired_token_that_is_refreshed_is_no_fault, |site| site.auth.advance_clock(Duration::from_secs(2 * 3600)), @"exit 0");
after_login!(new_nonces_are_no_fault, |site| site.auth.rotate_nonces(), @"exit 0");
after_login!(new_signing_key_is_no_fault, |site| site.auth.rotate_key(), @"exit 0");
after_login!(
    forgotten_registration_is_named,
    |site| {
        site.auth.forget_registered_clients();
        site.auth.revoke_all_access();
    },
    @"
    exit 5
    login failed, you: a new login is needed: the authorization server no longer knows this client
      log in
      $ bowline login docs
    "
);

/// A token that still counts needs no authorization server.
#[tokio::test]
async fn stopped_authorization_server_is_a_warning_while_the_token_counts() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    site.auth.stop().await;
    verdict!(verdict_at(&site), @"
    exit 0
    authorization_server warning, authorization_server: http://127.0.0.1:[PORT]: connection refused: tcp connect error: Connection refused
      try again later
      $ bowline doctor docs
    ");
}

/// The installation as a whole: which logins have ended.
#[tokio::test]
async fn ended_login_is_named_among_all_logins() {
    let site = LoginSite::new().await;
    site.logs_in().await;
    let examined = Examined::of(&site.context, &[]);
    assert_eq!((examined.check("logins")["seen"].as_str(), examined.code), (Some("1 login"), 0));
    site.auth.revoke_all();
    // The store says so once somebody has tried the login.
    let call = site.context.bowline(["tools", "docs"]).output().unwrap();
    assert_eq!(call.status.code(), Some(5));
    let examined = Examined::of(&site.context, &[]);
    let check = examined.check("logins");
    assert_eq!((&check["status"], &check["blame"]), (&"warning".into(), &"you".into()), "{check}");
    assert_eq!(check["seen"], "1 login, of which these have ended: docs", "{check}");
    assert_eq!(
        (&check["remedy"]["text"], &check["remedy"]["command"]),
        (&"log in again".into(), &"bowline login docs".into())
    );
    // The login of the server is needed.
    assert_eq!(examined.code, 5, "{:#}", examined.json);
}
