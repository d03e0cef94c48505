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
//! | `listener` | the loopback listener that the browser is redirected to |
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

mod account;
mod challenge;
mod client;
mod ctx;
mod discover;
mod dpop;
mod error;
mod export;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grant;
mod headers;
mod identity;
mod jwt;
mod listener;
mod login;
mod metadata;
mod method;
mod net;
mod pkce;
mod place;
mod program;
mod prompt;
mod record;
mod refresh;
mod register;
mod resource;
mod response;
mod revoke;
mod scope;
#[cfg(test)]
mod site;
#[cfg(test)]
mod testing;
mod tokens;

pub use account::{Account, AccountState, accounts};
pub use challenge::wanted_scopes;
pub use client::{ClientOrigin, OAuthClient};
pub use ctx::{App, Ctx};
pub use error::{AuthError, AuthErrorKind};
pub use export::{Overwrite, export, export_these, import, import_with};
pub use identity::{Begun, Identity, IdentitySetup, LoggedOut, LoginOptions, RefreshState, Refusal};
pub use net::Net;
pub use place::{Metadata, Place, PlaceKind};
pub use prompt::{Asked, DeviceCode, HostReply, LoginPage, LoginPrompt, OtherHost, PageReply};
pub use register::document;
pub use tokens::{Scheme, Tokens};
