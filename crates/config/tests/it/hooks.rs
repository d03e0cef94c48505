//! Tests of hooks: for one server and for all, and everything that can be wrong with one.

use std::time::Duration;

use bowline_config::{Hook, HookEvent, Source, parse_partial};

use crate::{environment, note_lines, parse_errors, parse_valid};

#[test]
fn hooks_for_one_server_and_for_all() {
    let config = parse_valid(
        "/etc/bowline/config.toml",
        r#"
            [[hooks]]
            on = ["session_lost", "recovered", "session_lost"]
            command = "notify-send"
            args = ["${TITLE:-bowline}"]
            env = { TOKEN = "{file:token}" }
            cwd = "hooks"
            timeout = "5s"

            [servers.a]
            command = "x"

            [[servers.a.hooks]]
            on = "failed"
            webhook = "https://h/${TOKEN}#there"
            headers = { Z-First = "1", Authorization = "Bearer ${TOKEN}" }

            [[servers.a.hooks]]
            command = "log"
            timeout = 2.5

            [servers.b]
            command = "x"
        "#,
    );
    let common = Hook::command("notify-send", ["bowline"])
        .on([HookEvent::SessionLost, HookEvent::Recovered])
        .with_timeout(Duration::from_secs(5))
        .with_env("TOKEN", "s3cret")
        .and_then(|hook| hook.with_cwd("/etc/bowline/hooks"))
        .unwrap();
    let own = [
        Hook::webhook("https://h/s3cret")
            .and_then(|hook| hook.with_header("Z-First", "1"))
            .and_then(|hook| hook.with_header("Authorization", "Bearer s3cret"))
            .unwrap()
            .on([HookEvent::Failed]),
        Hook::command("log", [""; 0]).with_timeout(Duration::from_millis(2500)),
    ];
    assert_eq!(config.hooks, std::slice::from_ref(&common));
    assert_eq!(config.servers["a"].hooks, own);
    assert!(config.servers["b"].hooks.is_empty());
    let [first, second] = own;
    assert_eq!(config.server("a").unwrap().hooks, [common.clone(), first, second]);
    assert_eq!(config.server("b").unwrap().hooks, [common]);
}

#[test]
fn every_event_can_be_named() {
    for event in HookEvent::ALL {
        let config = parse_valid("c.toml", &format!("[[hooks]]\non = '{event}'\ncommand = 'x'"));
        assert_eq!(config.hooks[0].events, [event]);
    }
    assert!(parse_valid("c.toml", "[[hooks]]\ncommand = 'x'").hooks[0].events.is_empty());
}

#[test]
fn a_hook_does_one_thing_and_has_the_keys_of_that() {
    let text = r#"[[hooks]]
command = "x"
webhook = "https://h/"
[[hooks]]
on = "failed"
[[hooks]]
command = "x"
headers = { A = "b" }
[servers.a]
command = "x"
[[servers.a.hooks]]
webhook = "https://h/"
args = ["a"]
env = { A = "b" }
cwd = "/"
[[servers.a.hooks]]
"#;
    let expected = "\
c.toml:1:1: hooks[0]: has both `command` and `webhook`
  hint: a hook does one thing; make it two hooks
c.toml:4:1: hooks[1]: needs `command` or `webhook`
c.toml:8:11: hooks[2].headers: belongs to a hook with `webhook`, and this one has a `command`
c.toml:13:8: servers.a.hooks[0].args: belongs to a hook with `command`, and this one has a `webhook`
c.toml:14:7: servers.a.hooks[0].env: belongs to a hook with `command`, and this one has a `webhook`
c.toml:15:7: servers.a.hooks[0].cwd: belongs to a hook with `command`, and this one has a `webhook`
c.toml:16:1: servers.a.hooks[1]: needs `command` or `webhook`";
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn events_are_named_and_the_known_ones_are_listed() {
    let text = r#"[[hooks]]
command = "x"
on = "sesion_lost"
[[hooks]]
command = "x"
on = ["recovered", "sunk"]
[[hooks]]
command = "x"
on = []
[[hooks]]
command = "x"
on = [1]
[[hooks]]
command = "x"
on = true
"#;
    let known = "connected, disconnected, session_lost, recovered, needs_login, tools_changed, failed";
    let expected = format!(
        "\
c.toml:3:6: hooks[0].on: not an event; there are: {known}
  hint: did you mean \"session_lost\"?
c.toml:6:20: hooks[1].on[1]: not an event; there are: {known}
c.toml:9:6: hooks[2].on: names no event
  hint: leave `on` out for every event
c.toml:12:7: hooks[3].on[0]: must be a string, not a number
  hint: put the value in quotes
c.toml:15:6: hooks[4].on: must be an event or a list of events, not a boolean"
    );
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn values_are_checked_like_those_of_a_server() {
    let text = r#"[[hooks]]
webhook = "ftp://h/s3cret"
[[hooks]]
webhook = "https://me:${TOKEN}@h/"
[[hooks]]
webhook = "h/s3cret"
[[hooks]]
webhook = "https://h/${NOPE}"
headers = { Authorization = "${BROKEN}", Content-Type = "text/plain", A = "1", a = "2" }
[[hooks]]
command = ""
[[hooks]]
command = "x"
args = ["nul\u0000"]
env = { "A=B" = "x" }
cwd = ""
timeout = -1
[[hooks]]
command = ["x"]
timeout = "20 parsecs"
[[hooks]]
command = "x"
timeout = 0
[[hooks]]
command = "x"
timeout = nan
[[hooks]]
command = "x"
timeout = 1e99
"#;
    let expected = r#"c.toml:2:11: hooks[0].webhook: the URL must begin with http:// or https://
  hint: for example "https://mcp.example.com/mcp"
c.toml:4:11: hooks[1].webhook: the URL contains credentials
  hint: send them as a header, such as `Authorization`, with the value in an environment variable
c.toml:6:11: hooks[2].webhook: not a valid URL: relative URL without a base
  hint: for example "https://mcp.example.com/mcp"
c.toml:8:11: hooks[3].webhook: environment variable `NOPE` is not set
  hint: set it, or give a default: `${NOPE:-value}`
c.toml:9:29: hooks[3].headers.Authorization: contains a control character, which is not allowed in a header value
  hint: is there a line break in the variable or file it comes from?
c.toml:9:57: hooks[3].headers.Content-Type: this header is set by the transport and cannot be configured
c.toml:9:84: hooks[3].headers.a: this header is given twice
c.toml:11:11: hooks[4].command: the command is empty
c.toml:14:9: hooks[5].args[0]: contains a NUL character
c.toml:15:9: hooks[5].env: an environment name is not empty and has no `=` and no NUL character
c.toml:16:7: hooks[5].cwd: the path is empty
c.toml:17:11: hooks[5].timeout: must be more than 0 and at most 24 hours
c.toml:19:11: hooks[6].command: must be a string, not a list
c.toml:20:11: hooks[6].timeout: not a length of time
  hint: for example "20s", "500ms" or "2m"
c.toml:23:11: hooks[7].timeout: must be more than 0 and at most 24 hours
c.toml:26:11: hooks[8].timeout: must be more than 0 and at most 24 hours
c.toml:29:11: hooks[9].timeout: must be more than 0 and at most 24 hours"#;
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn unknown_keys_are_errors_with_a_suggestion() {
    let text = "\
[[hooks]]
comand = 'x'
[[hooks]]
url = 'https://h/'
[[hooks]]
command = 'x'
event = 'failed'
foo = 1
";
    let expected = "\
c.toml:2:1: hooks[0].comand: unknown key
  hint: did you mean `command`?
c.toml:4:1: hooks[1].url: unknown key
  hint: did you mean `webhook`?
c.toml:7:1: hooks[2].event: unknown key
  hint: did you mean `on`?
c.toml:8:1: hooks[2].foo: unknown key";
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn hooks_are_a_list_of_tables() {
    for (text, expected) in [
        (
            "[hooks]\ncommand = 'x'",
            "c.toml:1:2: hooks: must be a list of tables, not a table\n  \
             hint: write `[[hooks]]`, with two brackets",
        ),
        (
            "[servers.a]\ncommand = 'x'\n[servers.a.hooks]\ncommand = 'x'",
            "c.toml:3:12: servers.a.hooks: must be a list of tables, not a table\n  \
             hint: write `[[servers.a.hooks]]`, with two brackets",
        ),
        ("hooks = 's3cret'", "c.toml:1:1: hooks: must be a list of tables, not a string"),
        (
            "hooks = ['s3cret']",
            "c.toml:1:10: hooks[0]: must be a table with `command` or `webhook`, not a string",
        ),
    ] {
        assert_eq!(parse_errors("c.toml", text), expected, "{text}");
    }
}

/// The rest of a broken hook could do something else than was asked for, at other times.
#[test]
fn a_broken_hook_is_no_hook() {
    let text = "\
[[hooks]]
command = 'kept'
[[hooks]]
on = ['failed', 'sunk']
command = 'x'
[[hooks]]
command = 'x'
args = ['${NOPE}']
[servers.a]
command = 'x'
[servers.b]
command = 'x'
[[servers.b.hooks]]
on = 'sunk'
command = 'x'
";
    let (config, errors) = parse_partial(&Source::new("c.toml", text), &environment());
    assert_eq!(config.hooks, [Hook::command("kept", [""; 0])]);
    assert_eq!(config.servers.keys().collect::<Vec<_>>(), ["a"]);
    let told: Vec<_> = errors.into_iter().flatten().map(|it| (it.server, it.line)).collect();
    assert_eq!(told, [(None, 4), (None, 8), (Some("b".to_owned()), 14)]);
}

/// Hosts give `hooks` another meaning: theirs are never run.
#[test]
fn hooks_of_a_host_are_its_own() {
    let text = r#"{"hooks": [{"command": "evil"}], "mcpServers": {"a": {"command": "x", "hooks": [{"command": "evil"}]}}}"#;
    let config = parse_valid("settings.json", text);
    assert!(config.hooks.is_empty() && config.servers["a"].hooks.is_empty(), "{config:?}");
    let expected = "settings.json:1:80: mcpServers.a.hooks: not used\n  \
                    hint: hooks are written in the TOML form, as `[[servers.NAME.hooks]]`";
    assert_eq!(note_lines(&config.notes), expected);
}

#[test]
fn a_disabled_server_needs_no_credentials_for_its_hooks() {
    let config = parse_valid(
        "c.toml",
        "[servers.a]\nenabled = false\ncommand = 'x'\n[[servers.a.hooks]]\nwebhook = '${NOPE}'",
    );
    assert!(config.left_out.contains("a"));
}
