//! Configuration files that a host loads by path, or that are found as the command finds them.

use std::path::Path;

use bowline::config::{ConfigFileError, FixedEnvironment, Transport};
use bowline::{Config, LoadConfig as _, Registry, ServerState};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_file_is_loaded_in_either_dialect() {
    let folder = tempfile::tempdir().unwrap();
    let (toml, json) = (folder.path().join("c.toml"), folder.path().join("mcp.json"));
    write(&toml, "[servers.a]\ncommand = 'srv'\nargs = ['${MODE}']\n");
    write(&json, r#"{ "mcpServers": { "a": { "command": "srv", "args": ["${MODE}"] } } }"#);
    let env = FixedEnvironment::default().with_var("MODE", "fast");
    for path in [&toml, &json] {
        let config = Config::load_with(path, &env).unwrap();
        let Transport::Stdio(program) = &config.servers["a"].transport else { panic!("a program") };
        assert_eq!(program.args, ["fast"]);
    }
    let unfilled = Config::load_with(&toml, &FixedEnvironment::default()).unwrap_err();
    assert!(matches!(&unfilled, ConfigFileError::Invalid(errors) if errors.problems().len() == 1));
    let missing = Config::load(folder.path().join("none.toml")).unwrap_err();
    assert!(missing.to_string().ends_with("none.toml: no such file"), "{missing}");
}

/// The user's file is found, and one that a variable names takes its place.
#[cfg(unix)]
#[tokio::test]
async fn the_users_file_is_found_and_opened() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    let env = FixedEnvironment::default().with_var("HOME", home);
    assert!(Config::discover_with(&env).unwrap().servers.is_empty());
    write(
        &folder.path().join(".config/bowline/config.toml"),
        "[servers.user]\ncommand = 'srv'\nenabled = false\n",
    );
    let config = Config::discover_with(&env).unwrap();
    let registry = Registry::open(&config);
    let states: Vec<_> = registry.statuses().into_iter().map(|status| (status.name, status.state)).collect();
    assert_eq!(states, [("user".into(), ServerState::Disabled)]);
    registry.close().await;

    let named = folder.path().join("named.toml");
    write(&named, "[servers.named]\ncommand = 'srv'\n");
    let env = env.with_var("BOWLINE_CONFIG", named.to_str().unwrap());
    let config = Config::discover_with(&env).unwrap();
    assert_eq!(config.servers.keys().collect::<Vec<_>>(), ["named"]);
}
