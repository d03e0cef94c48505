//! Admission of requests to a protected MCP server: one without a valid token gets a challenge that
//! says where to get one.

use hyper::HeaderMap;
use hyper::http::request::Parts;
use serde_json::{Value, json};

use super::super::dpop::{self, ExpectedProof, ProofRejection};
use super::super::fault::AuthFaultKind;
use super::super::jwt;
use super::super::request::header_text;
use super::super::vault::{AccessToken, Vault};
use super::{Mode, Protection};
use crate::SECRET_PREFIX;
use crate::canned_response::CannedResponse;

pub(in crate::auth_server) const PRM_WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The checks and documents that the MCP server's HTTP code uses.
impl Protection {
    /// Returns whether a path belongs to the protection and not to the MCP endpoint.
    pub(crate) fn owns_path(path: &str) -> bool {
        path.contains("/.well-known/o")
    }

    /// Returns the response that refuses a request to the MCP endpoint, if it is to be refused.
    pub(crate) fn refusal(&self, head: &Parts, message: &Value) -> Option<CannedResponse> {
        let method = message["method"].as_str().unwrap_or(head.method.as_str());
        if self.open_methods.iter().any(|open| open == method) {
            return None;
        }
        let tool = (method == "tools/call").then(|| message["params"]["name"].as_str()).flatten();
        let refused = self.check_access(head, method, tool).err()?;
        self.core.request_log.update_counts(|counts| match refused.status {
            403 => counts.forbidden += 1,
            _ => counts.unauthorized += 1,
        });
        Some(refused)
    }

    pub(in crate::auth_server) fn metadata_document(&self, origin: &str) -> Value {
        let own_issuer = || vec![self.core.issuer_at(&self.core.origin)];
        let issuers = self.issuers.clone().unwrap_or_else(own_issuer);
        let mut document = json!({
            "resource": self.resource_at(origin),
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
        });
        if self.dpop {
            document["dpop_bound_access_tokens_required"] = json!(true);
        }
        for (member, value) in &self.metadata_members {
            document[member] = value.clone();
        }
        if let Some(members) = document.as_object_mut() {
            members.retain(|member, _| !self.omitted_members.contains(member));
        }
        document
    }

    fn resource_at(&self, origin: &str) -> String {
        self.resource.clone().unwrap_or_else(|| format!("{origin}/mcp"))
    }

    fn check_access(&self, head: &Parts, method: &str, tool: Option<&str>) -> Result<(), CannedResponse> {
        let origin = request_origin(head);
        let presented = header_text(&head.headers, "authorization").and_then(|value| value.split_once(' '));
        if head.uri.query().is_some_and(|query| query.contains(SECRET_PREFIX)) {
            self.core.request_log.record_violation("TK-01: a token in the query");
        }
        let Some((scheme, token)) = presented else { return Err(self.unauthorized(&origin, None)) };
        self.apply_faults(&origin)?;
        match &self.mode {
            Mode::ByToken => {}
            Mode::Unauthorized => return Err(self.unauthorized(&origin, Some("invalid_token"))),
            Mode::Forbidden(None) => return Err(CannedResponse::new(403).text("Forbidden")),
            Mode::Forbidden(Some(scope)) => return Err(self.forbidden(&origin, scope)),
        }
        let mut vault = self.core.vault.lock();
        let invalid = || self.unauthorized(&origin, Some("invalid_token"));
        let (access, _) = vault.valid_access_token(token, self.core.now()).ok_or_else(invalid)?;
        let access = access.clone();
        if !self.any_audience && !access.resources.contains(&self.resource_at(&origin)) {
            self.core.request_log.record_violation(format!("TK-02: a token for {:?}", access.resources));
            return Err(invalid());
        }
        self.check_token_binding(head, &origin, PresentedToken { scheme, text: token }, &access, &mut vault)?;
        drop(vault);
        let has = |scope: &str| access.scope.split(' ').any(|had| had == scope);
        let needed =
            self.tool_scopes.iter().filter(|(name, _)| Some(name.as_str()) == tool || name == method);
        for scope in std::iter::once(&self.required_scope).chain(needed.map(|(_, scope)| scope)) {
            if !scope.split(' ').filter(|scope| !scope.is_empty()).all(has) {
                return Err(self.forbidden(&origin, scope));
            }
        }
        Ok(())
    }

    /// Checks that a token is presented with the scheme and proof it is bound to.
    fn check_token_binding(
        &self,
        head: &Parts,
        origin: &str,
        token: PresentedToken,
        access: &AccessToken,
        vault: &mut Vault,
    ) -> Result<(), CannedResponse> {
        let bound = access.key_thumbprint.is_some();
        let right_scheme = if bound { "dpop" } else { "bearer" };
        if !token.scheme.eq_ignore_ascii_case(right_scheme) || (self.dpop && !bound) {
            return Err(self.unauthorized(origin, Some("invalid_token")));
        }
        if !bound {
            return Ok(());
        }
        let (url, nonce) = (format!("{origin}{}", head.uri.path()), vault.resource_nonce.clone());
        let expected = ExpectedProof {
            method: head.method.as_str(),
            url: &url,
            token: Some(token.text),
            nonce: nonce.as_deref(),
        };
        match dpop::check_proof(&head.headers, &expected, vault) {
            Ok(key) if key == access.key_thumbprint => Ok(()),
            Ok(_) => Err(self.unauthorized(origin, Some("invalid_dpop_proof"))),
            Err(ProofRejection::WrongNonce) => Err(self.nonce_challenge(origin, nonce.as_deref())),
            Err(ProofRejection::InvalidProof(why)) => {
                self.core.request_log.record_violation(format!("AX-06: {why}"));
                Err(self.unauthorized(origin, Some("invalid_dpop_proof")))
            }
        }
    }

    /// Applies the faults that were armed for the MCP server.
    fn apply_faults(&self, origin: &str) -> Result<(), CannedResponse> {
        match self.core.faults.take_matching(&["mcp"], None).before_execution() {
            None => Ok(()),
            Some(AuthFaultKind::Response(answer)) => Err(answer.clone()),
            Some(AuthFaultKind::Error { code, .. }) => Err(self.unauthorized(origin, Some(code))),
            Some(AuthFaultKind::NonceChallenge) => {
                let nonce = jwt::random_text();
                self.core.vault.lock().resource_nonce = Some(nonce.clone());
                Err(self.nonce_challenge(origin, Some(&nonce)))
            }
            Some(_) => unreachable!("refused when it was armed"),
        }
    }

    fn unauthorized(&self, origin: &str, error: Option<&str>) -> CannedResponse {
        self.challenge(401, origin, error, self.challenge_scope.as_deref())
    }

    fn forbidden(&self, origin: &str, scope: &str) -> CannedResponse {
        self.challenge(403, origin, Some("insufficient_scope"), Some(scope))
    }

    fn nonce_challenge(&self, origin: &str, nonce: Option<&str>) -> CannedResponse {
        self.challenge(401, origin, Some("use_dpop_nonce"), None)
            .header("dpop-nonce", nonce.unwrap_or_default())
    }

    fn challenge(
        &self,
        status: u16,
        origin: &str,
        error: Option<&str>,
        scope: Option<&str>,
    ) -> CannedResponse {
        let metadata_url = format!("{origin}{PRM_WELL_KNOWN}/mcp");
        let answer = CannedResponse::new(status).json(&json!({"error": error.unwrap_or("unauthorized")}));
        let members = [("error", error), ("scope", scope), ("resource_metadata", Some(&metadata_url))];
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
struct PresentedToken<'a> {
    scheme: &'a str,
    text: &'a str,
}

/// Returns the origin the client used, which differs from the server's own behind a proxy.
pub(in crate::auth_server) fn request_origin(head: &Parts) -> String {
    let authority = head.uri.authority().map(ToString::to_string);
    let host = |headers: &HeaderMap| header_text(headers, "host").map(str::to_owned);
    format!("http://{}", authority.or_else(|| host(&head.headers)).unwrap_or_default())
}
