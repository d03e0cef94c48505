//! Who we are: everything between a refused request and one that carries a token.
//!
//! | file | the decision it owns |
//! |---|---|
//! | `net` | whom we ask, with what, and what of it is believed |
//! | `challenge` | what a refusal says |
//! | `metadata`, `discover`, `place` | who gives out tokens for a server, and at which addresses |
//! | `register`, `client` | which client we are there |
//! | `scope` | how much is asked for |
//! | `response` | whether what a browser brought back may be believed |
//! | `grant` | how tokens are had, each way in a file of its own |
//! | `dpop` | how a token is bound to a key |
//! | `listener` | where a browser comes back to |
//! | `login` | a login from beginning to end, with a person |
//! | `record` | what is remembered of a login |
//! | `identity` | who one connection is, at any moment |
//! | `refresh` | how a token is renewed by one of many, once |
//! | `headers` | headers that a program makes |
//!
//! Everything that a server or an authorization server says is taken for hostile until it is checked.

mod account;
mod client;
mod ctx;
mod error;
mod identity;
mod net;
mod place;
mod prompt;
mod tokens;

pub use account::{Account, AccountState, accounts};
pub use client::{ClientOrigin, OAuthClient};
pub use ctx::{App, Ctx};
pub use error::{AuthError, AuthErrorKind};
pub use identity::{Begun, Identity, IdentitySetup, LoggedOut, LoginOptions, Refusal};
pub use net::Net;
pub use place::{Metadata, Place, PlaceKind};
pub use prompt::{Asked, DeviceCode, LoginPage, LoginPrompt, PageReply};
pub use tokens::{Scheme, Tokens};
