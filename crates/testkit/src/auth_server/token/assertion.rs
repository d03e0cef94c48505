//! The grants that carry another party's statement: assertions (RFC 7523), and token exchange (RFC
//! 8693) for an identity assertion that another authorization server accepts.

use serde_json::json;

use super::super::jwt::{self, Jwt};
use super::super::request::EndpointResponse;
use super::super::wall_clock;
use super::TokenRequest;

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// The `typ` of an identity assertion authorization grant.
const ID_JAG_TYPE: &str = "oauth-id-jag+jwt";

type GrantResult = Result<EndpointResponse, EndpointResponse>;

impl TokenRequest<'_> {
    // AX-04, AX-08
    /// Redeems an identity assertion of an authenticated client, or a workload's JWT without a
    /// client.
    pub(super) fn redeem_assertion(&mut self) -> GrantResult {
        let refuse = |why: &str| Err(EndpointResponse::error(400, "invalid_grant", why));
        let Some(jwt) = self.request.field("assertion").and_then(Jwt::parse) else {
            return refuse("the assertion is missing or no JWT");
        };
        let issuer = self.core.issuer_at(&self.request.origin);
        let endpoint = format!("{}{}", self.request.origin, self.request.path);
        if !jwt.has_audience(&[&issuer, &endpoint]) {
            return refuse("the assertion is for somebody else");
        }
        if !jwt.is_current(wall_clock().as_secs()) {
            return refuse("the assertion expired");
        }
        let (Some(from), Some(subject)) = (jwt.claim_text("iss"), jwt.claim_text("sub")) else {
            return refuse("iss or sub is missing");
        };
        let script = self.core.script();
        if !script.trusted.is_empty()
            && !script.trusted.iter().any(|(issuer, key)| issuer == from && jwt.is_signed_by(key))
        {
            return refuse("nobody trusted made the assertion");
        }
        if jwt.header["typ"] == ID_JAG_TYPE && jwt.claim_text("client_id") != self.client_id() {
            return refuse("the assertion was made for another client");
        }
        if !jwt.claim_text("jti").is_some_and(|id| self.vault.record_first_use("grant", id)) {
            return refuse("jti is missing or was used before");
        }
        let client = self.client_id().map(str::to_owned);
        Ok(self.issue_without_login(
            client,
            subject.to_owned(),
            jwt.claim_text("scope"),
            jwt.claim_text("resource"),
        ))
    }

    // AX-03
    /// Exchanges an ID token of this server for an assertion for another server.
    pub(super) fn exchange_token(&mut self) -> GrantResult {
        let invalid = |why: &str| Err(EndpointResponse::error(400, "invalid_request", why));
        let Some(client) = self.client_id().map(str::to_owned) else {
            return Err(EndpointResponse::error(401, "invalid_client", "who asks?"));
        };
        let subject = self.request.field("subject_token").and_then(Jwt::parse);
        let Some(subject) = subject.filter(|jwt| jwt.is_signed_by(&self.core.key().jwk())) else {
            return invalid("subject_token is not of this server");
        };
        if self.request.field("subject_token_type") != Some("urn:ietf:params:oauth:token-type:id_token") {
            return invalid("subject_token_type is not id_token");
        }
        if !subject.is_current(self.core.now().as_secs()) {
            return Err(EndpointResponse::error(400, "invalid_grant", "subject_token expired"));
        }
        let account = subject.claim_text("sub").unwrap_or_default().to_owned();
        if self.request.field("requested_token_type") != Some(ID_JAG) {
            return Ok(self.issue_without_login(Some(client), account, None, None));
        }
        let Some(audience) = self.request.field("audience") else { return invalid("audience is missing") };
        let script = self.core.script();
        let mapped_client =
            script.client_there.iter().find(|(here, _)| *here == client).map(|(_, there)| there.clone());
        let now = wall_clock().as_secs();
        let mut claims = json!({
            "iss": self.core.issuer_at(&self.request.origin), "sub": account, "aud": audience,
            "client_id": mapped_client.unwrap_or(client), "jti": jwt::random_text(), "iat": now, "exp": now + 300,
        });
        for member in ["resource", "scope"] {
            if let Some(value) = self.request.field(member) {
                claims[member] = json!(value);
            }
        }
        Ok(EndpointResponse::ok(json!({
            "access_token": self.core.key().sign(json!({"typ": ID_JAG_TYPE}), &claims),
            "issued_token_type": ID_JAG,
            "token_type": "N_A",
            "expires_in": 300,
        })))
    }
}
