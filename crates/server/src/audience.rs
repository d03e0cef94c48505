//! [`Audience`]: who a host is, and which view of the servers it has.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use bowline_proto::via::Via;
use bowline_proto::wire::Json;
use tokio::time::Instant;

use crate::token_verifier::TokenIdentity;

/// Who sends the requests of a host, and which view of the servers they are for. A session is bound to
/// its audience: a request of another audience does not find it.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    principal: Option<Arc<str>>,
    view: Option<Arc<str>>,
    /// The gateways that the host has passed. They do not count when audiences are compared: a gateway in front
    /// that was restarted goes on with its sessions.
    via: Via,
    /// When the token of the request expires, which does not count either.
    expiry: Option<Instant>,
    /// The pipe that a process relays, which only that process knows. It does not count either: hosts on several
    /// pipes share connections.
    pipe: Option<Arc<str>>,
}

impl PartialEq for Audience {
    fn eq(&self, other: &Self) -> bool {
        (&self.principal, &self.view) == (&other.principal, &other.view)
    }
}

impl Eq for Audience {}

impl Hash for Audience {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.principal, &self.view).hash(state);
    }
}

impl Audience {
    /// A host with the general token, or without one, and this view of the servers.
    pub(crate) fn of_view(view: Option<Arc<str>>) -> Self {
        Self { view, ..Self::default() }
    }

    /// A host with the token of this view.
    pub(crate) fn with_token_of(view: Arc<str>) -> Self {
        Self { principal: Some(Arc::clone(&view)), view: Some(view), ..Self::default() }
    }

    /// A host with an access token of this user, whichever token it is.
    pub(crate) fn of_user(identity: &TokenIdentity, view: Option<Arc<str>>) -> Self {
        // As JSON, in which no two pairs are the same text, and no character is a control character.
        let pair = serde_json::json!([identity.issuer(), identity.subject()]);
        let left = identity.expiry().map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
        let expiry = left.and_then(|left| Instant::now().checked_add(left));
        Self { principal: Some(format!("{USER_PREFIX}{pair}").into()), view, expiry, ..Self::default() }
    }

    /// An audience that was recorded.
    pub(crate) fn recorded(principal: Option<&str>, view: Option<&str>) -> Self {
        Self { principal: principal.map(Arc::from), view: view.map(Arc::from), ..Self::default() }
    }

    /// The view whose token the host has, or the user whom its access token was issued to: `user:` and
    /// a JSON array of the issuer and the subject. `None` is the general token, or none if none is
    /// required.
    pub fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    /// This audience, reached through these gateways.
    pub(crate) fn with_via(mut self, via: Via) -> Self {
        self.via = via;
        self
    }

    /// This audience, on a pipe that a process relays.
    pub(crate) fn with_pipe(mut self, pipe: &str) -> Self {
        self.pipe = Some(pipe.into());
        self
    }

    /// What tells the host from others of the same audience, if it is on a pipe that a process relays. It is a secret
    /// of that process.
    pub fn pipe(&self) -> Option<&str> {
        self.pipe.as_deref()
    }

    /// This audience, reached through the gateways that these params of a request name as well.
    pub(crate) fn with_via_of(self, params: Option<&Json>) -> Self {
        let via = self.via.joined(&Via::of_params(params));
        self.with_via(via)
    }

    /// When the token of the request expires. Event streams end then.
    pub(crate) fn expiry(&self) -> Option<Instant> {
        self.expiry
    }

    /// The gateways that the host has passed.
    pub fn via(&self) -> &Via {
        &self.via
    }

    /// The view of the servers. `None` is everything.
    pub fn view(&self) -> Option<&str> {
        self.view.as_deref()
    }
}

/// Begins the principal of a user. No name of a view has a colon in it.
const USER_PREFIX: &str = "user:";

/// A text that no two audiences share. It has no control characters.
impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No name of a view has a slash in it, or is empty, so the last slash ends the principal.
        write!(f, "{}/{}", self.principal().unwrap_or_default(), self.view().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audiences_differ_by_token_by_user_and_by_view() {
        let view = |name: &str| Some(Arc::from(name));
        let user = |issuer: &str, subject: &str, name: Option<&str>| {
            let identity = TokenIdentity::new(issuer, subject, [""; 0]);
            Audience::of_user(&identity, name.map(Arc::from))
        };
        let all = [
            Audience::default(),
            Audience::of_view(view("a")),
            Audience::of_view(view("b")),
            Audience::with_token_of(Arc::from("a")),
            Audience::with_token_of(Arc::from("b")),
            user("https://i", "a", None),
            user("https://i", "a", Some("a")),
            user("https://i", "b", Some("a")),
            user("https://i", "a/a", None),
            user("https://i/a", "", None),
            user("https://i\",\"a", "", None),
            user("https://i", "\",\"a", None),
            user("", "https://i", None),
            user("https://i", "a\nb", None),
            user("https://i", "a\\nb", None),
        ];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(one == other, at == other_at);
                assert_eq!(one.to_string() == other.to_string(), at == other_at);
            }
            assert_eq!(*one, Audience::recorded(one.principal(), one.view()));
            assert!(!one.to_string().contains(char::is_control), "{one}");
        }
    }
}
