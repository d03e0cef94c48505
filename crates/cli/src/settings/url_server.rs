//! Applies the options about a server with a URL: transport, certificates, and how a login is made.

use bowline::Server;
use bowline::config::{
    AuthSettings, ClientSettings, Environment, Grant, Redirect, ResourceIndicator, Secret, TokenAuth,
    Transport,
};
use bowline_config::TransportSettings as _;
use serde_json::{Map, Value};
use url::Url;

use crate::args::{OauthArgs, TransportChoice, UrlArgs};
use crate::failure::{Failure, Outcome};

/// Applies `--transport` and `--ca-file`.
pub(crate) fn apply_url_args(mut server: Server, args: &UrlArgs) -> Outcome<Server> {
    let UrlArgs { transport, ca_file } = args;
    if let Some(choice) = transport {
        server.transport = choose_transport(server.transport, *choice)?;
    }
    if let Some(path) = ca_file {
        let (Transport::Http(http) | Transport::Sse(http)) = &mut server.transport else {
            return Err(Failure::usage("--ca-file is for a server with a URL"));
        };
        let whole = std::path::absolute(path);
        http.tls.ca_file = Some(whole.unwrap_or_else(|_| path.clone()));
    }
    Ok(server)
}

/// Applies `--transport` to the transport of the server.
fn choose_transport(transport: Transport, choice: TransportChoice) -> Outcome<Transport> {
    let (Transport::Http(mut http) | Transport::Sse(mut http)) = transport else {
        return Err(Failure::usage("--transport is for a server with a URL"));
    };
    http.fallback = choice == TransportChoice::Auto;
    Ok(if choice == TransportChoice::Sse { Transport::Sse(http) } else { Transport::Http(http) })
}

/// Applies the OAuth options. `port` is that of the redirect URI.
pub(crate) fn apply_oauth_args(
    server: Server,
    args: &OauthArgs,
    port: Option<u16>,
    env: &dyn Environment,
) -> Outcome<Server> {
    if args.to_words(port).is_empty() {
        return Ok(server);
    }
    let Some(http) = server.transport.http() else {
        return Err(Failure::usage("options about logins are for a server with a URL"));
    };
    let auth = auth_settings(http.auth.clone(), args, port, env)?;
    server.with_auth(auth).map_err(|why| Failure::usage(format!("the login cannot be used: {why}")))
}

fn auth_settings(
    mut auth: AuthSettings,
    args: &OauthArgs,
    port: Option<u16>,
    env: &dyn Environment,
) -> Outcome<AuthSettings> {
    let OauthArgs {
        client_info,
        client_metadata,
        client_metadata_url,
        client_credentials,
        resource,
        disable_resource_parameter,
        authorize_params,
        host,
        callback_path,
    } = args;
    if let Some(info) = client_info {
        let option = "--static-oauth-client-info";
        let info = read_object(option, info, env)?;
        let text = |key: &str| info.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let id = text("client_id").ok_or_else(|| Failure::usage(format!("{option} has no `client_id`")))?;
        let mut client = ClientSettings::new(id);
        client.secret = text("client_secret").map(|secret| Secret::new(secret.to_owned()));
        auth.client = Some(client);
        if let Some(port) = port {
            auth.redirect = Redirect::Uri(redirect_url(host.as_deref(), port, callback_path.as_deref())?);
        }
    }
    if let Some(metadata) = client_metadata {
        let metadata = read_object("--static-oauth-client-metadata", metadata, env)?;
        if let Some(scope) = metadata.get("scope").and_then(Value::as_str) {
            auth.scope = Some(scope.split_whitespace().map(ToOwned::to_owned).collect());
        }
        let method = metadata.get("token_endpoint_auth_method").and_then(Value::as_str);
        if let (Some(method), Some(client)) = (method.and_then(token_auth), &mut auth.client) {
            client.method = Some(method);
        }
    }
    if let Some(url) = client_metadata_url {
        auth.client_metadata_url = Some(parse_url("--client-metadata-url", url)?);
    }
    if *client_credentials {
        auth.grant = Grant::ClientCredentials;
    }
    if let Some(resource) = resource {
        parse_url("--resource", resource)?;
        auth.resource = ResourceIndicator::Fixed(resource.clone());
    } else if *disable_resource_parameter {
        auth.resource = ResourceIndicator::Off;
    }
    for param in authorize_params {
        let Some((key, value)) = param.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Failure::usage("the form is --authorize-param KEY=VALUE"));
        };
        // The response is verified against these.
        if ["state", "code_challenge", "code_challenge_method", "client_id", "redirect_uri", "response_type"]
            .contains(&key)
        {
            return Err(Failure::usage(format!("--authorize-param: `{key}` is set by the login itself")));
        }
        auth.authorize_params.push((key.to_owned(), value.to_owned()));
    }
    Ok(auth)
}

/// Reads a JSON object that is typed or in a file. Errors do not quote it, since it may hold a secret.
fn read_object(option: &str, typed: &str, env: &dyn Environment) -> Outcome<Map<String, Value>> {
    let text = match typed.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("{option}: cannot read {path}: {error}")))?,
        None => typed.to_owned(),
    };
    let object: Map<String, Value> = serde_json::from_str(&text)
        .map_err(|_| Failure::usage_hint(format!("{option} is not a JSON object"), "write JSON, or @FILE"))?;
    let filled = object.into_iter().map(|(key, value)| match value {
        Value::String(text) => {
            let filled = fill_variables(&text, |name| {
                let unset = || Failure::usage(format!("{option}: the variable {name} is not set"));
                env.var(name).ok_or_else(unset)
            });
            filled.map(|text| (key, Value::String(text)))
        }
        other => Ok((key, other)),
    });
    filled.collect()
}

/// Replaces each `${NAME}` by what `value` has for that name. The result is not searched again.
pub(crate) fn fill_variables<E>(
    text: &str,
    mut value: impl FnMut(&str) -> Result<String, E>,
) -> Result<String, E> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, left)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&value(name)?);
        rest = left;
    }
    out.push_str(rest);
    Ok(out)
}

fn redirect_url(host: Option<&str>, port: u16, path: Option<&str>) -> Outcome<Url> {
    let path = path.unwrap_or("/oauth/callback");
    if !path.starts_with('/') {
        return Err(Failure::usage("--callback-path must begin with `/`"));
    }
    let host = host.unwrap_or("localhost");
    let url = parse_url("--host", &format!("http://{host}:{port}{path}"))?;
    let is_here = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if is_here { Ok(url) } else { Err(Failure::usage("--host must be an address of this machine")) }
}

fn parse_url(option: &str, text: &str) -> Outcome<Url> {
    let url = Url::parse(text).ok().filter(|url| url.fragment().is_none() && url.password().is_none());
    url.ok_or_else(|| Failure::usage(format!("{option} is not a URL that can be used")))
}

fn token_auth(name: &str) -> Option<TokenAuth> {
    [TokenAuth::None, TokenAuth::Post, TokenAuth::Basic].into_iter().find(|method| method.as_str() == name)
}

#[cfg(test)]
mod tests {
    use bowline::config::{FixedEnvironment, Http};

    use super::*;

    fn http_server() -> Server {
        Server::http("s", "https://h/mcp").build().unwrap()
    }

    #[test]
    fn transports() {
        let is = |choice| choose_transport(http_server().transport, choice).ok().unwrap();
        assert!(matches!(is(TransportChoice::Auto), Transport::Http(Http { fallback: true, .. })));
        assert!(matches!(is(TransportChoice::Http), Transport::Http(Http { fallback: false, .. })));
        assert!(matches!(is(TransportChoice::Sse), Transport::Sse(_)));
        let local = || Server::stdio("s", "x").build().unwrap();
        assert!(choose_transport(local().transport, TransportChoice::Http).is_err());
        let with_ca = UrlArgs { ca_file: Some("ca.pem".into()), ..UrlArgs::default() };
        assert!(apply_url_args(local(), &with_ca).is_err());
        let trusting = apply_url_args(http_server(), &with_ca).ok().unwrap();
        let here = std::env::current_dir().unwrap().join("ca.pem");
        assert_eq!(trusting.transport.http().unwrap().tls.ca_file, Some(here));
    }

    #[test]
    fn a_registered_client() {
        let env = FixedEnvironment::default().with_var("S3CRET", "k3y");
        let args = OauthArgs {
            client_info: Some(r#"{"client_id":"app","client_secret":"${S3CRET}"}"#.to_owned()),
            client_metadata: Some(
                r#"{"scope":"a b","token_endpoint_auth_method":"client_secret_basic"}"#.to_owned(),
            ),
            resource: Some("https://tenant.example/".to_owned()),
            authorize_params: vec!["prompt=consent".to_owned()],
            host: Some("127.0.0.1".to_owned()),
            ..OauthArgs::default()
        };
        let server = apply_oauth_args(http_server(), &args, Some(9696), &env).ok().unwrap();
        let auth = &server.transport.http().unwrap().auth;
        let client = auth.client.as_ref().unwrap();
        assert_eq!((&*client.id, client.method), ("app", Some(TokenAuth::Basic)));
        assert_eq!(client.secret.as_ref().unwrap().expose(), "k3y");
        assert_eq!(auth.scope.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
        assert_eq!(auth.resource, ResourceIndicator::Fixed("https://tenant.example/".to_owned()));
        assert_eq!(auth.authorize_params, [("prompt".to_owned(), "consent".to_owned())]);
        let redirect = Url::parse("http://127.0.0.1:9696/oauth/callback").unwrap();
        assert_eq!(auth.redirect, Redirect::Uri(redirect));
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_the_secret() {
        let env = FixedEnvironment::default();
        let info = |info: &str| OauthArgs { client_info: Some(info.to_owned()), ..OauthArgs::default() };
        let param =
            |param: &str| OauthArgs { authorize_params: vec![param.to_owned()], ..OauthArgs::default() };
        let host = OauthArgs { host: Some("192.0.2.1".to_owned()), ..info(r#"{"client_id":"a"}"#) };
        for (args, expected) in [
            (info("{k3y"), "--static-oauth-client-info is not a JSON object"),
            (info(r#"{"client_secret":"k3y"}"#), "--static-oauth-client-info has no `client_id`"),
            (
                info(r#"{"client_id":"a","client_secret":"${NONE}"}"#),
                "--static-oauth-client-info: the variable NONE is not set",
            ),
            (param("k3y"), "the form is --authorize-param KEY=VALUE"),
            (param("state=k3y"), "--authorize-param: `state` is set by the login itself"),
            (host, "--host must be an address of this machine"),
        ] {
            let Err(Failure::Report(report)) = apply_oauth_args(http_server(), &args, Some(1), &env) else {
                panic!("{expected}")
            };
            assert_eq!(report.message, expected);
        }
        let local = Server::stdio("s", "x").build().unwrap();
        assert!(apply_oauth_args(local, &info("{}"), None, &env).is_err());
        let local = Server::stdio("s", "x").build().unwrap();
        assert!(apply_oauth_args(local, &OauthArgs::default(), None, &env).is_ok());
    }
}
