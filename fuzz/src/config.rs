//! What holds for every configuration text.

use bowline_config::{Config, Dialect, Fixed, Source, Stdio, Transport, diff, outline, parse, parse_partial};

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
    let shown =
        config.servers.values().fold(format!("{config:?}"), |shown, server| match &server.transport {
            // The name of a program and its folder are no secrets: every list of processes shows them.
            Transport::Stdio(Stdio { command, cwd, .. }) => {
                shown.replace(&format!("{command:?}"), "").replace(&format!("{cwd:?}"), "")
            }
            _ => shown,
        });
    assert!(!shown.contains(SECRET), "a configuration shows a secret: {shown}");
    assert_eq!(parse(&source, &environment).is_ok(), errors.is_none(), "both ways agree");
    assert!(diff(&config, &config).is_empty(), "nothing differs from itself");
    let _ = Config::layered(config.clone(), config);

    // What an untrusted file would do is said without an environment.
    let outline = outline(&source);
    assert!(!format!("{outline:?}").contains(SECRET));
}
