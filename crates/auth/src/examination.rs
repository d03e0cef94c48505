//! Examines the steps that a login would take, one by one and without effect, for diagnosis: what
//! the server answers without credentials, its metadata, the authorization server, PKCE, DPoP, and
//! which client there would be.

use std::time::{Duration, Instant};

use bowline_config::{Dpop, Grant};
use tokio::time::timeout;

use crate::challenge::Challenge;
use crate::client::ClientOrigin;
use crate::context::AuthContext;
use crate::discover;
use crate::discovery::{Discovery, Metadata};
use crate::dpop;
use crate::error::{AuthError, AuthErrorKind, sanitize_url};
use crate::identity::login_probe::{self, LoginProbeOutcome};
use crate::metadata::ResourceMetadata;
use crate::pkce;
use crate::register;

/// The steps before a login. A step is absent if one before it failed, or if the configured grant
/// has no such step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthorizationExamination {
    /// What the server answers to a request without credentials.
    pub challenge: ExaminedStep<ChallengeReply>,
    /// The server's metadata; `None` in it means that the server publishes none.
    pub resource: ExaminedStep<Option<ResourceFacts>>,
    /// The authorization server, after all checks of its metadata, which names what the grant needs.
    pub issuer: Option<ExaminedStep<Discovery>>,
    /// Whether PKCE protects the codes of the authorization server.
    pub pkce: Option<ExaminedStep<()>>,
    /// How tokens would be bound to a key (DPoP). Absent as well if neither the entry nor the server
    /// asks for bound tokens.
    pub dpop: Option<ExaminedStep<TokenBinding>>,
    /// Which client a login would use.
    pub client: Option<ExaminedStep<ClientOrigin>>,
}

/// One step, with the time that it took.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExaminedStep<T> {
    /// How long the step took.
    pub duration: Duration,
    /// What was found, or why the step failed.
    pub outcome: Result<T, AuthError>,
}

/// What a server answers to a request without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChallengeReply {
    /// It requires a login.
    Refused {
        /// Whether the challenge names the address of the server's metadata.
        names_metadata: bool,
        /// The scopes that the challenge asks for. Untrusted.
        scopes: Vec<String>,
    },
    /// It processed the request.
    Accepted,
    /// It answered something else, or could not be reached.
    Other,
}

/// How the tokens of a login are bound, if the entry or the server asks for bound ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenBinding {
    /// To a key of this machine.
    Key,
    /// Not at all: the server asks for bound tokens, but its authorization server does not announce
    /// them. The server may take bearer tokens as well.
    Unannounced,
}

/// What a server's metadata says (RFC 9728). Untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceFacts {
    /// `resource`, verbatim.
    pub resource: String,
    /// `authorization_servers`, verbatim.
    pub authorization_servers: Vec<String>,
}

/// The longest time that one step may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn examine(ctx: &AuthContext) -> AuthorizationExamination {
    let begun = Instant::now();
    let probed = timeout(STEP_TIMEOUT, login_probe::probe(ctx)).await.unwrap_or(LoginProbeOutcome::Unknown);
    let (challenge, reply) = match probed {
        LoginProbeOutcome::Refused(challenge) => {
            let reply = ChallengeReply::Refused {
                names_metadata: challenge.resource_metadata.is_some(),
                scopes: challenge.scope.clone().unwrap_or_default(),
            };
            (challenge, reply)
        }
        LoginProbeOutcome::Accepted => (Challenge::default(), ChallengeReply::Accepted),
        LoginProbeOutcome::Unknown => (Challenge::default(), ChallengeReply::Other),
    };
    let challenged = ExaminedStep { duration: begun.elapsed(), outcome: Ok(reply) };

    let described = examine_step(discover::find_resource_metadata(ctx, &challenge)).await;
    let mut examination = AuthorizationExamination {
        challenge: challenged,
        resource: described.map(|described| described.as_ref().map(ResourceFacts::new)),
        issuer: None,
        pkce: None,
        dpop: None,
        client: None,
    };
    let Ok(described) = described.outcome else { return examination };
    let located = examine_step(async {
        let discovery = discover::locate_issuer(ctx, &challenge, described).await?;
        check_endpoints(&ctx.auth.grant, &discovery.metadata)?;
        Ok(discovery)
    })
    .await;
    examination.issuer = Some(located.clone());
    let Ok(discovery) = located.outcome else { return examination };
    if ctx.auth.grant == Grant::Person {
        examination.pkce = Some(examine_step(async { pkce::check_supported(&discovery) }).await);
    }
    examination.dpop = examine_binding(ctx, &discovery, &challenge).await;
    if !matches!(ctx.auth.grant, Grant::Workload(_)) {
        examination.client = Some(examine_step(register::expected_client(ctx, &discovery.metadata)).await);
    }
    examination
}

/// Fails if the metadata names no address for a request that a login would send.
fn check_endpoints(grant: &Grant, metadata: &Metadata) -> Result<(), AuthError> {
    let has_page = metadata.authorization_endpoint.is_some();
    let has_codes = metadata.device_authorization_endpoint.is_some();
    let issuer = sanitize_url(&metadata.issuer);
    let missing = match grant {
        _ if metadata.token_endpoint.is_none() => "token_endpoint",
        // Without a browser, a person logs in with a code.
        Grant::Person if !has_page && !has_codes => "authorization_endpoint",
        Grant::Device if !has_codes => {
            let what = format!("{issuer} does not support login with a device code");
            return Err(AuthError::new(AuthErrorKind::Setup, what)
                .hint("leave `grant` out of the server's `auth` to log in with a browser"));
        }
        _ => return Ok(()),
    };
    let what = format!("the metadata of {issuer} has no `{missing}`, without which no login is possible");
    Err(AuthError::new(AuthErrorKind::Untrusted, what))
}

/// Decides what a login would decide about DPoP. `None` if nobody asks for bound tokens.
async fn examine_binding(
    ctx: &AuthContext,
    discovery: &Discovery,
    challenge: &Challenge,
) -> Option<ExaminedStep<TokenBinding>> {
    let is_bound = async { dpop::should_bind_tokens(&ctx.auth, discovery, challenge.dpop) };
    let step = examine_step(is_bound).await;
    let is_asked_for = ctx.auth.dpop != Dpop::Never && (discovery.wants_dpop || challenge.dpop);
    match step.outcome {
        Ok(false) if !is_asked_for => None,
        _ => Some(step.map(|is_bound| if *is_bound { TokenBinding::Key } else { TokenBinding::Unannounced })),
    }
}

async fn examine_step<T>(step: impl Future<Output = Result<T, AuthError>>) -> ExaminedStep<T> {
    let begun = Instant::now();
    let outcome = timeout(STEP_TIMEOUT, step).await.unwrap_or_else(|_| {
        let what = format!("no answer within {} s", STEP_TIMEOUT.as_secs());
        Err(AuthError::new(AuthErrorKind::Unavailable, what))
    });
    ExaminedStep { duration: begun.elapsed(), outcome }
}

impl<T> ExaminedStep<T> {
    fn map<U>(&self, change: impl FnOnce(&T) -> U) -> ExaminedStep<U> {
        let outcome = self.outcome.as_ref().map(change).map_err(Clone::clone);
        ExaminedStep { duration: self.duration, outcome }
    }
}

impl ResourceFacts {
    fn new(metadata: &ResourceMetadata) -> Self {
        let ResourceMetadata { resource, authorization_servers, .. } = metadata.clone();
        Self { resource, authorization_servers }
    }
}
