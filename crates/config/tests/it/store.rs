//! Tests of `[store]`: where logins are stored.

use bowline_config::{Backend, Config, Keeping, KeyPlace, Problem, Secret, Source, parse_partial};

use crate::{bad, environment, good, lines};

#[track_caller]
fn keeping(table: &str) -> Keeping {
    let config = good("conf/c.toml", &format!("[store]\n{table}"));
    assert_eq!(lines(&config.notes), "");
    config.keeping.unwrap()
}

#[test]
fn a_file_or_a_server() {
    assert_eq!(good("c.toml", "").keeping, None);
    assert_eq!(keeping(""), Keeping::default());
    assert_eq!(keeping("backend = 'sqlite'\nkey = 'auto'"), Keeping::default());
    let file = Keeping { backend: Backend::Sqlite(Some("conf/logins.db".into())), key: KeyPlace::Keyring };
    assert_eq!(keeping("path = 'logins.db'\nkey = 'keyring'"), file);
    let server =
        Keeping { backend: Backend::Valkey(Secret::new("rediss://me:s3cret@h:1/2")), key: KeyPlace::File };
    let found = keeping("backend = 'valkey'\nurl = 'rediss://me:${TOKEN}@h:1/2'\nkey = 'file'");
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
        let shown = bad("c.toml", &format!("[store]\n{table}"));
        assert!(shown.starts_with(expected), "{table}\n{shown}");
        assert_eq!(shown.matches("c.toml:").count(), 1, "one complaint each: {shown}");
    }
    assert_eq!(bad("c.toml", "store = 1"), "c.toml:1:1: store: must be a table, not a number");
    assert!(bad("c.toml", "[stor]").ends_with("hint: did you mean `store`?"));
}

#[test]
fn a_password_that_others_can_read_is_doubted() {
    let text = |url: &str| format!("[store]\nbackend = 'valkey'\nurl = '{url}'");
    let notes = |url: &str| lines(&good("c.toml", &text(url)).notes);
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
    let user = || good("user.toml", "[store]\nkey = 'file'");
    let project = || good("project.toml", "[store]\nbackend = 'valkey'\nurl = 'rediss://elsewhere'");
    let layered = Config::layered(user(), project());
    assert_eq!(layered.keeping, user().keeping);
    assert_eq!(
        lines(&layered.notes),
        "project.toml:1:1: store: not used: a project does not say where logins are kept\n  \
         hint: write it in your own configuration file"
    );
    assert_eq!(Config::layered(Config::default(), project()).keeping, None);
    assert_eq!(lines(&Config::layered(user(), Config::default()).notes), "");
}

/// A broken `[store]` must not be taken for an absent one: logins would go to another place, or get
/// a weaker key.
#[test]
fn a_problem_says_whether_it_hides_where_logins_are() {
    let hides = |path: &str, text: &str| {
        let (config, errors) = parse_partial(&Source::new(path, text), &environment());
        assert_eq!(config.keeping, None, "{text}");
        errors.expect("something is wrong").problems().iter().any(Problem::hides_keeping)
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
