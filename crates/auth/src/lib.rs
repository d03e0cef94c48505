//! Authorization: everything between a refused request and one that carries a token.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `http_client` | which addresses are requested, and which responses are trusted |
//! | `challenge` | parsing of `WWW-Authenticate` |
//! | `metadata`, `discover`, `discovery` | which authorization server issues the tokens |
//! | `register`, `client` | which OAuth client we are there |
//! | `client_auth_method` | how a client authenticates at the token endpoint |
//! | `scope` | which scopes are requested |
//! | `resource` | the `resource` parameter, and which servers a resource covers |
//! | `pkce` | whether authorization codes are safe at an authorization server |
//! | `authorization_response` | validation of what the browser brings back |
//! | `grant` | how tokens are obtained, one file per grant |
//! | `dpop` | binding of tokens to a key |
//! | `jwt` | signing of assertions and proofs |
//! | `access_token` | verification of tokens that others present to us, as a resource server |
//! | `listener` | the loopback listener that the browser is redirected to |
//! | `examination` | the steps before a login one by one, for diagnosis |
//! | `login` | a complete login with a person |
//! | `revoke` | token revocation |
//! | `record` | the stored form of a login |
//! | `account` | the part of a login that may be shown |
//! | `export` | transfer of logins to another machine |
//! | `identity` | the credentials of one connection, at any moment |
//! | `refresh` | token refresh, once across all processes |
//! | `command_headers` | headers that a command prints |
//! | `program` | how such a command is run |
//! | `fuzzing` | entry points of the fuzz targets; only with `--cfg fuzzing` |
//!
//! Everything that a server or an authorization server sends is treated as hostile until it is
//! checked.

// The pages on docs.rs name the feature that each item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod access_token;
mod account;
mod authorization_response;
mod challenge;
mod client;
mod client_auth_method;
mod command_headers;
mod context;
mod discover;
mod discovery;
mod dpop;
mod error;
mod examination;
#[cfg(feature = "export")]
mod export;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grant;
mod http_client;
mod identity;
mod jwt;
mod listener;
mod login;
mod metadata;
mod pkce;
mod program;
mod prompt;
mod record;
mod refresh;
mod register;
mod resource;
mod revoke;
mod scope;
#[cfg(test)]
mod test_site;
#[cfg(test)]
mod testing;
mod tokens;
mod watch;

pub use access_token::{AccessTokenVerifier, TokenDefect, TokenRejection, VerifiedToken};
pub use account::{Account, AccountState, accounts};
pub use challenge::missing_scopes;
pub use client::{ClientOrigin, OAuthClient};
pub use context::{App, AuthContext};
pub use discovery::{Discovery, DiscoveryKind, Metadata};
pub use error::{AuthError, AuthErrorKind};
pub use examination::{AuthorizationExamination, ChallengeReply, ExaminedStep, ResourceFacts, TokenBinding};
#[cfg(feature = "export")]
pub use export::{Overwrite, export, export_accounts, import, import_with};
pub use http_client::AuthHttpClient;
pub use identity::{Identity, IdentitySetup, LoginOptions, LogoutOutcome, RefreshState, RefusedRequest};
pub use login::PendingLogin;
pub use prompt::{
    DeviceCode, ForeignHostChoice, ForeignLoginHost, LoginPage, LoginPrompt, PageReply, PromptFuture,
};
pub use register::client_metadata_document;
pub use tokens::{Scheme, Tokens};
pub use watch::Watch;
