//! What becomes of servers that are found.

use std::path::Path;

use bowline_config::{Environment, FixedEnvironment, Source};
use bowline_hosts::{
    FileOrigin, FoundServer, Host, ImportAction, PlannedServer, Scope, plan_import, read_servers,
};

use crate::read::{fixture, render};

const CONFIG: &str = "/home/me/.config/bowline/config.toml";

fn found(host: Host, text: &str) -> Vec<FoundServer> {
    let path = Path::new("/etc/host/file");
    let servers = read_servers(host, FileOrigin { path, project: None }, text).expect("a readable file");
    let found = |server| FoundServer { host, scope: Scope::User, path: path.to_owned(), server };
    servers.into_iter().map(found).collect()
}

fn plan(found: Vec<FoundServer>, config: &str, replace: bool) -> Vec<PlannedServer> {
    let env = FixedEnvironment::default().with_var("HOME", "/home/me").with_var("TOKEN", "t0k");
    plan_import(found, &Source::new(CONFIG, config), &env, replace)
}

/// The configuration after an import into an empty one.
fn imported(planned: &[PlannedServer]) -> String {
    let written = planned.iter().filter(|planned| planned.is_written());
    written.map(|planned| render(&planned.target, planned.entry.as_ref().unwrap())).collect()
}

fn actions(planned: &[PlannedServer]) -> Vec<(ImportAction, &str)> {
    planned.iter().map(|planned| (planned.action, planned.target.as_str())).collect()
}

fn one(command: &str) -> String {
    format!(r#"{{"mcpServers": {{"a": {{"command": "{command}", "args": ["x"]}}}}}}"#)
}

#[test]
fn a_server_that_two_hosts_have_is_added_once() {
    let mut all = found(Host::Cursor, &one("s"));
    all.extend(found(Host::Windsurf, &one("s").replace("\"args\"", "\"disabled\": true, \"args\"")));
    all.extend(found(Host::GeminiCli, &one("other")));
    all.extend(found(Host::GeminiCli, &one("third")));
    let planned = plan(all, "", false);
    let expected = [
        (ImportAction::Add, "a"),
        (ImportAction::Same, "a"),
        (ImportAction::Add, "a-gemini"),
        (ImportAction::Add, "a-gemini-2"),
    ];
    assert_eq!(actions(&planned), expected);
    assert_eq!(planned[1].reason, "the same as `a` of Cursor");
    assert_eq!(planned[2].reason, "`a` of Cursor differs, so this one is `a-gemini`");
}

/// The port that Codex has for all logins makes no other server of one that has no client registered with it.
#[test]
fn the_port_of_logins_makes_no_other_server() {
    let with_login = |login: &str| format!(r#"{{"mcpServers": {{"a": {{"url": "https://h/mcp"{login}}}}}}}"#);
    let codex =
        |more: &str| format!("mcp_oauth_callback_port = 5\n[mcp_servers.a]\nurl = 'https://h/mcp'\n{more}");
    let mut all = found(Host::Cursor, &with_login(""));
    all.extend(found(Host::Codex, &codex("")));
    assert_eq!(actions(&plan(all, "", false)), [(ImportAction::Add, "a"), (ImportAction::Same, "a")]);
    let mut all = found(Host::Cursor, &with_login(r#", "auth": {"CLIENT_ID": "c"}"#));
    all.extend(found(Host::Codex, &codex("oauth.client_id = 'c'")));
    assert_eq!(actions(&plan(all, "", false)), [(ImportAction::Add, "a"), (ImportAction::Add, "a-codex")]);
}

/// The two may be for two accounts, so that both are added; the person decides.
#[test]
fn the_same_program_with_other_variables_is_named() {
    let with = |variable: &str| {
        one("s").replace("\"args\"", &format!("\"env\": {{\"A\": \"{variable}\"}}, \"args\""))
    };
    let mut all = found(Host::Cursor, &with("1"));
    all.extend(found(Host::GeminiCli, &with("2")));
    all.extend(found(Host::Windsurf, &with("3").replace("\"x\"", "\"y\"")));
    let planned = plan(all, "", false);
    let expected =
        [(ImportAction::Add, "a"), (ImportAction::Add, "a-gemini"), (ImportAction::Add, "a-windsurf")];
    assert_eq!(actions(&planned), expected);
    assert_eq!(
        planned[1].reason,
        "`a` of Cursor is the same program with other variables, so this one is `a-gemini` and its tools are there twice; \
         `bowline disable a-gemini` leaves them once"
    );
    assert_eq!(planned[2].reason, "`a` of Cursor differs, so this one is `a-windsurf`");
}

#[test]
fn a_server_that_one_host_uses_is_enabled() {
    let mut all = found(Host::Cursor, &one("s").replace("\"args\"", "\"disabled\": true, \"args\""));
    all.extend(found(Host::Windsurf, &one("s")));
    let planned = plan(all, "", false);
    assert_eq!(actions(&planned), [(ImportAction::Add, "a"), (ImportAction::Same, "a")]);
    assert!(planned[0].entry.as_ref().unwrap().is_enabled());
}

#[test]
fn an_entry_of_ones_own_stays_unless_it_is_replaced() {
    let same = "[servers.a]\ncommand = 's'\nargs = ['x']\nenabled = false\n";
    assert_eq!(actions(&plan(found(Host::Cursor, &one("s")), same, false)), [(ImportAction::Same, "a")]);
    let other = "[servers.a]\nurl = 'https://h/'\n";
    let planned = plan(found(Host::Cursor, &one("s")), other, false);
    assert_eq!(actions(&planned), [(ImportAction::Keep, "a")]);
    assert_eq!(planned[0].reason, "`a` of your configuration differs, and stays; --replace overwrites it");
    let planned = plan(found(Host::Cursor, &one("s")), other, true);
    assert_eq!(actions(&planned), [(ImportAction::Replace, "a")]);
    // An entry that cannot be used is not replaced by itself either.
    let broken = "[servers.a]\nurl = 'no'\n";
    let planned = plan(found(Host::Cursor, &one("s")), broken, false);
    assert_eq!(actions(&planned), [(ImportAction::Keep, "a")]);
}

#[test]
fn a_server_with_an_unset_variable_is_not_enabled() {
    let text = r#"{"mcpServers": {
        "set": {"url": "https://h/", "headers": {"A": "${TOKEN}"}},
        "unset": {"url": "https://h/", "headers": {"A": "${NONE}"}},
        "wrong": {"url": "https://u:p@h/"}}}"#;
    let planned = plan(found(Host::ClaudeCode, text), "", false);
    let state = |planned: &PlannedServer| (planned.action, planned.entry.as_ref().unwrap().is_enabled());
    assert_eq!(state(&planned[0]), (ImportAction::Add, true));
    assert_eq!(state(&planned[1]), (ImportAction::Add, false));
    assert_eq!(planned[1].attention, ["environment variable `NONE` is not set"]);
    assert_eq!(planned[2].action, ImportAction::LeaveOut);
    assert_eq!(planned[2].reason, "`url`: the URL contains credentials");
    assert!(!format!("{planned:?}").contains("u:p"), "{planned:?}");
}

#[test]
fn a_project_that_names_the_same_command_adds_nothing() {
    let mut all = found(Host::Cursor, &one("s"));
    let origin = FileOrigin { path: Path::new("/p/.cursor/mcp.json"), project: Some(Path::new("/p")) };
    for server in read_servers(Host::Cursor, origin, &one("s")).unwrap() {
        all.push(FoundServer { host: Host::Cursor, scope: Scope::Project, path: origin.path.into(), server });
    }
    assert_eq!(actions(&plan(all, "", false)), [(ImportAction::Add, "a"), (ImportAction::Same, "a")]);
}

/// What the file of a project refers to is not opened while nobody has agreed.
#[test]
#[cfg(unix)]
fn files_that_a_project_names_are_not_opened() {
    struct Watching(std::cell::RefCell<Vec<std::path::PathBuf>>);
    impl Environment for Watching {
        fn var(&self, _: &str) -> Option<String> {
            None
        }
        fn read_file(&self, path: &Path) -> Result<String, String> {
            self.0.borrow_mut().push(path.to_owned());
            Ok("text".to_owned())
        }
    }
    let text = r#"{"mcp": {"a": {"type": "remote", "url": "https://h/", "headers": {"A": "{file:/key}"}}}}"#;
    for (scope, opened, is_enabled) in [(Scope::User, true, true), (Scope::Project, false, false)] {
        let mut all = found(Host::Opencode, text);
        all[0].scope = scope;
        let env = Watching(std::cell::RefCell::default());
        let planned = plan_import(all, &Source::new(CONFIG, ""), &env, false);
        assert_eq!(!env.0.borrow().is_empty(), opened, "{scope:?}");
        assert_eq!(planned[0].entry.as_ref().unwrap().is_enabled(), is_enabled, "{scope:?}");
        let config = imported(&planned);
        let mut again = found(Host::Opencode, text);
        again[0].scope = scope;
        let planned = plan_import(again, &Source::new(CONFIG, config), &env, false);
        assert_eq!(actions(&planned), [(ImportAction::Same, "a")], "{scope:?}");
    }
}

#[test]
fn entries_whose_url_is_a_variable_are_found_again() {
    let text = r#"{"mcpServers": {"a": {"url": "${NONE}"}, "b": {"url": "http://h:${NONE}/"}}}"#;
    let planned = plan(found(Host::ClaudeCode, text), "", false);
    assert_eq!(actions(&planned), [(ImportAction::Add, "a"), (ImportAction::Add, "b")]);
    let again = plan(found(Host::ClaudeCode, text), &imported(&planned), true);
    assert_eq!(actions(&again), [(ImportAction::Same, "a"), (ImportAction::Same, "b")]);
}

/// Everything that is imported can be used, and is the same at the next import.
#[test]
#[cfg(unix)]
fn all_hosts_together_make_a_valid_configuration() {
    let all = || Host::ALL.into_iter().flat_map(|host| found(host, &fixture(host))).collect::<Vec<_>>();
    let planned = plan(all(), "", false);
    let config = imported(&planned);
    let env = FixedEnvironment::default().with_var("HOME", "/home/me").with_var("TOKEN", "t0k");
    let parsed = bowline_config::parse(&Source::new(CONFIG, &*config), &env).unwrap();
    let count = planned.iter().filter(|planned| planned.is_written()).count();
    assert_eq!(parsed.servers.len() + parsed.left_out.len(), count);
    let again = plan(all(), &config, true);
    assert!(again.iter().all(|planned| !planned.is_written()), "{:?}", actions(&again));
}

#[test]
fn each_part_of_a_secret_has_a_label_of_its_own() {
    let text = r#"{"mcpServers": {"a": {"url": "https://h/?token=k1&key=k2&secret=k3"}}}"#;
    let mut entry = plan(found(Host::Cursor, text), "", false).remove(0).entry.unwrap();
    let stored = entry.take_secrets(&mut |secret| secret.label.clone());
    let stored: Vec<_> = stored.iter().map(|it| (it.label.as_str(), it.value.as_str())).collect();
    assert_eq!(stored, [("url", "k3"), ("url-2", "k2"), ("url-3", "k1")]);
    let expected =
        "[servers.a]\nurl = \"https://h/?token={file:url-3}&key={file:url-2}&secret={file:url}\"\n";
    assert_eq!(render("a", &entry), expected);
}

#[test]
fn secrets_are_taken_out_of_every_place() {
    let text = r#"{"mcpServers": {
        "stdio": {"command": "s", "args": ["--api-key", "k1", "--x", "1"], "env": {"A_TOKEN": "k2", "B": "2"}},
        "http": {"url": "https://h/?token=k3", "headers": {"Authorization": "Bearer k4", "X": "3"}, "oauth": {"clientId": "c", "clientSecret": "k5"}},
        "none": {"command": "s", "env": {"A_TOKEN": "${TOKEN}"}}}}"#;
    let mut texts = Vec::new();
    let mut secrets = Vec::new();
    for planned in plan(found(Host::ClaudeCode, text), "", false) {
        let mut entry = planned.entry.unwrap();
        assert_eq!(entry.has_secrets(), planned.name != "none");
        let stored = entry.take_secrets(&mut |secret| format!("s/{}", secret.label));
        secrets.extend(stored.into_iter().map(|stored| format!("{}={}", stored.label, stored.value)));
        assert!(!entry.has_secrets());
        texts.push(render(&planned.name, &entry));
    }
    let expected = ["env-A_TOKEN=k2", "arg-2=k1", "url=k3", "header-Authorization=k4", "client-secret=k5"];
    assert_eq!(secrets, expected);
    let expected = "[servers.stdio]\ncommand = \"s\"\nargs = [\"--api-key\", \"{file:s/arg-2}\", \"--x\", \"1\"]\nenv = { A_TOKEN = \"{file:s/env-A_TOKEN}\", B = \"2\" }\n";
    assert_eq!(texts[0], expected);
}
