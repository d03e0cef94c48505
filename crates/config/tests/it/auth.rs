//! Tests of authentication settings in our own dialect: logins and headers commands.

use std::time::Duration;

use bowline_config::TransportSettings as _;
use bowline_config::{
    AppSettings, AuthSettings, ClientSettings, Config, Dpop, Grant, HeadersCommand, Http, Idp, Program,
    Redirect, ResourceIndicator, Secret, Server, SigningKey, Source, TokenAuth, TokenSource, Transport, diff,
    parse,
};
use bowline_testkit::with;

use crate::{environment, note_lines, parse_errors, parse_valid};

pub(crate) fn http<'a>(config: &'a Config, name: &str) -> &'a Http {
    match &config.servers[name].transport {
        Transport::Http(http) | Transport::Sse(http) => http,
        _ => panic!("{name} is started"),
    }
}

/// Parses a server with this `auth` and returns its settings.
#[track_caller]
fn auth(table: &str) -> AuthSettings {
    let config = parse_valid("c.toml", &format!("[servers.a]\nurl = 'https://h/mcp'\n{table}"));
    assert_eq!(note_lines(&config.notes), "");
    http(&config, "a").auth.clone()
}

/// Returns the errors of a server with this `auth`, which begins in line 3.
#[track_caller]
fn auth_errors(table: &str) -> String {
    parse_errors("c.toml", &format!("[servers.a]\nurl = 'https://h/mcp'\n{table}"))
}

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----";

#[test]
fn auth_defaults_to_discovery() {
    assert_eq!(auth(""), AuthSettings::default());
    assert_eq!(auth("[servers.a.auth]"), AuthSettings::default());
    assert_eq!(auth("").grant, Grant::Person);
    assert_eq!(auth("auth = false").grant, Grant::Off);
    assert_eq!(auth("auth = { grant = 'off' }").grant, Grant::Off);
}

#[test]
fn a_client_that_was_registered_by_hand() {
    let found = auth(
        r#"
            [servers.a.auth]
            client_id = "me"
            client_secret = "${TOKEN}"
            client_auth = "client_secret_post"
            scope = "read write read"
            resource = "https://h"
            issuer = "https://login.example.com/"
            account = "work"
            redirect_port = 8976
            authorize_params = { prompt = "consent", access_type = "offline" }
            dpop = true
            client_metadata_url = "https://me.example.com/client.json"
        "#,
    );
    let expected = with!(AuthSettings::default(), grant: Grant::Person, client: Some(with!(
            ClientSettings::new("me"),
            secret: Some(Secret::new("s3cret")),
            method: Some(TokenAuth::Post),
        )), client_metadata_url: Some("https://me.example.com/client.json".parse().unwrap()), scope: Some(vec!["read".to_owned(), "write".to_owned()]), // AF-02: verbatim, without a slash that was not written.
        resource: ResourceIndicator::Fixed("https://h".to_owned()), issuer: Some("https://login.example.com/".to_owned()), account: Some("work".to_owned()), redirect: Redirect::Port(8976), authorize_params: vec![
            ("prompt".to_owned(), "consent".to_owned()),
            ("access_type".to_owned(), "offline".to_owned()),
        ], dpop: Dpop::Always);
    assert_eq!(found, expected);
}

#[test]
fn settings_that_can_be_written_in_several_ways() {
    assert_eq!(
        auth("auth = { scope = ['a b', 'c'] }").scope,
        Some(["a", "b", "c"].map(str::to_owned).to_vec())
    );
    assert_eq!(auth("auth = { scope = '' }").scope, Some(Vec::new()));
    assert_eq!(auth("auth = { resource = false }").resource, ResourceIndicator::Off);
    assert_eq!(auth("auth = { dpop = 'auto' }").dpop, Dpop::Auto);
    assert_eq!(auth("auth = { dpop = false }").dpop, Dpop::Never);
    assert_eq!(auth("auth = { grant = 'device' }").grant, Grant::Device);
    let uri = "http://localhost:9/back";
    assert_eq!(
        auth(&format!("auth = {{ redirect_uri = '{uri}' }}")).redirect,
        Redirect::Uri(uri.parse().unwrap())
    );
}

#[test]
fn client_credentials_grant_is_read() {
    let text = r"
        [servers.a]
        url = 'https://h/mcp'
        [servers.a.auth]
        grant = 'client-credentials'
        client_id = 'me'
        client_auth = 'private_key_jwt'
        private_key = '{file:key.pem}'
        key_id = 'k1'
        algorithm = 'ES256'
        audience = 'https://login/token'
    ";
    let env = environment().with_file("conf/key.pem", format!("{KEY}\n"));
    let config = parse(&Source::new("conf/c.toml", text), &env).unwrap();
    let auth = &http(&config, "a").auth;
    assert_eq!(auth.grant, Grant::ClientCredentials);
    let key = with!(SigningKey::new(KEY), id: Some("k1".to_owned()), algorithm: Some("ES256".to_owned()));
    let client = with!(
        ClientSettings::new("me"),
        method: Some(TokenAuth::PrivateKeyJwt),
        key: Some(key),
        audience: Some("https://login/token".to_owned()),
    );
    assert_eq!(auth.client.as_ref(), Some(&client));
}

#[test]
fn tokens_from_enterprise_and_workload_grants() {
    let workload =
        |supply: &str| auth(&format!("auth = {{ grant = 'workload', assertion = {supply} }}")).grant;
    assert_eq!(
        workload("{ value = '${TOKEN}' }"),
        Grant::Workload(TokenSource::Value(Secret::new("s3cret")))
    );
    assert_eq!(workload("{ file = '/run/token' }"), Grant::Workload(TokenSource::File("/run/token".into())));
    let mut program = Program::new("mint", ["--for", "s3cret"]);
    program.env.insert("A".to_owned(), Secret::new("b"));
    program.cwd = Some("/srv".into());
    assert_eq!(
        workload("{ command = ['mint', '--for', '${TOKEN}'], env = { A = 'b' }, cwd = '/srv' }"),
        Grant::Workload(TokenSource::Command(program))
    );
    let found = auth(
        r#"
            [servers.a.auth]
            grant = "enterprise"
            [servers.a.auth.idp]
            token_endpoint = "https://idp.example.com/token"
            client_id = "mine"
            client_secret = "${TOKEN}"
            id_token = { command = "id-token" }
        "#,
    );
    let endpoint = "https://idp.example.com/token".parse().unwrap();
    let id_token = TokenSource::Command(Program::new("id-token", [""; 0]));
    let idp = with!(Idp::new(endpoint, "mine", id_token), client_secret: Some(Secret::new("s3cret")));
    assert_eq!(found.grant, Grant::Enterprise(idp));
}

#[test]
fn a_program_that_prints_headers() {
    let command = |written: &str| {
        let config =
            parse_valid("c.toml", &format!("[servers.a]\nurl = 'https://h/'\nheaders_command = {written}"));
        http(&config, "a").headers_command.clone().unwrap()
    };
    let short = HeadersCommand::new(Program::new("print-headers", [""; 0]));
    assert_eq!((short.timeout, short.ttl), (Duration::from_secs(10), Duration::from_secs(300)));
    assert_eq!(command("'print-headers'"), short);
    let listed = HeadersCommand::new(Program::new("print-headers", ["--for", "s3cret"]));
    assert_eq!(command("['print-headers', '--for', '${TOKEN}']"), listed);
    let mut program = Program::new("print-headers", ["x"]);
    program.env.insert("A".to_owned(), Secret::new("s3cret"));
    program.cwd = Some("/srv".into());
    let full =
        with!(HeadersCommand::new(program), timeout: Duration::from_secs(2), ttl: Duration::from_secs(3600));
    assert_eq!(
        command(
            "{ command = 'print-headers', args = ['x'], env = { A = '${TOKEN}' }, cwd = '/srv', timeout = '2s', ttl = '1h' }"
        ),
        full
    );
}

#[test]
fn contradictions_are_refused() {
    for (table, expected) in [
        (
            "auth = { client_secret = 's3cret' }",
            "c.toml:3:26: servers.a.auth.client_secret: requires `client_id`",
        ),
        (
            "auth = { client_id = 'me', client_auth = 'private_key_jwt' }",
            "c.toml:3:42: servers.a.auth.client_auth: requires `private_key`",
        ),
        (
            "auth = { client_id = 'me', client_auth = 'client_secret_basic' }",
            "c.toml:3:42: servers.a.auth.client_auth: requires `client_secret`",
        ),
        (
            "auth = { client_id = 'me', client_secret = 's3cret', client_auth = 'none' }",
            "c.toml:3:68: servers.a.auth.client_auth: says that the client is public, but it has a secret",
        ),
        (
            "auth = { client_id = 'me', key_id = 'k' }",
            "c.toml:3:37: servers.a.auth.key_id: requires `private_key`",
        ),
        ("auth = { grant = 'enterprise' }", "c.toml:3:8: servers.a.auth: needs `idp`"),
        ("auth = { grant = 'workload' }", "c.toml:3:8: servers.a.auth: needs `assertion`"),
        (
            "auth = { assertion = { file = 'x' } }",
            "c.toml:3:22: servers.a.auth.assertion: belongs to `grant = \"workload\"`",
        ),
        (
            "auth = { grant = 'workload', assertion = {} }",
            "c.toml:3:42: servers.a.auth.assertion: needs `value`, `file` or `command`",
        ),
        (
            "auth = { grant = 'workload', assertion = { file = 'x', value = 's3cret' } }",
            "c.toml:3:42: servers.a.auth.assertion: has more than one of `value`, `file` and `command`",
        ),
        (
            "auth = { grant = 'workload', assertion = { file = 'x', cwd = '/' } }",
            "c.toml:3:62: servers.a.auth.assertion.cwd: belongs to a `command`",
        ),
        (
            "auth = { redirect_port = 1, redirect_uri = 'http://localhost/' }",
            "c.toml:3:44: servers.a.auth.redirect_uri: contradicts `redirect_port`",
        ),
        (
            "auth = { grant = 'client-credentials' }",
            "c.toml:3:8: servers.a.auth: requires `client_id`\n  \
             hint: register a client at the authorization server, and set `client_id` to its id\n\
             c.toml:3:8: servers.a.auth: requires `client_secret` or `private_key`",
        ),
        (
            "headers_command = { command = ['a', 'b'], args = ['c'] }",
            "c.toml:3:50: servers.a.headers_command.args: `command` has arguments already",
        ),
        ("headers_command = { ttl = 1 }", "c.toml:3:19: servers.a.headers_command: needs `command`"),
        ("headers_command = []", "c.toml:3:19: servers.a.headers_command: the command is empty"),
    ] {
        let shown = auth_errors(table);
        assert!(shown.starts_with(expected), "{table}\n{shown}");
        let more = shown.matches("c.toml:").count();
        assert_eq!(more, expected.matches("c.toml:").count(), "one complaint each: {shown}");
    }
}

#[test]
fn auth_belongs_to_servers_with_a_url() {
    let text = "[servers.a]\ncommand = 'x'\nauth = false\nheaders_command = 'y'";
    let expected = "\
c.toml:3:8: servers.a.auth: belongs to a server with `url`, and this one has a `command`
c.toml:4:19: servers.a.headers_command: belongs to a server with `url`, and this one has a `command`";
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn misspellings_are_named_at_their_place() {
    let text = "\
[servers.a]
url = 'https://h/'
oauth = {}
[servers.b]
url = 'https://h/'
[servers.b.auth]
grant = 'enterprize'
clientId = 'me'
scopes = ['a']
callback_port = 1
client_auth = 'basic'
token = 's3cret'
color = 'red'
idp = { token_endpoint = 'http://h/token', id = 's3cret' }
[servers.c]
url = 'https://h/'
auth = true
[servers.d]
url = 'https://h/'
auth = { grant = 'workload', assertion = 's3cret' }
[servers.e]
url = 'https://h/'
headers_command = { comand = 'x', ttl = 'soon' }
[auth]
client_nam = 'x'
scope = 'x'
";
    let expected = "\
c.toml:3:1: servers.a.oauth: unknown key
  hint: did you mean `auth`?
c.toml:7:9: servers.b.auth.grant: must be \"person\", \"device\", \"client-credentials\", \"enterprise\", \"workload\" or \"off\"
  hint: did you mean \"enterprise\"?
c.toml:8:1: servers.b.auth.clientId: unknown key
  hint: did you mean `client_id`?
c.toml:9:1: servers.b.auth.scopes: unknown key
  hint: did you mean `scope`?
c.toml:10:1: servers.b.auth.callback_port: unknown key
  hint: did you mean `redirect_port`?
c.toml:11:15: servers.b.auth.client_auth: must be \"none\", \"client_secret_post\", \"client_secret_basic\" or \"private_key_jwt\"
c.toml:12:1: servers.b.auth.token: unknown key
  hint: write `headers = { Authorization = \"Bearer ${VAR}\" }` beside `url`
c.toml:13:1: servers.b.auth.color: unknown key
c.toml:14:44: servers.b.auth.idp.id: unknown key
c.toml:17:8: servers.c.auth: must be false or a table
  hint: leave it out: bowline logs in when the server requires it
c.toml:20:42: servers.d.auth.assertion: must be a table, not a string
  hint: write `{ file = \"…\" }`, `{ command = [\"…\"] }` or `{ value = \"${VAR}\" }`
c.toml:23:21: servers.e.headers_command.comand: unknown key
  hint: did you mean `command`?
c.toml:23:41: servers.e.headers_command.ttl: not a length of time
  hint: for example \"20s\", \"500ms\" or \"2m\"
c.toml:25:1: auth.client_nam: unknown key
  hint: did you mean `client_name`?
c.toml:26:1: auth.scope: belongs to one server
  hint: write it in `[servers.NAME.auth]`";
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn values_are_checked() {
    for (table, expected) in [
        ("client_id = ' '", "client_id: must not be empty or contain a control character"),
        ("client_id = 'me'\nclient_secret = '${EMPTY:-}'", "client_secret: is empty"),
        ("client_id = 'me'\nprivate_key = '${TOKEN}'", "private_key: must be a private key in PEM"),
        (
            "client_id = 'me'\nclient_secret = '${NOPE}'",
            "client_secret: environment variable `NOPE` is not set",
        ),
        ("client_metadata_url = 'https://h'", "client_metadata_url: must be an https URL with a path"),
        ("scope = ['a\"b']", "scope[0]: a scope is made of"),
        ("scope = 1", "scope: must be a string or a list of strings, not a number"),
        ("resource = 'h/mcp#s3cret'", "resource: must be an absolute URI"),
        ("resource = true", "resource: must be a URL or false, not a boolean"),
        ("issuer = 'http://h'", "issuer: must be an https URL, or one on this machine"),
        ("issuer = 'https://h?s3cret'", "issuer: must be the issuer"),
        ("account = \"a\\nb\"", "account: must not be empty or contain a control character"),
        ("redirect_port = 0", "redirect_port: must be a whole number from 1 to 65535"),
        ("redirect_port = 65536", "redirect_port: must be a whole number from 1 to 65535"),
        (
            "redirect_uri = 'http://h/s3cret'",
            "redirect_uri: must be an https URL, or an http URL on this machine",
        ),
        ("authorize_params = { state = 's3cret' }", "authorize_params.state: is set by the login itself"),
        ("authorize_params = { resource = 'x' }", "authorize_params.resource: is set by the login itself"),
        ("dpop = 'always'", "dpop: must be \"auto\", true or false"),
        ("algorithm = 'HS256'\nprivate_key = 'x'\nclient_id = 'me'", "algorithm: must be \"ES256\""),
        (
            "grant = 'enterprise'\nidp = { token_endpoint = 'http://h/t', client_id = 'x', id_token = { value = 'y' } }",
            "idp.token_endpoint: must be an https URL, or one on this machine",
        ),
        ("grant = 'enterprise'\nidp = { client_id = 'x' }", "idp: needs `token_endpoint`"),
    ] {
        let shown = auth_errors(&format!("[servers.a.auth]\n{table}"));
        assert!(shown.contains(&format!("servers.a.auth.{expected}")), "{table}\n{shown}");
    }
}

/// If the configuration itself sets `Authorization`, a login would never be started.
#[test]
fn unused_auth_is_noted() {
    for (beside, said) in [
        ("headers_command = 'x'", "`headers_command` authenticates"),
        ("headers = { authorization = 'x' }", "`headers` authenticate"),
    ] {
        let text = format!("[servers.a]\nurl = 'https://h/'\n{beside}\nauth = {{ client_id = 'me' }}");
        let notes = format!(
            "c.toml:4:8: servers.a.auth: not used: {said} instead\n  \
             hint: bowline logs in only where nothing else authenticates"
        );
        assert_eq!(note_lines(&parse_valid("c.toml", &text).notes), notes);
        let off = format!("[servers.a]\nurl = 'https://h/'\n{beside}\nauth = false");
        assert_eq!(note_lines(&parse_valid("c.toml", &off).notes), "");
    }
}

/// Both can be intended, for different headers; if they set the same one, the command's is sent.
#[test]
fn headers_command_over_a_fixed_header_is_noted() {
    let both = "[servers.a]\nurl = 'https://h/'\nheaders = { Authorization = 'x' }\nheaders_command = 'y'";
    assert_eq!(
        note_lines(&parse_valid("c.toml", both).notes),
        "c.toml:4:19: servers.a.headers_command: an `Authorization` header that it prints replaces the one in `headers`"
    );
    let apart = both.replace("Authorization", "X-Team");
    assert_eq!(note_lines(&parse_valid("c.toml", &apart).notes), "");
}

#[test]
fn browser_settings_of_other_grants_are_noted() {
    let text = "[servers.a]\nurl = 'https://h/'\nauth = { grant = 'device', redirect_port = 1 }";
    assert_eq!(
        note_lines(&parse_valid("c.toml", text).notes),
        "c.toml:3:44: servers.a.auth.redirect_port: not used: only a login in a browser has a page"
    );
}

// AR-04: a server names its authorization server itself, and may name one that collects secrets.
#[test]
fn secret_without_an_issuer_is_noted() {
    let notes = |auth: &str| {
        let text = format!("[servers.a]\nurl = 'https://h/mcp'\nauth = {{ client_id = 'me'{auth} }}");
        note_lines(&parse_valid("c.toml", &text).notes)
    };
    let doubt = "is sent to whichever authorization server the server names first\n  \
                 hint: write `issuer = \"…\"`, the authorization server that the client was registered at";
    assert_eq!(
        notes(", client_secret = '${TOKEN}'"),
        format!("c.toml:3:44: servers.a.auth.client_secret: {doubt}")
    );
    let key = format!(", private_key = '{}'", KEY.replace('\n', "\\n")).replace('\'', "\"");
    assert_eq!(notes(&key), format!("c.toml:3:42: servers.a.auth.private_key: {doubt}"));
    assert_eq!(notes(", client_secret = '${TOKEN}', issuer = 'https://login.example.com'"), "");
    assert_eq!(notes(""), "", "a public client has nothing to lose");
}

#[test]
fn app_settings_are_read() {
    let config =
        parse_valid("c.toml", "[auth]\nclient_name = 'Knots'\nclient_metadata_url = 'https://h/c.json'");
    let app = with!(AppSettings::default(), client_name: Some("Knots".to_owned()), client_metadata_url: Some("https://h/c.json".parse().unwrap()));
    assert_eq!(config.auth, app);
    assert_eq!(parse_valid("c.toml", "").auth, AppSettings::default());

    let other = parse_valid("p.toml", "[auth]\nclient_name = 'Other'");
    let layered = Config::layered(config.clone(), other.clone());
    assert_eq!(layered.auth, other.auth, "as a whole");
    assert_eq!(Config::layered(config.clone(), Config::default()).auth, app);
}

#[test]
fn diff_sees_auth_settings() {
    let server = || Server::http("a", "https://h/").build().unwrap();
    let config = |server: Server| Config::default().with_server(server).unwrap();
    let base = config(server());
    let command = HeadersCommand::new(Program::new("x", [""; 0]));
    for changed in [
        config(server().with_auth(with!(AuthSettings::default(), grant: Grant::Off)).unwrap()),
        config(server().with_headers_command(command).unwrap()),
        with!(base.clone(), auth: parse_valid("c.toml", "[auth]\nclient_name = 'x'").auth),
        with!(base.clone(), store: parse_valid("c.toml", "[store]\nkey = 'file'").store),
    ] {
        assert_eq!(diff(&base, &changed).changed, ["a"], "{changed:?}");
        assert!(diff(&changed, &changed).is_empty());
    }
}
