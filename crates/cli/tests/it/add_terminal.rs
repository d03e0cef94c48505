//! `bowline add` with a person at a terminal, who is asked for what is missing.

use bowline_testkit as testkit;
use serde_json::json;

use crate::add_registry::{RegistrySite, npm};
use crate::context::{Context, snapshot};
use crate::entries::{config, cursor_link};
use crate::pty::{DOWN, ENTER, ESCAPE, Person, UP};

/// A variable that a value names and that is not set is asked for without showing it.
#[tokio::test]
async fn a_variable_that_is_not_set_is_asked_for() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let url = server.url();
    let words = ["add", "notes", &format!("{url}?tenant=${{TENANT}}"), "-H", "X-Key: ${KEY} ${KEY}"];
    let mut person = Person::sits_at(context.bowline(words));
    person.sees("TENANT:");
    person.answers("main\r", "KEY:");
    person.presses("a${b}c\r");
    let end = person.leaves();
    assert_eq!(end.code, 0, "{}", end.screen);
    assert!(!end.screen.contains("main") && !end.screen.contains("a${b}c"), "{}", end.screen);
    let expected = format!(
        "[servers.notes]\nurl = \"{url}?tenant=main\"\nheaders = {{ X-Key = \"a$${{b}}c a$${{b}}c\" }}\n"
    );
    assert_eq!(config(&context).unwrap(), expected);
    // Giving up adds nothing.
    let mut person = Person::sits_at(context.bowline(["add", "more", &url, "-H", "X-Key: ${KEY}"]));
    person.sees("KEY:");
    person.presses(ESCAPE);
    let end = person.leaves();
    assert_eq!(end.code, 2);
    assert!(end.screen.contains("error: KEY is not set"), "{}", end.screen);
    assert_eq!(config(&context).unwrap(), expected);
}

/// So is one that is to be taken from the environment; the entry gets what was typed.
#[tokio::test]
async fn a_variable_for_the_environment_is_asked_for() {
    let context = Context::new();
    let mut person =
        Person::sits_at(context.bowline(["add", "mine", "--no-check", "-e", "KEY", "--", "cmd"]));
    person.sees("KEY:");
    person.presses("hunter2\r");
    let end = person.leaves();
    assert_eq!(end.code, 0, "{}", end.screen);
    assert!(!end.screen.contains("hunter2"), "{}", end.screen);
    let expected = "[servers.mine]\ncommand = \"cmd\"\nenv = { KEY = \"hunter2\" }\n";
    assert_eq!(config(&context).unwrap(), expected);
}

/// SE-04: what was typed or pasted before the question was shown does not answer it.
#[tokio::test]
async fn se_04_a_question_is_not_answered_before_it_is_shown() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let link = cursor_link("page", &json!({ "url": server.url() }).to_string());
    let mut person = Person::sits_at(context.bowline(["add", &link]));
    person.presses("y\r");
    person.sees("The address is from the link.");
    person.presses(ESCAPE);
    let end = person.leaves();
    assert_eq!(end.code, 2, "{}", end.screen);
    assert_eq!((server.connections(), config(&context)), (0, None));
}

/// SE-04: a link is from a page, so its server is shown whole and reached after a yes.
#[tokio::test]
async fn se_04_the_server_of_an_install_link_is_approved() {
    let context = Context::new();
    let server = testkit::server().tool("echo").run().await;
    let url = server.url();
    let entry = json!({ "url": url, "headers": { "X-Key": "${env:HOME}" } }).to_string();
    let link = cursor_link("page", &entry);
    let mut person = Person::sits_at(context.bowline(["add", &link]));
    person.sees("('X-Key: ${HOME}')?");
    assert_eq!(server.connections(), 0, "nothing was sent");
    person.presses(ESCAPE);
    let end = person.leaves();
    assert_eq!(end.code, 2);
    assert!(end.screen.contains("and nothing was added"), "{}", end.screen);
    assert_eq!(server.connections(), 0, "nothing was sent");
    assert_eq!(config(&context), None);
    let mut person = Person::sits_at(context.bowline(["add", &link, "-H", "x-key: 1"]));
    person.sees(&format!("Connect to {url}? The address is from the link."));
    person.presses(UP);
    person.presses(ENTER);
    let end = person.leaves();
    assert_eq!(end.code, 0, "{}", end.screen);
    let expected = format!("[servers.page]\nurl = \"{url}\"\nheaders = {{ x-key = \"1\" }}\n");
    assert_eq!(config(&context).unwrap(), expected);
}

/// Without a terminal the error says what to do, and with `--no-check` the entry is added as it is.
#[test]
fn a_variable_that_is_not_set_is_an_error_without_a_terminal() {
    let context = Context::new();
    let add = |more: &[&str]| {
        let words = ["add", "notes", "http://127.0.0.1:9/${TENANT}", "-H", "X-Key: ${KEY:-none}"];
        context.run(context.bowline([&words, more].concat()))
    };
    snapshot!(add(&[]), @"
    exit: 2
    --- stdout
    --- stderr
    error: TENANT is not set, and there is no terminal to ask you on

    hint: set TENANT, or use --no-check to add the entry as it is
    ---
    ");
    assert_eq!(config(&context), None);
    snapshot!(add(&["--no-check"]), @"
    exit: 0
    --- stdout
    --- stderr
    note: set it before you use `notes`: environment variable `TENANT` is not set
    note: added `notes` to [TMP]/home/.config/bowline/config.toml; see `bowline tools notes`
    ---
    ");
    let expected =
        "[servers.notes]\nurl = \"http://127.0.0.1:9/${TENANT}\"\nheaders = { X-Key = \"${KEY:-none}\" }\n";
    assert_eq!(config(&context).unwrap(), expected);
}

/// Publishes a server with a URL and a package that needs values.
async fn site_with_choices() -> RegistrySite {
    let site = RegistrySite::new().await;
    let package = npm(json!({
        "packageArguments": [
            { "type": "named", "name": "--mode", "isRequired": true, "choices": ["ro", "rw"], "description": "What is allowed" },
            { "type": "positional", "valueHint": "folder", "isRequired": true, "default": "/tmp", "description": "Where notes are \u{1b}[2Jkept" },
        ],
        "environmentVariables": [
            { "name": "API_KEY", "isRequired": true, "isSecret": true, "description": "The key of your account" },
        ],
    }));
    let remotes = json!([{ "type": "streamable-http", "url": "http://127.0.0.1:9/{tenant}", "variables": { "tenant": {} } }]);
    site.publish("1.2.0", json!({ "packages": [package], "remotes": remotes }));
    site
}

/// SE-04: the person chooses the package, gives what is missing, sees the whole command, and approves it.
#[tokio::test]
async fn se_04_missing_values_are_asked_for_and_the_command_approved() {
    let site = site_with_choices().await;
    let server = testkit::server().tool("echo").stdio().await;
    let mut command = site.add(&["io.github.knots/notes"]);
    command.env("PATH", site.install("npx", &server.command()));
    let mut person = Person::sits_at(command);
    let screen = person.sees("enter chooses, esc gives up");
    assert!(screen.contains("? How is `io.github.knots/notes` used?"), "{screen}");
    assert!(screen.contains("  > http://127.0.0.1:9/{tenant}  runs elsewhere, Streamable HTTP"), "{screen}");
    assert!(screen.contains("    npx -y @knots/notes@1.2.0  npm package, runs on this machine"), "{screen}");
    person.answers(&format!("{DOWN}{ENTER}"), "? API_KEY: The key of your account");
    person.answers("hunter2\r", "? mode: What is allowed");
    person.sees("> ro");
    person.presses(DOWN);
    person.sees("> rw");
    let screen = person.answers(ENTER, "folder: /tmp");
    assert!(screen.contains("? folder: Where notes are \\u{1b}[2Jkept"), "{screen}");
    person.presses("/my notes");
    person.sees("folder: /tmp/my notes");
    let screen = person.answers(ENTER, "Yes, start it and add it");
    let question = "Start `API_KEY='<API_KEY>' npx -y @knots/notes@1.2.0 --mode=rw '/tmp/my notes'`? It runs with your rights.";
    assert!(screen.replace('\n', "").contains(question), "{screen}");
    assert_eq!(site.started(), None, "nothing is started before the yes");
    person.presses(UP);
    person.sees("> Yes, start it");
    person.presses(ENTER);
    let end = person.leaves();
    assert_eq!(end.code, 0, "{}", end.screen);
    assert!(!end.screen.contains("hunter2"), "{}", end.screen);
    assert_eq!(
        site.started().unwrap(),
        "-y\n@knots/notes@1.2.0\n--mode=rw\n/tmp/my notes\nAPI_KEY=hunter2\n"
    );
    let entry = "[servers.notes]\ncommand = \"npx\"\nargs = [\"-y\", \"@knots/notes@1.2.0\", \"--mode=rw\", \"/tmp/my notes\"]\n\
                 env = { API_KEY = \"hunter2\" }\n";
    assert_eq!(config(&site.context).unwrap(), entry);
}

/// SE-04: a no starts nothing and adds nothing, and so does giving up a question.
#[tokio::test]
async fn se_04_a_no_starts_and_adds_nothing() {
    let site = site_with_choices().await;
    let server = testkit::server().tool("echo").stdio().await;
    let path = site.install("npx", &server.command());
    let given = ["-e", "API_KEY=k", "--arg", "mode=ro", "--arg", "folder=/tmp"];
    let mut command = site.add(&[&["io.github.knots/notes", "--package", "npm"], &given[..]].concat());
    command.env("PATH", &path);
    let mut person = Person::sits_at(command);
    person.sees("> No");
    person.presses(ENTER);
    let end = person.leaves();
    assert_eq!(end.code, 2);
    let said = "`npx -y @knots/notes@1.2.0 --mode=ro /tmp` was not started, and nothing was added";
    assert!(end.screen.replace('\n', "").contains(said), "{}", end.screen);
    let mut person = Person::sits_at(site.add(&["io.github.knots/notes", "--remote"]));
    person.sees("? `io.github.knots/notes` needs tenant");
    person.presses(ESCAPE);
    let end = person.leaves();
    assert_eq!(end.code, 2);
    assert!(end.screen.contains("hint: give it with --arg tenant=VALUE"), "{}", end.screen);
    assert_eq!((site.started(), config(&site.context)), (None, None));
}
