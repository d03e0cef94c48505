//! Who we are: everything between a refused request and one that carries a token.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `net` | whom we ask, with what, and what of it is believed |
//! | `challenge` | what a refusal says |
//! | `metadata`, `discover`, `place` | who gives out tokens for a server, and at which addresses |
//! | `register`, `client` | which client we are there |
//! | `method` | how a client proves itself at the token endpoint |
//! | `scope` | how much is asked for |
//! | `resource` | what a token is good for, and whether a server is who it says |
//! | `pkce` | whether codes are safe at an authorization server |
//! | `response` | whether what a browser brought back may be believed |
//! | `grant` | how tokens are had, each way in a file of its own |
//! | `dpop` | how a token is bound to a key |
//! | `jwt` | how a statement is signed |
//! | `listener` | where a browser comes back to |
//! | `login` | a login from beginning to end, with a person |
//! | `revoke` | how tokens are ended |
//! | `record` | what is remembered of a login |
//! | `account` | what of it may be shown |
//! | `export` | how it is carried to another machine |
//! | `identity` | who one connection is, at any moment |
//! | `refresh` | how a token is renewed by one of many, once |
//! | `headers` | headers that a program makes |
//! | `program` | how such a program is run |
//! | `fuzzing` | what fuzz targets check; there with `--cfg fuzzing` alone |
//!
//! Everything that a server or an authorization server says is taken for hostile until it is checked.

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
