//! What holds for every configuration text.

use bowline_config::{
    Auth, Config, Dialect, Fixed, Http, Source, Stdio, Tls, Transport, diff, outline, parse, parse_partial,
};

/// Stands in a variable and in a file that a text may name.
const SECRET: &str = "canary-b5f0c1";

/// Reads a text in each way that there is. No text may show what a variable or a file holds.
pub fn check(text: &str, dialect: Dialect) {
    let path = match dialect {
        Dialect::Toml => "/project/bowline.toml",
        Dialect::Json => "/project/.mcp.json",
    };
    let source = Source::new(path, text).with_dialect(dialect);
    let environment = Fixed::default()
        .with_var("TOKEN", SECRET)
        .with_var("HOME", "/home/user")
        .with_file("/project/token", SECRET);
    let (config, errors) = parse_partial(&source, &environment);
    if let Some(errors) = &errors {
        assert!(!format!("{errors} {errors:?}").contains(SECRET), "an error shows a secret: {errors}");
    }
    for server in config.servers.values() {
        let shown = shown(&server.transport);
        assert!(!shown.contains(SECRET), "a configuration shows a secret: {shown}");
    }
    assert_eq!(parse(&source, &environment).is_ok(), errors.is_none(), "both ways agree");
    assert!(diff(&config, &config).is_empty(), "nothing differs from itself");
    let _ = Config::layered(config.clone(), config);

    // What an untrusted file would do is said without an environment.
    let outline = outline(&source);
    assert!(!format!("{outline:?}").contains(SECRET));
}

/// A transport as it is shown, without what is no secret wherever it comes from: programs, hosts, and who asks for what.
fn shown(transport: &Transport) -> String {
    match transport.clone() {
        Transport::Stdio(stdio) => format!("{:?}", Stdio { command: String::new(), cwd: None, ..stdio }),
        Transport::Http(mut http) | Transport::Sse(mut http) => {
            http.url.set_host(Some("host.example")).expect("a server has a host");
            format!(
                "{:?}",
                Http { auth: Auth::default(), tls: Tls::default(), headers_command: None, ..http }
            )
        }
    }
}
