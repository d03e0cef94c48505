//! Admission of requests to a protected MCP server: one without a valid token gets a challenge that
//! says where to get one.

use hyper::HeaderMap;
use hyper::http::request::Parts;
use serde_json::{Value, json};

use super::super::ask::text;
use super::super::dpop::{self, Expected, Refused};
use super::super::jwt;
use super::super::twist::Kind;
use super::super::vault::{Access, Vault};
use super::{Advertised, Mode, Place, Protected};
use crate::SECRET;
use crate::answer::Answer;
use crate::sync::lock;

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The checks and documents that the MCP server's HTTP code uses.
impl Protected {
    /// Returns whether a path belongs to the protection and not to the MCP endpoint.
    pub(crate) fn has(&self, path: &str) -> bool {
        path.contains("/.well-known/o")
            || self.places.iter().any(|place| *place == Place::At(path.into()))
            || (self.authorization && path != "/mcp")
    }

    /// Returns the response that refuses a request to the MCP endpoint, if it is to be refused.
    pub(crate) fn refusal(&self, head: &Parts, message: &Value) -> Option<Answer> {
        let method = message["method"].as_str().unwrap_or(head.method.as_str());
        if self.open.iter().any(|open| open == method) {
            return None;
        }
        let tool = (method == "tools/call").then(|| message["params"]["name"].as_str()).flatten();
        let refused = self.look(head, method, tool).err()?;
        self.core.log.count(|counts| match refused.status {
            403 => counts.forbidden += 1,
            _ => counts.unauthorized += 1,
        });
        Some(refused)
    }

    /// Returns whether metadata is published at this path.
    pub(in crate::auth_server) fn metadata_at(&self, path: &str) -> bool {
        self.places.iter().any(|place| match place {
            Place::Path => path == format!("{WELL_KNOWN}/mcp"),
            Place::Root => path == WELL_KNOWN,
            Place::At(at) => path == at,
        })
    }

    pub(in crate::auth_server) fn is_metadata(&self, path: &str) -> bool {
        path.starts_with(WELL_KNOWN) || self.places.iter().any(|place| *place == Place::At(path.into()))
    }

    pub(in crate::auth_server) fn document(&self, origin: &str) -> Value {
        let issuers = self.issuers.clone().unwrap_or_else(|| vec![self.issuer(origin)]);
        let mut document = json!({
            "resource": self.resource_at(origin),
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
        });
        if self.dpop {
            document["dpop_bound_access_tokens_required"] = json!(true);
        }
        for (member, value) in &self.members {
            document[member] = value.clone();
        }
        if let Some(members) = document.as_object_mut() {
            members.retain(|member, _| !self.members_off.contains(member));
        }
        document
    }

    fn issuer(&self, origin: &str) -> String {
        self.core.issuer_at(if self.authorization { origin } else { &self.core.origin })
    }

    fn resource_at(&self, origin: &str) -> String {
        let root = self.places == [Place::Root];
        self.resource.clone().unwrap_or_else(|| if root { origin.into() } else { format!("{origin}/mcp") })
    }

    fn look(&self, head: &Parts, method: &str, tool: Option<&str>) -> Result<(), Answer> {
        let origin = origin_of(head);
        let presented = text(&head.headers, "authorization").and_then(|value| value.split_once(' '));
        if head.uri.query().is_some_and(|query| query.contains(SECRET)) {
            self.core.log.violation("TK-01: a token in the query");
        }
        let Some((scheme, token)) = presented else { return Err(self.unauthorized(&origin, None)) };
        self.struck(&origin)?;
        match &self.mode {
            Mode::ByToken => {}
            Mode::Unauthorized => return Err(self.unauthorized(&origin, Some("invalid_token"))),
            Mode::Forbidden(None) => return Err(Answer::new(403).text("Forbidden")),
            Mode::Forbidden(Some(scope)) => return Err(self.forbidden(&origin, scope)),
        }
        let mut vault = lock(&self.core.vault);
        let invalid = || self.unauthorized(&origin, Some("invalid_token"));
        let (access, _) = vault.good_access(token, self.core.now()).ok_or_else(invalid)?;
        let access = access.clone();
        if !self.any_audience && !access.resources.contains(&self.resource_at(&origin)) {
            self.core.log.violation(format!("TK-02: a token for {:?}", access.resources));
            return Err(invalid());
        }
        self.bound(head, &origin, Presented { scheme, text: token }, &access, &mut vault)?;
        drop(vault);
        let has = |scope: &str| access.scope.split(' ').any(|had| had == scope);
        let needed = self.tools.iter().filter(|(name, _)| Some(name.as_str()) == tool || name == method);
        for scope in std::iter::once(&self.scope).chain(needed.map(|(_, scope)| scope)) {
            if !scope.split(' ').filter(|scope| !scope.is_empty()).all(has) {
                return Err(self.forbidden(&origin, scope));
            }
        }
        Ok(())
    }

    /// Checks that a token is presented with the scheme and proof it is bound to.
    fn bound(
        &self,
        head: &Parts,
        origin: &str,
        token: Presented,
        access: &Access,
        vault: &mut Vault,
    ) -> Result<(), Answer> {
        let bound = access.key.is_some();
        let right_scheme = if bound { "dpop" } else { "bearer" };
        if !token.scheme.eq_ignore_ascii_case(right_scheme) || (self.dpop && !bound) {
            return Err(self.unauthorized(origin, Some("invalid_token")));
        }
        if !bound {
            return Ok(());
        }
        let (url, nonce) = (format!("{origin}{}", head.uri.path()), vault.resource_nonce.clone());
        let expected = Expected {
            method: head.method.as_str(),
            url: &url,
            token: Some(token.text),
            nonce: nonce.as_deref(),
        };
        match dpop::check(&head.headers, &expected, vault) {
            Ok(key) if key == access.key => Ok(()),
            Ok(_) => Err(self.unauthorized(origin, Some("invalid_dpop_proof"))),
            Err(Refused::Nonce) => Err(self.wants_nonce(origin, nonce.as_deref())),
            Err(Refused::Proof(why)) => {
                self.core.log.violation(format!("AX-06: {why}"));
                Err(self.unauthorized(origin, Some("invalid_dpop_proof")))
            }
        }
    }

    /// Applies the faults that were armed for the MCP server.
    fn struck(&self, origin: &str) -> Result<(), Answer> {
        match self.core.armory.take(&["mcp"]).before() {
            None => Ok(()),
            Some(Kind::Answer(answer)) => Err(answer.clone()),
            Some(Kind::Error { code, .. }) => Err(self.unauthorized(origin, Some(code))),
            Some(Kind::Nonce) => {
                let nonce = jwt::random();
                lock(&self.core.vault).resource_nonce = Some(nonce.clone());
                Err(self.wants_nonce(origin, Some(&nonce)))
            }
            Some(_) => unreachable!("refused when it was armed"),
        }
    }

    fn unauthorized(&self, origin: &str, error: Option<&str>) -> Answer {
        self.challenge(401, origin, error, self.challenge_scope.as_deref())
    }

    fn forbidden(&self, origin: &str, scope: &str) -> Answer {
        self.challenge(403, origin, Some("insufficient_scope"), Some(scope))
    }

    fn wants_nonce(&self, origin: &str, nonce: Option<&str>) -> Answer {
        self.challenge(401, origin, Some("use_dpop_nonce"), None)
            .header("dpop-nonce", nonce.unwrap_or_default())
    }

    fn challenge(&self, status: u16, origin: &str, error: Option<&str>, scope: Option<&str>) -> Answer {
        let place = match &self.advertised {
            Advertised::Not => None,
            Advertised::As(url) => Some(url.clone()),
            Advertised::Found => self.places.first().map(|place| match place {
                Place::Path => format!("{origin}{WELL_KNOWN}/mcp"),
                Place::Root => format!("{origin}{WELL_KNOWN}"),
                Place::At(path) => format!("{origin}{path}"),
            }),
        };
        let answer = Answer::new(status).json(&json!({"error": error.unwrap_or("unauthorized")}));
        if let Some(headers) = &self.challenges {
            return headers.iter().fold(answer, |answer, header| {
                let header = header
                    .replace("$prm", place.as_deref().unwrap_or_default())
                    .replace("$scope", scope.unwrap_or_default())
                    .replace("$error", error.unwrap_or_default());
                answer.header("www-authenticate", &header)
            });
        }
        let members = [("error", error), ("scope", scope), ("resource_metadata", place.as_deref())];
        let mut members: Vec<String> = members
            .iter()
            .filter_map(|(name, value)| value.map(|value| format!("{name}=\"{value}\"")))
            .collect();
        if self.dpop {
            members.push("algs=\"ES256 EdDSA\"".into());
        }
        let scheme = if self.dpop || error == Some("use_dpop_nonce") { "DPoP" } else { "Bearer" };
        answer.header("www-authenticate", format!("{scheme} {}", members.join(", ")).trim_end())
    }
}

/// The contents of the `Authorization` header.
struct Presented<'a> {
    scheme: &'a str,
    text: &'a str,
}

/// Returns the origin the client used, which differs from the server's own behind a proxy.
pub(in crate::auth_server) fn origin_of(head: &Parts) -> String {
    let authority = head.uri.authority().map(ToString::to_string);
    let host = |headers: &HeaderMap| text(headers, "host").map(str::to_owned);
    format!("http://{}", authority.or_else(|| host(&head.headers)).unwrap_or_default())
}
