//! What an account shows of a login.

use std::time::Duration;

use super::*;
use crate::record::tests::record;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn of(record: &LoginRecord, now: SystemTime) -> Account {
    Account::from_record(&Key::new(LoginRecord::KIND, "a@1"), record, now)
}

fn state(record: &LoginRecord) -> AccountState {
    of(record, at(1000)).state
}

#[test]
fn a_login_is_good_expired_or_needs_a_person() {
    let renewable = |end| record("a", Some("r"), end);
    assert_eq!(state(&renewable(Some(at(1001)))), AccountState::Ok);
    assert_eq!(state(&renewable(None)), AccountState::Ok, "not known");
    assert_eq!(state(&renewable(Some(at(1000)))), AccountState::Expired);
    let fixed = record("a", None, Some(at(1000)));
    assert!(matches!(state(&fixed), AccountState::NeedsLogin(_)));
    let ended = renewable(None).with_login_needed("it was ended");
    assert_eq!(state(&ended), AccountState::NeedsLogin("it was ended".to_owned()));
    assert!(!of(&ended, at(0)).refreshable);
}

// TK-03
#[test]
fn nothing_secret_is_shown() {
    let mut login = record("access-token", Some("refresh-token"), None);
    login.url = "https://me:hunter2@mcp.example.com/mcp?key=hunter3".parse().unwrap();
    let account = of(&login, at(0));
    assert_eq!(account.url, "https://mcp.example.com/mcp");
    let shown = format!("{account:?} {}", serde_json::to_string(&account).unwrap());
    for secret in ["access-token", "refresh-token", "client-secret", "hunter"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn the_scopes_are_those_that_were_granted_or_else_asked_for() {
    let mut login = record("a", None, None);
    assert_eq!(of(&login, at(0)).scopes, ["read"]);
    login.granted = Some(vec!["less".to_owned()]);
    assert_eq!(of(&login, at(0)).scopes, ["less"]);
}
