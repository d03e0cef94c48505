//! Checks that hold for every configuration text.

use bowline_config::{
    AuthSettings, Config, FileFormat, FixedEnvironment, Source, Tls, Transport, diff, outline, parse,
    parse_partial,
};

/// The value of a variable and of a file that a text may name.
const SECRET: &str = "canary-b5f0c1";

/// Parses a text in every way. No output may show the value of a variable or a file.
pub fn check(text: &str, format: FileFormat) {
    let path = match format {
        FileFormat::Toml => "/project/bowline.toml",
        FileFormat::Json => "/project/.mcp.json",
        _ => unreachable!("the targets have one for each format"),
    };
    let source = Source::new(path, text).with_format(format);
    let environment = FixedEnvironment::default()
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

    // The outline of an untrusted file is made without an environment.
    let outline = outline(&source);
    assert!(!format!("{outline:?}").contains(SECRET));
}

/// Formats a transport without the parts that are never secret, wherever they come from: programs,
/// hosts, and auth settings.
fn shown(transport: &Transport) -> String {
    match transport.clone() {
        Transport::Stdio(mut program) => {
            (program.command, program.cwd) = (String::new(), None);
            format!("{program:?}")
        }
        Transport::Http(mut http) | Transport::Sse(mut http) => {
            http.url.set_host(Some("host.example")).expect("a server has a host");
            (http.auth, http.tls) = (AuthSettings::default(), Tls::default());
            http.headers_command = None;
            format!("{http:?}")
        }
        other => panic!("{other:?}"),
    }
}
