//! The armed faults, the choice of those that strike a request, and their effect on the response.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::{AuthFault, AuthFaultKind};
use crate::sync::lock;

/// The armed faults that have strikes left.
#[derive(Debug, Default)]
pub(in crate::auth_server) struct ArmedAuthFaults(Mutex<Vec<AuthFault>>);

impl ArmedAuthFaults {
    pub(in crate::auth_server) fn add(&self, twist: AuthFault) {
        twist.assert_possible();
        lock(&self.0).push(twist);
    }

    pub(in crate::auth_server) fn clear(&self) {
        lock(&self.0).clear();
    }

    pub(in crate::auth_server) fn remaining(&self) -> Vec<AuthFault> {
        lock(&self.0).clone()
    }

    /// Returns the faults that strike a request with these names and counts their strikes down.
    pub(in crate::auth_server) fn take_matching(&self, names: &[&str]) -> MatchedAuthFaults {
        let mut matched = MatchedAuthFaults::default();
        lock(&self.0).retain_mut(|twist| {
            let applies = match &twist.on {
                // Requests to the MCP server are struck only by faults that name it.
                None => !names.contains(&"mcp"),
                Some(on) => names.contains(&on.as_str()),
            };
            if !applies || (twist.replaces_response() && matched.replacement.is_some()) {
                return true;
            }
            if twist.skip > 0 {
                twist.skip -= 1;
                return true;
            }
            if twist.times == Some(0) {
                return false;
            }
            if twist.replaces_response() {
                matched.replacement = Some(twist.clone());
            } else {
                matched.modifications.push(twist.kind.clone());
            }
            match &mut twist.times {
                None => true,
                Some(times) => {
                    *times -= 1;
                    *times > 0
                }
            }
        });
        matched
    }
}

/// The faults that strike one request.
#[derive(Debug, Default)]
pub(in crate::auth_server) struct MatchedAuthFaults {
    modifications: Vec<AuthFaultKind>,
    replacement: Option<AuthFault>,
}

impl MatchedAuthFaults {
    pub(in crate::auth_server) fn delay(&self) -> Duration {
        self.modifications
            .iter()
            .filter_map(|kind| if let AuthFaultKind::Delay(by) = kind { Some(*by) } else { None })
            .sum()
    }

    pub(in crate::auth_server) fn lifetime_override(&self) -> Option<Duration> {
        self.modifications
            .iter()
            .find_map(|kind| if let AuthFaultKind::Lifetime(time) = kind { Some(*time) } else { None })
    }

    pub(in crate::auth_server) fn scope_override(&self) -> Option<&str> {
        self.modifications.iter().find_map(|kind| {
            if let AuthFaultKind::NarrowedScope(scope) = kind { Some(scope.as_str()) } else { None }
        })
    }

    /// Returns whether the refresh token is kept, and if so, whether the response contains it.
    pub(in crate::auth_server) fn keeps_refresh_token(&self) -> Option<bool> {
        self.modifications.iter().find_map(|kind| {
            if let AuthFaultKind::KeepRefreshToken { mentioned } = kind { Some(*mentioned) } else { None }
        })
    }

    /// Returns the fault that replaces the response without executing the request.
    pub(in crate::auth_server) fn before_execution(&self) -> Option<&AuthFaultKind> {
        self.replacement.as_ref().filter(|twist| !twist.strikes_after_execution()).map(|twist| &twist.kind)
    }

    /// Returns the fault that replaces or spoils the response after the request was executed.
    pub(in crate::auth_server) fn after_execution(&self) -> Option<&AuthFaultKind> {
        self.replacement.as_ref().filter(|twist| twist.strikes_after_execution()).map(|twist| &twist.kind)
    }

    /// Applies the modifications to the members of a response, in the order they were armed.
    pub(in crate::auth_server) fn modify_members(&self, members: &mut Value) {
        let Some(members) = members.as_object_mut() else { return };
        for kind in &self.modifications {
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
    use super::*;

    #[test]
    fn counts_and_combines() {
        let armory = ArmedAuthFaults::default();
        armory.add(AuthFault::invalid_grant().on("refresh_token").skip(1).times(2));
        armory.add(AuthFault::expires_in("60"));
        assert!(
            armory.take_matching(&["token", "authorization_code", "/token"]).before_execution().is_none()
        );
        assert_eq!(armory.remaining().len(), 1, "the change was used up by the first token request");
        assert!(armory.take_matching(&["token", "refresh_token"]).before_execution().is_none());
        for _ in 0..2 {
            assert!(matches!(
                armory.take_matching(&["token", "refresh_token"]).before_execution(),
                Some(AuthFaultKind::Error { .. })
            ));
        }
        assert!(armory.remaining().is_empty());
    }

    #[test]
    fn members_are_modified_in_the_order_armed() {
        let armory = ArmedAuthFaults::default();
        armory.add(AuthFault::normalized_iss());
        armory.add(AuthFault::set_member("state", "x").on("authorize"));
        armory.add(AuthFault::without_member("code").on("authorize"));
        let mut members = json!({"iss": "http://a", "code": "c", "state": "s"});
        armory.take_matching(&["authorize"]).modify_members(&mut members);
        assert_eq!(members, json!({"iss": "http://a/", "state": "x"}));
    }

    #[test]
    #[should_panic(expected = "no endpoint or grant")]
    fn a_name_that_does_not_exist_is_refused() {
        ArmedAuthFaults::default().add(AuthFault::status(500).on("tokens"));
    }

    #[test]
    #[should_panic(expected = "no meaning")]
    fn a_fault_that_cannot_strike_is_refused() {
        ArmedAuthFaults::default().add(AuthFault::no_rotation().on("client_credentials"));
    }

    #[test]
    fn the_mcp_server_is_struck_only_by_name() {
        let armory = ArmedAuthFaults::default();
        armory.add(AuthFault::status(500));
        assert!(armory.take_matching(&["mcp"]).before_execution().is_none());
        assert!(armory.take_matching(&["jwks"]).before_execution().is_some());
    }
}
