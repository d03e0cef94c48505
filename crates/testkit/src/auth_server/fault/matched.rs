//! The effect of faults on the response to the request that they strike.

use std::time::Duration;

use serde_json::{Value, json};

use super::AuthFaultKind;
use crate::armed_faults::MatchedFaults;

impl MatchedFaults<AuthFaultKind> {
    fn modifications(&self) -> impl Iterator<Item = &AuthFaultKind> {
        self.additive.iter().map(|fault| &fault.kind)
    }

    pub(in crate::auth_server) fn delay(&self) -> Duration {
        self.modifications()
            .filter_map(|kind| if let AuthFaultKind::Delay(by) = kind { Some(*by) } else { None })
            .sum()
    }

    pub(in crate::auth_server) fn lifetime_override(&self) -> Option<Duration> {
        self.modifications()
            .find_map(|kind| if let AuthFaultKind::Lifetime(time) = kind { Some(*time) } else { None })
    }

    /// Returns whether the refresh token is kept, and if so, whether the response contains it.
    pub(in crate::auth_server) fn keeps_refresh_token(&self) -> Option<bool> {
        self.modifications().find_map(|kind| {
            if let AuthFaultKind::KeepRefreshToken { mentioned } = kind { Some(*mentioned) } else { None }
        })
    }

    /// Applies the modifications to the members of a response, in the order they were armed.
    pub(in crate::auth_server) fn modify_members(&self, members: &mut Value) {
        let Some(members) = members.as_object_mut() else { return };
        for kind in self.modifications() {
            match kind {
                AuthFaultKind::SetMember(name, value) => {
                    members.insert(name.clone(), value.clone());
                }
                AuthFaultKind::WithoutMember(name) => {
                    members.remove(name);
                }
                AuthFaultKind::ToggleSlash(name) => {
                    if let Some(Value::String(text)) = members.get(name) {
                        let other = text.strip_suffix('/').map_or_else(|| format!("{text}/"), str::to_owned);
                        members.insert(name.clone(), json!(other));
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::AuthFault;
    use super::*;
    use crate::armed_faults::ArmedFaults;

    #[test]
    fn counts_and_combines() {
        let armory = ArmedFaults::default();
        armory.add(AuthFault::invalid_grant().on("refresh_token").skip(1).times(2));
        armory.add(AuthFault::expires_in("60"));
        assert!(
            armory
                .take_matching(&["token", "authorization_code", "/token"], None)
                .before_execution()
                .is_none()
        );
        assert_eq!(armory.remaining().len(), 1, "the change was used up by the first token request");
        assert!(armory.take_matching(&["token", "refresh_token"], None).before_execution().is_none());
        for _ in 0..2 {
            assert!(matches!(
                armory.take_matching(&["token", "refresh_token"], None).before_execution(),
                Some(AuthFaultKind::Error { .. })
            ));
        }
        assert!(armory.remaining().is_empty());
    }

    #[test]
    fn members_are_modified_in_the_order_armed() {
        let armory = ArmedFaults::default();
        armory.add(AuthFault::normalized_iss());
        armory.add(AuthFault::set_member("state", "x").on("authorize"));
        armory.add(AuthFault::without_member("code").on("authorize"));
        let mut members = json!({"iss": "http://a", "code": "c", "state": "s"});
        armory.take_matching(&["authorize"], None).modify_members(&mut members);
        assert_eq!(members, json!({"iss": "http://a/", "state": "x"}));
    }

    #[test]
    #[should_panic(expected = "no endpoint or grant")]
    fn a_name_that_does_not_exist_is_refused() {
        AuthFault::status(500).on("tokens").assert_possible();
    }

    #[test]
    #[should_panic(expected = "no meaning")]
    fn a_fault_that_cannot_strike_is_refused() {
        AuthFault::no_rotation().on("client_credentials").assert_possible();
    }

    #[test]
    fn the_mcp_server_is_struck_only_by_name() {
        let armory = ArmedFaults::default();
        armory.add(AuthFault::status(500));
        assert!(armory.take_matching(&["mcp"], None).before_execution().is_none());
        assert!(armory.take_matching(&["jwks"], None).before_execution().is_some());
    }
}
