//! Owns the validated form of what a server is told about who we are: how a login is had, by which client,
//! and which headers a command makes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::secret::Secret;

/// How a server that wants a login gets one. The default finds out everything from the server. `Debug` leaves out the
/// values of [`Auth::authorize_params`]: people pass keys in them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Auth {
    /// How tokens are had.
    pub grant: Grant,
    /// The client that was registered with the authorization server by hand; `None` is to be found out.
    pub client: Option<ClientSettings>,
    /// The URL of a Client ID Metadata Document: `https`, with a path.
    pub client_metadata_url: Option<Url>,
    /// The scopes to ask for, whatever the server suggests; `None` is what it suggests.
    pub scope: Option<Vec<String>>,
    /// What tokens are asked to be good for (RFC 8707).
    pub resource: Resource,
    /// The authorization server to use, as its issuer; `None` is the first that the server names.
    pub issuer: Option<String>,
    /// Which account: a label that keeps logins apart, and a hint for the login page.
    pub account: Option<String>,
    /// Where the browser is sent back to.
    pub redirect: Redirect,
    /// What is added to the address of the login page, in this order.
    pub authorize_params: Vec<(String, String)>,
    /// Whether tokens are bound to a key (RFC 9449).
    pub dpop: Dpop,
}

/// How tokens are had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Grant {
    /// A person logs in, in a browser; by a code on another device where there is none.
    #[default]
    Person,
    /// A person logs in by a code on another device (RFC 8628), even where there is a browser.
    Device,
    /// The client is its own account.
    ClientCredentials,
    /// An organisation's identity provider vouches for the person (ID-JAG).
    Enterprise(Idp),
    /// The platform vouches for the program (RFC 7523).
    Workload(Supply),
    /// Never: a 401 is an error.
    Off,
}

/// A client that was registered by hand. It is never registered anew, nor used with another issuer than
/// [`Auth::issuer`] where that is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSettings {
    /// `client_id`.
    pub id: String,
    /// `client_secret`.
    pub secret: Option<Secret>,
    /// How it proves itself at the token endpoint; `None` is what fits the secrets it has and the server offers.
    pub method: Option<TokenAuth>,
    /// The key for `private_key_jwt`.
    pub key: Option<SigningKey>,
    /// The audience of its assertions; `None` is the issuer.
    pub audience: Option<String>,
}

/// A private key that signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// PEM, usually of PKCS #8.
    pub pem: Secret,
    /// `kid` of what it signs.
    pub id: Option<String>,
    /// `alg` of what it signs, such as `ES256`; `None` is what fits the key.
    pub algorithm: Option<String>,
}

/// How a client proves itself at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenAuth {
    /// Not at all: it is public.
    None,
    /// The secret in the body.
    Post,
    /// The secret in the `Authorization` header.
    Basic,
    /// An assertion that it signs.
    PrivateKeyJwt,
}

/// What tokens are asked to be good for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Resource {
    /// What the server's metadata says, to the letter; its URL where that says nothing.
    #[default]
    Found,
    /// This.
    Fixed(String),
    /// Nothing is said.
    Off,
}

/// Where the browser is sent back to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Redirect {
    /// This machine, on any free port.
    #[default]
    AnyPort,
    /// This machine, on this port: the one that was registered.
    Port(u16),
    /// This address. On this machine it is listened on; elsewhere a person has to bring back what it got.
    Uri(Url),
}

/// Whether tokens are bound to a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Dpop {
    /// Where the server says that it wants them to be.
    #[default]
    Auto,
    /// Always: without that there is no login.
    Always,
    /// Never.
    Never,
}

/// An organisation's identity provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idp {
    /// Where it exchanges tokens.
    pub token_endpoint: Url,
    /// Our client there.
    pub client_id: String,
    /// Its secret.
    pub client_secret: Option<Secret>,
    /// The person's ID token.
    pub id_token: Supply,
}

/// Where a token that somebody else makes comes from. It is asked anew each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Supply {
    /// It is this.
    Value(Secret),
    /// It stands in a file, which others renew.
    File(PathBuf),
    /// A program prints it.
    Command(Program),
}

/// A program to run. `Debug` leaves out the arguments: people pass keys in them.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// A path, or a name to be searched for.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What is added to its environment.
    pub env: BTreeMap<String, Secret>,
    /// The folder it runs in.
    pub cwd: Option<PathBuf>,
}

/// A program that prints headers as a JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadersCommand {
    /// What is run.
    pub program: Program,
    /// How long it may take.
    pub timeout: Duration,
    /// For how long what it prints is used.
    pub ttl: Duration,
}

/// Who we say we are to every server that wants a login, where its entry says nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppSettings {
    /// The name that a person sees when they log in; `None` is the program's own.
    pub client_name: Option<String>,
    /// The URL of a Client ID Metadata Document: `https`, with a path.
    pub client_metadata_url: Option<Url>,
}

// === impl ===

impl HeadersCommand {
    /// The defaults, in seconds; the schema gives them too.
    pub(crate) const TIMEOUT: u64 = 10;
    pub(crate) const TTL: u64 = 300;

    /// A program with the defaults of a configuration file: 10 seconds to print, and 5 minutes in which what it
    /// printed is used.
    pub fn new(program: Program) -> Self {
        Self { program, timeout: Duration::from_secs(Self::TIMEOUT), ttl: Duration::from_secs(Self::TTL) }
    }
}

impl Program {
    /// A program with arguments, in this folder and this environment.
    pub fn new<A: Into<String>>(command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: None,
        }
    }
}

impl TokenAuth {
    /// As metadata and configuration name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Post => "client_secret_post",
            Self::Basic => "client_secret_basic",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::None, Self::Post, Self::Basic, Self::PrivateKeyJwt].into_iter().find(|it| it.as_str() == name)
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            grant,
            client,
            client_metadata_url,
            scope,
            resource,
            issuer,
            account,
            redirect,
            authorize_params,
            dpop,
        } = self;
        let params: Vec<&str> = authorize_params.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Auth")
            .field("grant", grant)
            .field("client", client)
            .field("client_metadata_url", &client_metadata_url.as_ref().map(Url::as_str))
            .field("scope", scope)
            .field("resource", resource)
            .field("issuer", issuer)
            .field("account", account)
            .field("redirect", redirect)
            .field("authorize_params", &params)
            .field("dpop", dpop)
            .finish()
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, args, env, cwd } = self;
        f.debug_struct("Program")
            .field("command", command)
            .field("args", &format_args!("[{} redacted]", args.len()))
            .field("env", env)
            .field("cwd", cwd)
            .finish()
    }
}
