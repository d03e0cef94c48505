//! Tests of `[store]`: where logins are stored.

use bowline_config::{
    Config, KeyLocation, Problem, Secret, Source, StoreBackend, StoreConfig, parse_partial,
};
use bowline_testkit::with;

use crate::{environment, note_lines, parse_errors, parse_valid};

#[track_caller]
fn store_config(table: &str) -> StoreConfig {
    let config = parse_valid("conf/c.toml", &format!("[store]\n{table}"));
    assert_eq!(note_lines(&config.notes), "");
    config.store.unwrap()
}

#[test]
fn sqlite_and_valkey_are_read() {
    assert_eq!(parse_valid("c.toml", "").store, None);
    assert_eq!(store_config(""), StoreConfig::default());
    assert_eq!(store_config("backend = 'sqlite'\nkey = 'auto'"), StoreConfig::default());
    let file = with!(StoreConfig::default(), backend: StoreBackend::Sqlite(Some("conf/logins.db".into())), key: KeyLocation::Keyring);
    assert_eq!(store_config("path = 'logins.db'\nkey = 'keyring'"), file);
    let server = with!(StoreConfig::default(), backend: StoreBackend::Valkey(Secret::new("rediss://me:s3cret@h:1/2")), key: KeyLocation::File);
    let found = store_config("backend = 'valkey'\nurl = 'rediss://me:${TOKEN}@h:1/2'\nkey = 'file'");
    assert_eq!(found, server);
    assert!(!format!("{found:?}").contains("s3cret"));
}

#[test]
fn mistakes_are_named_at_their_place() {
    for (table, expected) in [
        ("backend = 'redis'", "c.toml:2:11: store.backend: must be \"sqlite\" or \"valkey\""),
        ("backend = 'valkey'", "c.toml:1:2: store: needs `url`"),
        ("url = 'redis://h'", "c.toml:2:7: store.url: belongs to `backend = \"valkey\"`"),
        (
            "backend = 'valkey'\nurl = 'redis://h'\npath = 'x'",
            "c.toml:4:8: store.path: belongs to `backend = \"sqlite\"`",
        ),
        (
            "backend = 'valkey'\nurl = 'http://h/s3cret'",
            "c.toml:3:7: store.url: must be a URL that begins with redis://",
        ),
        (
            "backend = 'valkey'\nurl = 'redis://${NOPE}'",
            "c.toml:3:7: store.url: environment variable `NOPE` is not set",
        ),
        ("key = 'secret'", "c.toml:2:7: store.key: must be \"auto\", \"keyring\" or \"file\""),
        ("path = ''", "c.toml:2:8: store.path: the path is empty"),
        ("file = 'x'", "c.toml:2:1: store.file: unknown key\n  hint: did you mean `path`?"),
        (
            "backnd = 'valkey'\nurl = 'redis://h'",
            "c.toml:2:1: store.backnd: unknown key\n  hint: did you mean `backend`?",
        ),
    ] {
        let shown = parse_errors("c.toml", &format!("[store]\n{table}"));
        assert!(shown.starts_with(expected), "{table}\n{shown}");
        assert_eq!(shown.matches("c.toml:").count(), 1, "one complaint each: {shown}");
    }
    assert_eq!(parse_errors("c.toml", "store = 1"), "c.toml:1:1: store: must be a table, not a number");
    assert!(parse_errors("c.toml", "[stor]").ends_with("hint: did you mean `store`?"));
}

#[test]
fn password_without_tls_is_noted() {
    let text = |url: &str| format!("[store]\nbackend = 'valkey'\nurl = '{url}'");
    let notes = |url: &str| note_lines(&parse_valid("c.toml", &text(url)).notes);
    assert_eq!(
        notes("redis://:${TOKEN}@h"),
        "c.toml:3:7: store.url: the password is sent over a connection that others can read\n  \
         hint: write a `rediss://` URL"
    );
    for fine in ["redis://h", "rediss://:x@h", "redis://:x@127.0.0.1", "valkey://:x@localhost:6379"] {
        assert_eq!(notes(fine), "", "{fine}");
    }
}

/// Tokens are the user's: no project may move them to where somebody else can read them.
#[test]
fn a_project_does_not_move_logins() {
    let user = || parse_valid("user.toml", "[store]\nkey = 'file'");
    let project = || parse_valid("project.toml", "[store]\nbackend = 'valkey'\nurl = 'rediss://elsewhere'");
    let layered = Config::layered(user(), project());
    assert_eq!(layered.store, user().store);
    assert_eq!(
        note_lines(&layered.notes),
        "project.toml:1:1: store: not used: a project cannot set where logins are stored\n  \
         hint: write it in your own configuration file"
    );
    assert_eq!(Config::layered(Config::default(), project()).store, None);
    assert_eq!(note_lines(&Config::layered(user(), Config::default()).notes), "");
}

/// A broken `[store]` must not be taken for an absent one: logins would go to another place, or get
/// a weaker key.
#[test]
fn problem_in_store_hides_the_store_config() {
    let hides = |path: &str, text: &str| {
        let (config, errors) = parse_partial(&Source::new(path, text), &environment());
        assert_eq!(config.store, None, "{text}");
        errors.expect("something is wrong").problems().iter().any(Problem::hides_store_config)
    };
    for text in [
        "[store]\nkey = 'keyrng'",
        "[store]\nbackend = 'valky'",
        "[store]\nbakend = 'valkey'",
        "[store]\nbackend = 'valkey'",
        "[store]\nbackend = 'valkey'\nurl = 'rediss://${NOT_SET}'",
        "[store]\npath = '${NOT_SET}'",
        "store = 'keyring'",
        "[stor]\nkey = 'keyring'",
        "[store]\nkey = 'keyring",
        "[servers.a",
    ] {
        assert!(hides("c.toml", text), "{text}");
    }
    for text in [
        "[servers.a]\nurl = 'nonsense'",
        "[servers.store]\nurl = 'nonsense'",
        "[servers.a]\nurl = 'https://h/'\nstore = 1",
        "[elicitation]\npolicy = 1",
        "[things]\nx = 1",
    ] {
        assert!(!hides("c.toml", text), "{text}");
    }
}
