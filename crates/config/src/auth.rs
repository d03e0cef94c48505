//! Owns the validated authentication settings of a server: how tokens are obtained, by which
//! client, and which command prints headers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::check::{self, InvalidValue};
use crate::secret::{RedactedText, Secret, redacted_debug};
use crate::words::words;

/// How tokens are obtained for a server that requires a login. By default everything is discovered
/// from the server. `Debug` omits the values of [`AuthSettings::authorize_params`]: people pass
/// keys in them.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AuthSettings {
    /// How tokens are obtained.
    pub grant: Grant,
    /// The client that was registered by hand; `None` lets discovery decide.
    pub client: Option<ClientSettings>,
    /// The URL of a Client ID Metadata Document: `https`, with a path.
    pub client_metadata_url: Option<Url>,
    /// Scopes to request; `None` requests what the server suggests.
    pub scope: Option<Vec<String>>,
    /// The resource that tokens are requested for (RFC 8707).
    pub resource: ResourceIndicator,
    /// The authorization server to use, as its issuer; `None` is the first that the server names.
    pub issuer: Option<String>,
    /// Account label: keeps logins apart, and is passed to the login page as a hint.
    pub account: Option<String>,
    /// Where the browser is redirected after a login.
    pub redirect: Redirect,
    /// Parameters added to the authorization URL, in this order.
    pub authorize_params: Vec<(String, String)>,
    /// Whether tokens are bound to a key (RFC 9449).
    pub dpop: Dpop,
}

/// How tokens are obtained.
///
/// Exhaustive, since a login must handle every value: a new one needs code at each of the places
/// that match it, and no default would be safe there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Grant {
    /// A person logs in, in a browser; with a code on another device if there is none.
    #[default]
    Person,
    /// A person logs in with a code on another device (RFC 8628), even if there is a browser.
    Device,
    /// The client authenticates as itself.
    ClientCredentials,
    /// An organization's identity provider vouches for the person (ID-JAG).
    Enterprise(Idp),
    /// The platform vouches for the program (RFC 7523).
    Workload(TokenSource),
    /// No login: a 401 is an error.
    Off,
}

/// A client that was registered by hand. It is never registered again, nor used with another issuer
/// than [`AuthSettings::issuer`] if that is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ClientSettings {
    /// `client_id`.
    pub id: String,
    /// `client_secret`.
    pub secret: Option<Secret>,
    /// How it authenticates at the token endpoint; `None` chooses by the secrets it has and what
    /// the server offers.
    pub method: Option<TokenAuth>,
    /// The key for `private_key_jwt`.
    pub key: Option<SigningKey>,
    /// The audience of its assertions; `None` is the issuer.
    pub audience: Option<String>,
}

/// A private key that signs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SigningKey {
    /// PEM, usually of PKCS #8.
    pub pem: Secret,
    /// `kid` of what it signs.
    pub id: Option<String>,
    /// `alg` of what it signs, such as `ES256`; `None` is what fits the key.
    pub algorithm: Option<String>,
}

words! {
    /// How a client authenticates at the token endpoint. Its name is the one in metadata.
    ///
    /// Exhaustive, since a login must handle every value: a new one needs code at each of the places
    /// that match it, and no default would be safe there.
    pub enum TokenAuth {
        /// Not at all: a public client.
        None = "none",
        /// The secret in the body.
        Post = "client_secret_post",
        /// The secret in the `Authorization` header.
        Basic = "client_secret_basic",
        /// A signed assertion.
        PrivateKeyJwt = "private_key_jwt",
    }
}

/// The resource that tokens are requested for.
///
/// Exhaustive, since a login must handle every value: a new one needs code at each of the places
/// that match it, and no default would be safe there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum ResourceIndicator {
    /// The one in the server's metadata, verbatim; the server's URL if the metadata has none.
    #[default]
    Discovered,
    /// This one.
    Fixed(String),
    /// None: the parameter is omitted.
    Off,
}

/// Where the browser is redirected after a login.
///
/// Exhaustive, since a login must handle every value: a new one needs code at each of the places
/// that match it, and no default would be safe there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Redirect {
    /// A loopback address on any free port.
    #[default]
    AnyPort,
    /// A loopback address on this port, which was registered.
    Port(u16),
    /// This address. If it is on this machine, we listen on it; otherwise a person has to bring
    /// back the URL that the browser was redirected to.
    Uri(Url),
}

/// Whether tokens are bound to a key (DPoP).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dpop {
    /// If the server asks for it.
    #[default]
    Auto,
    /// Always; a login that cannot do it fails.
    Always,
    /// Never.
    Never,
}

/// An organization's identity provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Idp {
    /// Its token endpoint, which exchanges tokens.
    pub token_endpoint: Url,
    /// The id of our client there.
    pub client_id: String,
    /// The secret of that client.
    pub client_secret: Option<Secret>,
    /// Where the person's ID token comes from.
    pub id_token: TokenSource,
}

/// Where an externally issued token comes from. It is read again each time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenSource {
    /// A fixed value.
    Value(Secret),
    /// A file that another program keeps up to date.
    File(PathBuf),
    /// The output of a program.
    Command(Program),
}

/// A program to start. `Debug` leaves out the arguments: people pass keys in them.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Program {
    /// A path, or a name to be searched for. From a file it is not empty and has no NUL.
    pub command: String,
    /// Its arguments. From a file they have no NUL.
    pub args: Vec<String>,
    /// Variables added to its environment. Names have no `=`; neither names nor values have NUL.
    pub env: BTreeMap<String, Secret>,
    /// The folder it runs in, where a relative path in `command` is looked up as well. `None` is the
    /// folder of the process that starts it.
    pub cwd: Option<PathBuf>,
}

/// A program that prints headers as a JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HeadersCommand {
    /// The program.
    pub program: Program,
    /// How long it may take (default 10 s).
    pub timeout: Duration,
    /// How long its output is used before it is run again (default 5 min).
    pub ttl: Duration,
}

/// How this client presents itself to every server that requires a login, unless the server's entry
/// says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AppSettings {
    /// Name that a person sees when they log in; `None` is the program's own.
    pub client_name: Option<String>,
    /// The URL of a Client ID Metadata Document: `https`, with a path.
    pub client_metadata_url: Option<Url>,
}

// === impl ===

impl ClientSettings {
    /// Creates a public client: no secret, no key.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), secret: None, method: None, key: None, audience: None }
    }
}

impl SigningKey {
    /// Creates a key without a `kid`, with the algorithm that fits it.
    pub fn new(pem: impl Into<Secret>) -> Self {
        Self { pem: pem.into(), id: None, algorithm: None }
    }
}

impl Idp {
    /// Creates an identity provider at which our client has no secret.
    pub fn new(token_endpoint: Url, client_id: impl Into<String>, id_token: TokenSource) -> Self {
        Self { token_endpoint, client_id: client_id.into(), client_secret: None, id_token }
    }
}

impl HeadersCommand {
    /// The defaults, in seconds; the schema gives them too.
    pub(crate) const TIMEOUT: u64 = 10;
    pub(crate) const TTL: u64 = 300;

    /// Creates a command with the defaults of a configuration file: 10 seconds to print, and 5
    /// minutes in which the output is used.
    pub fn new(program: Program) -> Self {
        Self { program, timeout: Duration::from_secs(Self::TIMEOUT), ttl: Duration::from_secs(Self::TTL) }
    }
}

impl Program {
    /// Creates a program that runs in the current folder with the current environment.
    pub fn new<A: Into<String>>(command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: None,
        }
    }

    /// Adds a variable, replacing one of the same name.
    pub(crate) fn set_variable(&mut self, name: String, value: Secret) -> Result<(), InvalidValue> {
        check::env_name(&name)?;
        check::no_nul(value.expose())?;
        self.env.insert(name, value);
        Ok(())
    }
}

redacted_debug!(AuthSettings {
    grant,
    client,
    client_metadata_url = client_metadata_url.as_ref().map(Url::as_str),
    scope,
    resource,
    issuer,
    account,
    redirect,
    authorize_params = authorize_params.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    dpop,
});

redacted_debug!(Program { command, args = RedactedText::args(args), env, cwd });
