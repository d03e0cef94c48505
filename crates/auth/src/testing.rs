//! Shared by the unit tests: the context of one server, and the authorization server behind it.

use std::sync::Arc;

use bowline_config::{AuthSettings, ClientSettings, Grant, Http, Secret, TokenAuth};
use bowline_store::EncryptedStore;
use bowline_testkit::{AuthServer, with};
use bowline_transport::http::Proxies;
use url::Url;

use crate::client::{ClientOrigin, OAuthClient};
use crate::context::{App, AuthContext};
use crate::discovery::{Discovery, DiscoveryKind, Metadata};
use crate::http_client::AuthHttpClient;
use crate::identity::{Identity, IdentitySetup};

/// The server that tokens are for. Nothing listens there.
pub(crate) const RESOURCE: &str = "http://127.0.0.1:9/mcp";

/// A context with these settings and an empty store.
pub(crate) fn ctx(auth: AuthSettings) -> AuthContext {
    ctx_at(RESOURCE.parse().unwrap(), auth)
}

/// A context of a server at this URL, with an empty store.
pub(crate) fn ctx_at(url: Url, auth: AuthSettings) -> AuthContext {
    let http_client = AuthHttpClient::new(&Http::from_url(url.clone()), Proxies::Direct);
    let app = Arc::new(App { name: "Bowline".into(), uri: None, metadata_url: None });
    let store = EncryptedStore::in_memory();
    AuthContext { server: "files".into(), url, auth: Arc::new(auth), app, store, http_client }
}

/// An identity that nobody can be prompted for.
pub(crate) fn identity(server: &str, http: Http, store: EncryptedStore) -> Identity {
    Identity::new(IdentitySetup {
        server: server.into(),
        http,
        app: Arc::new(App::default()),
        store,
        prompt: None,
        proxies: Proxies::Direct,
    })
}

/// Settings of a client that has nothing but a secret.
pub(crate) fn client_settings(id: &str, secret: &str) -> ClientSettings {
    with!(ClientSettings::new(id), secret: Some(Secret::new(secret)))
}

/// Settings of a machine that logs in with a client secret.
pub(crate) fn machine_auth() -> AuthSettings {
    let client = Some(client_settings("bot", "hunter2"));
    with!(AuthSettings::default(), grant: Grant::ClientCredentials, client: client)
}

/// The metadata of the test authorization server.
pub(crate) fn discovery(server: &AuthServer) -> Discovery {
    let at = |name: &str| Some(server.endpoint(name).parse().unwrap());
    let list = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
    let metadata = Metadata {
        issuer: server.issuer(),
        authorization_endpoint: at("authorize"),
        token_endpoint: at("token"),
        registration_endpoint: at("register"),
        device_authorization_endpoint: at("device"),
        revocation_endpoint: at("revoke"),
        scopes_supported: None,
        code_challenge_methods_supported: list(&["S256"]),
        token_endpoint_auth_methods_supported: list(&["none", "client_secret_basic"]),
        token_endpoint_auth_signing_alg_values_supported: None,
        grant_types_supported: None,
        grant_profiles_supported: None,
        dpop_signing_alg_values_supported: list(&["ES256"]),
        client_id_metadata_document_supported: false,
        authorization_response_iss_parameter_supported: true,
    };
    Discovery {
        resource: Some(RESOURCE.into()),
        scopes: None,
        wants_dpop: false,
        metadata,
        kind: DiscoveryKind::Described,
    }
}

/// A client that the authorization server knows.
pub(crate) fn client(server: &AuthServer, method: TokenAuth) -> OAuthClient {
    let secret = matches!(method, TokenAuth::Basic | TokenAuth::Post).then(|| Secret::new(CLIENT_SECRET));
    OAuthClient {
        id: CLIENT_ID.into(),
        secret,
        method,
        key: None,
        audience: None,
        issuer: server.issuer(),
        origin: ClientOrigin::Configured,
        registered_redirect: None,
    }
}

/// These contain every character that could break a header or a form.
pub(crate) const CLIENT_ID: &str = "https://client.example/a b:c";
pub(crate) const CLIENT_SECRET: &str = "s:e c+r%e&t=ü";
