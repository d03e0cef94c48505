//! Login scenarios: settings that a scenario gives beforehand, and a user who agrees to everything
//! in a headless browser.

use std::io;

use bowline::auth::{App, Auth, DeviceCode, LoginPage, LoginPrompt, PageReply, PromptFuture};
use bowline::config::{ClientSettings, Grant, Idp, Secret, SigningKey, TokenSource};
use bowline::{HttpServer, config};
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

/// URL of the client metadata document that the suite expects. It cannot be fetched.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

/// Returns the auth settings of the host, equal for every scenario.
pub(crate) fn host_auth() -> Result<Auth, Box<dyn std::error::Error>> {
    let app = App::default().metadata_url(CLIENT_METADATA_URL.parse()?);
    Ok(Auth::in_memory().app(app).prompt(HeadlessBrowser))
}

/// Adds the scenario's login settings to the server.
pub(crate) fn configure_server(
    server: HttpServer,
    scenario: &str,
) -> Result<HttpServer, Box<dyn std::error::Error>> {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let Some(context) = context.filter(|_| scenario.starts_with("auth/")) else { return Ok(server) };
    let context: Context = serde_json::from_str(&context)?;
    let mut settings = config::AuthSettings::default();
    settings.issuer.clone_from(&context.issuer);
    (settings.grant, settings.client) = match scenario {
        "auth/client-credentials-jwt" | "auth/client-credentials-basic" => {
            (Grant::ClientCredentials, context.client())
        }
        "auth/enterprise-managed-authorization" | "auth/cross-app-access-complete-flow" => {
            (Grant::Enterprise(context.idp()?), context.client())
        }
        "auth/wif-jwt-bearer" => {
            let token = context.valid_jwt.as_deref().ok_or("the context has no valid_jwt")?;
            (Grant::Workload(TokenSource::Value(Secret::new(token))), context.client())
        }
        _ => (Grant::Person, context.client()),
    };
    Ok(server.auth(settings))
}

/// The login settings that a scenario gives.
#[derive(Deserialize)]
struct Context {
    client_id: Option<String>,
    client_secret: Option<String>,
    private_key_pem: Option<String>,
    signing_algorithm: Option<String>,
    issuer: Option<String>,
    idp_client_id: Option<String>,
    idp_id_token: Option<String>,
    idp_token_endpoint: Option<String>,
    valid_jwt: Option<String>,
}

impl Context {
    fn client(&self) -> Option<ClientSettings> {
        let key = self.private_key_pem.as_deref().map(|pem| {
            let mut key = SigningKey::new(pem);
            key.algorithm.clone_from(&self.signing_algorithm);
            key
        });
        let mut client = ClientSettings::new(self.client_id.clone()?);
        client.secret = self.client_secret.as_deref().map(Secret::new);
        client.key = key;
        Some(client)
    }

    fn idp(&self) -> Result<Idp, Box<dyn std::error::Error>> {
        let endpoint = self.idp_token_endpoint.as_deref().ok_or("the context has no idp_token_endpoint")?;
        let id_token = self.idp_id_token.as_deref().ok_or("the context has no idp_id_token")?;
        let client_id = self.idp_client_id.clone().ok_or("the context has no idp_client_id")?;
        Ok(Idp::new(endpoint.parse()?, client_id, TokenSource::Value(Secret::new(id_token))))
    }
}

/// Follows the login page as a browser would.
struct HeadlessBrowser;

impl LoginPrompt for HeadlessBrowser {
    fn show_page(&self, page: LoginPage) -> PromptFuture<'_, PageReply> {
        Box::pin(async move {
            match browse(page.url).await {
                // The redirect has delivered the response by now.
                Ok(()) => std::future::pending().await,
                Err(error) => {
                    eprintln!("the login page led nowhere: {error}");
                    PageReply::GaveUp
                }
            }
        })
    }

    fn show_device_code(&self, _: DeviceCode) -> PromptFuture<'_, ()> {
        Box::pin(async { eprintln!("no scenario has a code for another device") })
    }
}

/// Follows redirects from the login page to the local listener.
async fn browse(page: Url) -> io::Result<()> {
    let mut next = Some(page);
    for _ in 0..5 {
        let Some(url) = next else { return Ok(()) };
        next = get(&url).await?.map(|location| url.join(&location)).transpose().map_err(io::Error::other)?;
    }
    Err(io::Error::other("too many redirects"))
}

/// Returns the `Location` of the response, if there is one. Every page of the suite is on this
/// machine and without TLS.
async fn get(url: &Url) -> io::Result<Option<String>> {
    let host = url.host_str().ok_or_else(|| io::Error::other("a URL without host"))?;
    let port = url.port_or_known_default().unwrap_or(80);
    let mut stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let mut head = answer.split("\r\n\r\n").next().unwrap_or_default().lines().skip(1);
    Ok(head.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
    }))
}

const MAX_RESPONSE_BYTES: u64 = 64 * 1024;
