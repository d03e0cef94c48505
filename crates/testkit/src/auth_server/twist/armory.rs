//! The armed faults, the choice of those that strike a request, and their effect on the response.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Kind, Twist};
use crate::sync::lock;

/// The armed faults that have strikes left.
#[derive(Debug, Default)]
pub(in crate::auth_server) struct Armory(Mutex<Vec<Twist>>);

impl Armory {
    pub(in crate::auth_server) fn add(&self, twist: Twist) {
        twist.check();
        lock(&self.0).push(twist);
    }

    pub(in crate::auth_server) fn clear(&self) {
        lock(&self.0).clear();
    }

    pub(in crate::auth_server) fn left(&self) -> Vec<Twist> {
        lock(&self.0).clone()
    }

    /// Returns the faults that strike a request with these names and counts their strikes down.
    pub(in crate::auth_server) fn take(&self, names: &[&str]) -> Struck {
        let mut struck = Struck::default();
        lock(&self.0).retain_mut(|twist| {
            let matches = match &twist.on {
                // Requests to the MCP server are struck only by faults that name it.
                None => !names.contains(&"mcp"),
                Some(on) => names.contains(&on.as_str()),
            };
            if !matches || (twist.replaces() && struck.replaced.is_some()) {
                return true;
            }
            if twist.skip > 0 {
                twist.skip -= 1;
                return true;
            }
            if twist.times == Some(0) {
                return false;
            }
            if twist.replaces() {
                struck.replaced = Some(twist.clone());
            } else {
                struck.changes.push(twist.kind.clone());
            }
            match &mut twist.times {
                None => true,
                Some(times) => {
                    *times -= 1;
                    *times > 0
                }
            }
        });
        struck
    }
}

/// The faults that strike one request.
#[derive(Debug, Default)]
pub(in crate::auth_server) struct Struck {
    changes: Vec<Kind>,
    replaced: Option<Twist>,
}

impl Struck {
    pub(in crate::auth_server) fn delay(&self) -> Duration {
        self.changes.iter().filter_map(|kind| if let Kind::Delay(by) = kind { Some(*by) } else { None }).sum()
    }

    pub(in crate::auth_server) fn lifetime(&self) -> Option<Duration> {
        self.changes.iter().find_map(|kind| if let Kind::Lifetime(time) = kind { Some(*time) } else { None })
    }

    pub(in crate::auth_server) fn granted(&self) -> Option<&str> {
        self.changes
            .iter()
            .find_map(|kind| if let Kind::Grant(scope) = kind { Some(scope.as_str()) } else { None })
    }

    /// Returns whether the refresh token is kept, and if so, whether the response contains it.
    pub(in crate::auth_server) fn keeps(&self) -> Option<bool> {
        self.changes
            .iter()
            .find_map(|kind| if let Kind::Keep { mentioned } = kind { Some(*mentioned) } else { None })
    }

    /// Returns the fault that replaces the response without executing the request.
    pub(in crate::auth_server) fn before(&self) -> Option<&Kind> {
        self.replaced.as_ref().filter(|twist| !twist.carried_out()).map(|twist| &twist.kind)
    }

    /// Returns the fault that replaces or spoils the response after the request was executed.
    pub(in crate::auth_server) fn after(&self) -> Option<&Kind> {
        self.replaced.as_ref().filter(|twist| twist.carried_out()).map(|twist| &twist.kind)
    }

    /// Applies the modifications to the members of a response, in the order they were armed.
    pub(in crate::auth_server) fn bend(&self, members: &mut Value) {
        let Some(members) = members.as_object_mut() else { return };
        for kind in &self.changes {
            match kind {
                Kind::Set(name, value) => {
                    members.insert(name.clone(), value.clone());
                }
                Kind::Without(name) => {
                    members.remove(name);
                }
                Kind::Slash(name) => {
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
        let armory = Armory::default();
        armory.add(Twist::invalid_grant().on("refresh_token").skip(1).times(2));
        armory.add(Twist::expires_in("60"));
        assert!(armory.take(&["token", "authorization_code", "/token"]).before().is_none());
        assert_eq!(armory.left().len(), 1, "the change was used up by the first token request");
        assert!(armory.take(&["token", "refresh_token"]).before().is_none());
        for _ in 0..2 {
            assert!(matches!(armory.take(&["token", "refresh_token"]).before(), Some(Kind::Error { .. })));
        }
        assert!(armory.left().is_empty());
    }

    #[test]
    fn members_are_bent_in_the_order_armed() {
        let armory = Armory::default();
        armory.add(Twist::normalized_iss());
        armory.add(Twist::set("state", "x").on("authorize"));
        armory.add(Twist::without("code").on("authorize"));
        let mut members = json!({"iss": "http://a", "code": "c", "state": "s"});
        armory.take(&["authorize"]).bend(&mut members);
        assert_eq!(members, json!({"iss": "http://a/", "state": "x"}));
    }

    #[test]
    #[should_panic(expected = "no endpoint or grant")]
    fn a_name_that_does_not_exist_is_refused() {
        Armory::default().add(Twist::status(500).on("tokens"));
    }

    #[test]
    #[should_panic(expected = "no meaning")]
    fn a_twist_that_cannot_strike_is_refused() {
        Armory::default().add(Twist::no_rotation().on("client_credentials"));
    }

    #[test]
    fn the_mcp_server_is_struck_only_by_name() {
        let armory = Armory::default();
        armory.add(Twist::status(500));
        assert!(armory.take(&["mcp"]).before().is_none());
        assert!(armory.take(&["jwks"]).before().is_some());
    }
}
