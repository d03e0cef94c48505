//! Every example of `--help` that needs no network is run as it is printed, up to a pipe or a redirection. One that
//! cannot run here, or that ends with another code than 0, is listed with the reason.

use std::time::Duration;

use bowline_testkit::{self as testkit, AuthServer, Completion, StdioServer, TaskPlan, Tool};
use serde_json::json;

use crate::context::Context;
use crate::status::stdio_entry;
#[cfg(unix)]
use crate::{
    browser::Browser, login::LoginSite, pty::Person, serve_front::daemons::Daemons, watch::WatchProcess,
};

/// Examples that are run and do not end with 0: their exit codes, and why.
const EXIT_CODES: &[(&str, i32, &str)] = &[
    ("bowline import", 2, NO_TERMINAL),
    ("bowline import ./mcp.json --store-secrets", 2, NO_TERMINAL),
    ("bowline install claude-code", 2, NO_TERMINAL),
    ("bowline install gemini --servers docs,files", 2, NO_TERMINAL),
    ("bowline install vscode --scope project", 2, NO_TERMINAL),
    ("bowline install zed --view review --name review", 2, NO_TERMINAL),
    ("bowline tasks media --cancel 7f3a", 6, OTHER_TASK),
    ("bowline tasks media --wait 7f3a", 6, OTHER_TASK),
    ("bowline trust", 2, NO_TERMINAL),
    ("bowline trust ~/src/project", 2, NO_TERMINAL),
];
const NO_TERMINAL: &str = "as there is no terminal to ask you on";
const OTHER_TASK: &str = "the server does not know the task, or no longer";

/// Parts of examples that are not run, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("https://mcp.example.com", "it names a server on the internet"),
    ("cursor://", "the link names a server on the internet"),
    ("http://127.0.0.1", "it names a server of the reader"),
    ("-- npx", "the server is downloaded"),
    ("-- node server.js", "it starts a file of the reader"),
    ("npm:", "a registry is asked for the package"),
    ("pypi:", "a registry is asked for the package"),
    ("io.github.owner/server", "a registry is asked for the server"),
    (LOGIN, "a person logs in; see the test of these"),
    ("auth export", "a person types a passphrase"),
    ("auth import", "a person types a passphrase"),
    ("bowline serve --socket /run", "it names a folder of the reader"),
    ("resources --json files --watch", "it shows nothing until a resource changes"),
    (DEMO, "it lasts for half a minute; see the test of these"),
];

const LOGIN: &str = "bowline login";
const DEMO: &str = "bowline demo";

/// Parts of examples that run until they are ended.
const LASTING: &[&str] = &["bowline watch", "bowline logs", " --watch"];
/// Serves at a fixed port, which may be taken on this machine; run with another one.
const AT_FIXED_PORT: &str = "bowline serve";

/// Returns the examples of all verbs, without what follows the command: a pipe, a redirection or a remark.
fn examples(context: &Context) -> Vec<String> {
    let (mut verbs, mut examples) = (vec![Vec::new()], Vec::new());
    while let Some(words) = verbs.pop() {
        let help = help(context, &words);
        // The verbs of the program are in groups, and those of a verb below a heading.
        let start = if words.is_empty() { "Usage:" } else { "Commands:" };
        verbs.extend(verbs_after(start, &help).into_iter().map(|verb| [&words[..], &[verb]].concat()));
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        let mut own: Vec<String> = Vec::new();
        for line in lines.take_while(|line| line.starts_with("  ")) {
            match own.last_mut() {
                // A long example goes on in the next line.
                Some(last) if !line.contains("bowline ") => *last = format!("{last} {}", line.trim()),
                _ => own.push(line.trim().to_owned()),
            }
        }
        examples.extend(own.iter().map(|line| command_of(line).to_owned()));
    }
    examples.sort_unstable();
    examples.dedup();
    examples
}

fn help(context: &Context, words: &[String]) -> String {
    let output = context.bowline(words).arg("--help").output().expect("bowline starts");
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the verbs that a help text lists between a line that begins like this and the options.
fn verbs_after(start: &str, help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !line.starts_with(start)).skip(1);
    let verbs = lines.take_while(|line| !line.starts_with("Options:")).filter_map(|line| {
        let (verb, about) = line.strip_prefix("  ")?.split_once("  ")?;
        let is_verb =
            !about.is_empty() && !verb.is_empty() && verb.bytes().all(|byte| byte.is_ascii_lowercase());
        (is_verb && verb != "help").then(|| verb.to_owned())
    });
    verbs.collect()
}

/// Returns the part of an example that is a command of ours, with what comes to it through a pipe.
fn command_of(line: &str) -> &str {
    let start = line.find("bowline ").expect("a command of ours");
    let ends = [" | ", " > ", " # ", "   "].into_iter().filter_map(|end| line[start..].find(end));
    let end = ends.min().map_or(line.len(), |length| start + length);
    line[..end].trim_end()
}

/// Starts the server that all names in examples stand for.
async fn server() -> StdioServer {
    let script = testkit::server()
        .tool(Tool::named("search").read_only())
        .tool("add")
        .tool(Tool::named("transcode").task(TaskPlan::default()))
        .resource("file:///notes.txt", "a knot")
        .resource("file:///photo.png", "a picture")
        .resource("repo://me/knots/src/lib.rs", "//! Knots.")
        .resource("search://all?tag=rope&tag=sea", "a rope")
        .template("repo://{owner}/{name}/{+path}")
        .template("search://all{?tag*}")
        .template("file:///{path}")
        .prompt("summarize", "Summarize it.")
        .prompt_json(
            json!({"name": "translate", "arguments": [{"name": "text"}, {"name": "language"}]}),
            json!([{"role": "user", "content": {"type": "text", "text": "Translate it."}}]),
        )
        .completes(Completion::prompt("translate", "language", &["german"]))
        .completes(Completion::prompt("visit", "city", &["Oslo"]))
        .completes(Completion::resource("file:///{path}", "path", &["src/lib.rs"]));
    script.stdio().await
}

/// The names of servers in examples.
const NAMES: [&str; 7] = ["docs", "files", "search", "media", "math", "repo", "weather"];

/// Runs an example in a home of its own, and returns its exit code and output.
fn run(example: &str, server: &StdioServer) -> (Option<i32>, String) {
    let context = Context::new();
    // `bowline serve --stdio` starts one, which outlives it.
    #[cfg(unix)]
    let _daemons = Daemons::of(&context);
    let entries: String = NAMES.into_iter().map(|name| stdio_entry(name, &server.command())).collect();
    context.user_config(&format!("{entries}[views.review]\nservers = ['docs']\n"));
    for folder in [".cursor", ".config/Code/User", "Library/Application Support/Code/User", "src/project"] {
        std::fs::create_dir_all(context.path("home").join(folder)).expect("a folder");
    }
    // The servers of other hosts, and the file of a project.
    let (one, two) =
        (r#"{"mcpServers": {"one": {"command": "true"}}}"#, r#"{"servers": {"two": {"command": "true"}}}"#);
    context.write("home/.cursor/mcp.json", one);
    context.write("home/.config/Code/User/mcp.json", two);
    context.write("home/Library/Application Support/Code/User/mcp.json", two);
    context.write("project/below/mcp.json", one);
    let project = "[servers.three]\ncommand = 'true'\n";
    context.write("home/src/project/bowline.toml", project);
    if example.contains("trust") || example.contains("./bowline.toml") {
        context.write("project/below/bowline.toml", project);
    }
    // The file is left as it is by this editor.
    let mut shell = context.shell(&format!("export EDITOR=true\nbowline() {{ \"$0\" \"$@\"; }}\n{example}"));
    let output = shell.output().expect("a shell");
    (output.status.code(), context.shown(&output))
}

#[tokio::test]
async fn examples_that_need_no_network_are_run() {
    let examples = examples(&Context::new());
    for (part, reason) in LEFT_OUT {
        assert!(
            examples.iter().any(|example| example.contains(part)),
            "none is left out since {reason}: {part}"
        );
    }
    let server = server().await;
    let (mut failures, mut count) = (Vec::new(), 0);
    let is_left_out = |example: &String| LEFT_OUT.iter().any(|(part, _)| example.contains(part));
    for example in examples.iter().filter(|it| !is_left_out(it) && !lasts(it)) {
        let found = EXIT_CODES.iter().find(|(other, ..)| other == example);
        let (expected, why) = found.map_or((0, ""), |(_, code, why)| (*code, *why));
        let (code, shown) = run(example, &server);
        if code != Some(expected) || !shown.contains(why) {
            failures.push(format!("$ {example}\n{shown}"));
        }
        count += 1;
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(count > 80, "{count} examples are run");
    for (example, ..) in EXIT_CODES {
        assert!(examples.iter().any(|it| it == example), "there is no example `{example}`");
    }
}

fn lasts(example: &str) -> bool {
    example == AT_FIXED_PORT || LASTING.iter().any(|part| example.contains(part))
}

/// Each shows something, and ends with 0 when it is told to.
#[cfg(unix)]
#[tokio::test]
async fn examples_that_last_are_run_and_ended() {
    let examples = examples(&Context::new());
    let context = Context::new();
    let running = server().await;
    let server = running.command();
    let talking = |name| {
        let talks = r#"echo begun >&2; exec "$0" "$@""#;
        let mut command = server.clone();
        command.args =
            [&["-c".to_owned(), talks.to_owned(), server.program.display().to_string()], &*server.args]
                .concat();
        command.program = "/bin/sh".into();
        stdio_entry(name, &command)
    };
    context.user_config(&NAMES.into_iter().map(talking).collect::<String>());
    let mut count = 0;
    for example in examples.iter().filter(|it| lasts(it)) {
        if LEFT_OUT.iter().any(|(part, _)| example.contains(part)) {
            continue;
        }
        let line = example.replacen("bowline", "exec \"$0\"", 1);
        let port = if example == AT_FIXED_PORT { " --listen 127.0.0.1:0" } else { "" };
        let mut process = WatchProcess::start(context.shell(&format!("{line}{port} 2>&1")));
        process.next_line().await;
        let (code, rest) = process.interrupt().await;
        assert_eq!(code, Some(0), "$ {example}\n{rest:?}");
        count += 1;
    }
    assert_eq!(count, 10, "{examples:?}");
}

/// The server is one that requires a login, and a person logs in to it.
#[tokio::test]
async fn examples_of_login_are_run() {
    let examples = examples(&Context::new());
    let mut count = 0;
    for example in examples.iter().filter(|it| it.starts_with(LOGIN)) {
        // The redirect URI of a registered client has a fixed port, which may be taken on this machine.
        if example.contains("--static-oauth-client-info") {
            continue;
        }
        let mut auth = AuthServer::builder().scopes(&["files:write"]);
        if example.contains("--device") {
            auth = auth.device(Duration::from_millis(50));
        }
        let site = LoginSite::with_script(auth, |protected| protected).await;
        let mut line = example.replace("https://mcp.example.com/mcp", &site.server.url());
        if let Some((before, _)) = line.split_once("--finish ") {
            let output = site.bowline(&["login", "docs"]).output().expect("bowline starts");
            let shown = String::from_utf8_lossy(&output.stderr).into_owned();
            let url = shown.lines().find_map(|line| line.trim().strip_prefix("log in at:")).expect("a URL");
            line = format!("{before}--finish '{}'", testkit::follow_authorize_url(url.trim()).await);
        }
        let browser = Browser::new(&site.context);
        let mut command = site.context.shell(&line.replacen("bowline", "exec \"$0\"", 1));
        command.env("BROWSER", &browser.program);
        let person = Person::sits_at(command);
        if line.contains("--device") {
            person.sees("and enter this code: ");
            site.auth.approve_device(&site.auth.user_codes().pop().expect("a code"));
        } else if !line.contains("--finish") {
            let opened = browser.opened();
            let url = opened.strip_prefix("1|").expect("one argument");
            assert_eq!(url.contains("files%3Awrite"), line.contains("--scope"), "$ {line}\n{url}");
            testkit::Browser::new().login(url).await;
        }
        let end = person.leaves();
        assert_eq!(end.code, 0, "$ {line}\n{}", end.screen);
        assert!(end.stdout.starts_with("logged in to "), "$ {line}\n{}", end.stdout);
        assert_eq!(site.auth.violations(), [""; 0], "$ {line}");
        count += 1;
    }
    assert_eq!(count, 5, "{examples:?}");
}

/// Each is as it is printed, but for a second instead of its time.
#[test]
fn examples_of_the_demo_are_run_for_a_second() {
    let examples = examples(&Context::new());
    let mut count = 0;
    for example in examples.iter().filter(|it| it.starts_with(DEMO)) {
        let line = match example.split_once("--seconds 60") {
            Some((before, after)) => format!("{before}--seconds 1{after}"),
            None => format!("{example} --seconds 1"),
        };
        let context = Context::new();
        let shown = context.run(context.shell(&line.replacen("bowline", "exec \"$0\"", 1)));
        assert!(shown.starts_with("exit: 0\n") && shown.contains("\nIt held: "), "$ {line}\n{shown}");
        count += 1;
    }
    assert_eq!(count, 2, "{examples:?}");
}
