//! `bowline complete`, and shell completion.

use bowline_testkit::{self as testkit, Completion, Script, Tool};
use serde_json::json;

#[cfg(unix)]
use crate::context::Command;
use crate::context::{Context, snapshot, toml_path};
#[cfg(unix)]
use crate::pty::{CLEAR, Person};

fn script() -> Script {
    testkit::server()
        .tool(Tool::named("search").schema(json!({"type": "object", "properties": {
            "query": {"enum": ["bowline", "sheet bend", "hitch"]}, "limit": {}, "deep": {"type": "boolean"},
            "--config": {},
        }})))
        .tool("$(reboot)")
        .tool("--trust-project")
        .prompt_json(
            json!({"name": "visit", "arguments": [{"name": "country", "required": true}, {"name": "city"}]}),
            json!([]),
        )
        .resource("file:///knots.txt", "")
        .template("file:///{path}")
        .completes(Completion::prompt("visit", "country", &["Norway", "New Zealand", "Nepal"]))
        .completes(Completion::prompt("visit", "city", &["Oslo", "Odda"]).given("country", "Norway"))
        .completes(Completion::resource("file:///{path}", "path", &["a", "b\u{1b}[2J"]))
}

// CP-01, CP-02
#[tokio::test]
async fn a_server_completes_arguments() {
    let context = Context::new();
    let server = script().run().await;
    let ask = |words: &[&str]| {
        let mut command = context.bowline(["complete", &server.url()]);
        command.args(words);
        context.run(command)
    };
    let all = ask(&["prompt", "visit", "country"]);
    assert_eq!(all, "exit: 0\n--- stdout\nNorway\nNew Zealand\nNepal\n--- stderr\n---");
    let some = ask(&["prompt", "visit", "country", "Ne"]);
    assert_eq!(some, "exit: 0\n--- stdout\nNew Zealand\nNepal\n--- stderr\n---");
    let given = ask(&["prompt", "visit", "city", "--with", "country=Norway"]);
    assert_eq!(given, "exit: 0\n--- stdout\nOslo\nOdda\n--- stderr\n---");
    let asked = server.received_with_method("completion/complete").pop().unwrap();
    assert_eq!(asked.params()["context"], json!({"arguments": {"country": "Norway"}}));
    let none = ask(&["prompt", "visit", "city"]);
    assert_eq!(none, "exit: 0\n--- stdout\n--- stderr\nnote: no suggestions\n---");
    let paths = ask(&["resource", "file:///{path}", "path"]);
    assert_eq!(paths, "exit: 0\n--- stdout\na\nb\\u{1b}[2J\n--- stderr\n---");
    let json = ask(&["prompt", "visit", "country", "Nor", "--json"]);
    assert!(json.contains(r#"{"hasMore":false,"total":1,"values":["Norway"]}"#), "{json}");
    snapshot!(ask(&["tool", "x", "y"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: `tool` is neither `prompt` nor `resource`

    hint: write `bowline complete SERVER prompt|resource NAME ARG [VALUE]`, or `bowline complete prompt|resource NAME ARG [VALUE] -- COMMAND [ARG]...`
    ---
    ");
    // CP-01: a server without the capability is not asked.
    let silent = script().without_capability("completions").run().await;
    let shown = context.run(context.bowline(["complete", &silent.url(), "prompt", "visit", "city"]));
    assert!(shown.starts_with("exit: 6\n") && shown.contains("offers no completions"), "{shown}");
    assert_eq!(silent.count("completion/complete"), 0);
}

/// Returns the shell completions of a line that ends at the cursor.
fn complete_line(context: &Context, words: &[&str]) -> Vec<String> {
    let mut command = context.bowline(["__complete", "--"]);
    command.args(words).env("XDG_STATE_HOME", context.path("state"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

fn cache_list(context: &Context, verb: &str) {
    let mut command = context.bowline([verb, "rope"]);
    assert!(command.env("XDG_STATE_HOME", context.path("state")).output().unwrap().status.success());
}

#[tokio::test]
async fn shell_completion_of_names_asks_no_server() {
    let context = Context::new();
    let server = script().run().await;
    context
        .user_config(&format!("[servers.rope]\nurl = '{}'\n[servers.other]\ncommand = 'x'\n", server.url()));
    assert_eq!(complete_line(&context, &["call", "ro"]), ["rope"]);
    assert_eq!(complete_line(&context, &["call", "rope", ""]), [""; 0], "nothing was seen yet");
    for verb in ["tools", "prompts", "resources", "templates"] {
        cache_list(&context, verb);
    }
    server.clear_received();
    // Names with characters that a shell would interpret are not offered.
    assert_eq!(complete_line(&context, &["call", "rope", ""]), ["search"]);
    assert_eq!(complete_line(&context, &["call", "rope", "search", "limit=5", ""]), ["deep=", "query="]);
    // One that begins with `-` is an option, other than after `--`.
    assert_eq!(complete_line(&context, &["call", "rope", "--", ""]), ["--trust-project"]);
    assert_eq!(complete_line(&context, &["tools", "rope", "--", "--t"]), ["--trust-project"]);
    assert_eq!(complete_line(&context, &["call", "rope", "search", "--", ""]), [""; 0]);
    // A value with a space would be two words for a shell.
    assert_eq!(
        complete_line(&context, &["call", "rope", "search", "query="]),
        ["query=bowline", "query=hitch"]
    );
    assert_eq!(complete_line(&context, &["call", "rope", "search", "query=h"]), ["query=hitch"]);
    // Booleans are completed as well; what follows `:=` is JSON.
    let flag = ["call", "rope", "search", "deep="];
    assert_eq!(complete_line(&context, &flag), ["deep=true", "deep=false"]);
    assert_eq!(complete_line(&context, &["call", "rope", "search", "deep:=t"]), ["deep:=true"]);
    assert_eq!(complete_line(&context, &["call", "rope", "search", "query:="]), [""; 0]);
    assert_eq!(complete_line(&context, &["call", "rope", "search", "deep:=true", "d"]), [""; 0]);
    assert_eq!(complete_line(&context, &["tools", "rope", "s"]), ["search"]);
    assert_eq!(complete_line(&context, &["prompt", "rope", ""]), ["visit"]);
    assert_eq!(complete_line(&context, &["prompt", "rope", "visit", "c"]), ["country=", "city="]);
    assert_eq!(complete_line(&context, &["read", "rope", ""]), ["file:///knots.txt"]);
    assert_eq!(complete_line(&context, &["call", "other", ""]), [""; 0]);
    assert_eq!(server.received().len(), 0);
}

// CP-03: a server that does not answer in time delays completion only briefly.
#[tokio::test]
async fn shell_completion_of_values_is_bounded_in_time() {
    let context = Context::new();
    let server = script().run().await;
    context.user_config(&format!("[servers.rope]\nurl = '{}'\n", server.url()));
    let given = ["prompt", "rope", "visit", "country=Norway", "city=O"];
    assert_eq!(complete_line(&context, &given), ["city=Oslo", "city=Odda"]);
    // A value with spaces would be several arguments.
    assert_eq!(complete_line(&context, &["prompt", "rope", "visit", "country=Ne"]), ["country=Nepal"]);
    server.arm(testkit::Fault::silent().on("completion/complete").always());
    let begun = std::time::Instant::now();
    assert_eq!(complete_line(&context, &given), [""; 0]);
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[cfg(unix)]
#[test]
fn a_server_of_a_project_is_named_and_not_started() {
    let context = Context::new();
    let mark = context.path("mark");
    context.project_config(&format!("[servers.theirs]\ncommand = 'touch'\nargs = [{}]\n", toml_path(&mark)));
    assert_eq!(complete_line(&context, &["prompt", "the"]), ["theirs"]);
    assert_eq!(complete_line(&context, &["prompt", "theirs", "visit", "city=O"]), [""; 0]);
    assert!(!mark.exists());
    // Precondition: once trusted, the server is started.
    context.trust_project();
    context.bowline(["__complete", "--", "prompt", "theirs", "visit", "city=O"]).output().unwrap();
    assert!(mark.exists());
}

/// A server `rope` whose lists were seen, and the variables of a shell that finds `bowline`.
#[cfg(unix)]
struct ShellSite {
    context: Context,
    path: String,
    /// The server of the entry, which runs as long as this.
    _server: testkit::HttpServer,
}

#[cfg(unix)]
impl ShellSite {
    async fn new() -> Self {
        let context = Context::new();
        let server = script().run().await;
        context.user_config(&format!("[servers.rope]\nurl = '{}'\n", server.url()));
        for verb in ["tools", "resources"] {
            cache_list(&context, verb);
        }
        context.write("project/below/note.json", "1");
        let binary = std::path::Path::new(env!("CARGO_BIN_EXE_bowline"));
        let folders = std::env::var("PATH").unwrap();
        let path = format!("{}:{folders}", binary.parent().unwrap().display());
        Self { context, path, _server: server }
    }

    /// Makes a command that runs a shell in the folder of the project.
    fn shell<const N: usize>(&self, program: &str, args: [&str; N]) -> Command {
        let mut shell = self.context.command(program);
        shell.args(args).env_clear().env("PATH", &self.path);
        shell.env("HOME", self.context.path("home")).env("XDG_STATE_HOME", self.context.path("state"));
        shell.current_dir(self.context.path("project"));
        shell
    }

    /// Runs a shell, and returns the lines it prints.
    fn lines<const N: usize>(&self, program: &str, args: [&str; N]) -> Vec<String> {
        let output = self.shell(program, args).output().expect("the shell starts");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Returns whether a shell is installed. With the variable, which is for CI, the test of one that is not fails.
#[cfg(unix)]
fn is_installed(shell: &str) -> bool {
    let is_installed = std::process::Command::new(shell).arg("--version").output().is_ok();
    let is_required = std::env::var_os("BOWLINE_REQUIRE_SHELLS").is_some();
    assert!(is_installed || !is_required, "{shell} is not installed: install the package `{shell}`");
    if !is_installed {
        eprintln!("not checked: {shell} is not installed");
    }
    is_installed
}

/// A real bash, which splits words at other characters than we do.
#[cfg(unix)]
#[tokio::test]
async fn bash_completes_words() {
    let site = ShellSite::new().await;
    let complete = |line: &str| {
        let script = "source <(bowline completions bash); COMP_LINE=$1; COMP_POINT=${#1}; _bowline; printf '%s\\n' \"${COMPREPLY[@]}\"";
        site.lines("bash", ["--norc", "-c", script, "bash", line])
    };
    assert_eq!(complete("bowline templ"), ["templates"]);
    assert_eq!(complete("bowline call rope se"), ["search"]);
    assert_eq!(complete("bowline call rope search q"), ["query="]);
    assert_eq!(complete("bowline call rope -- "), ["--trust-project"]);
    assert_eq!(complete("bowline tools --protocol=le"), ["legacy"]);
    assert_eq!(complete("bowline read rope file:///kn"), ["///knots.txt"]);
    // Bash cuts the word after `=` and before `@`.
    assert_eq!(complete("bowline call rope search limit=@be"), ["@below/"]);
    assert_eq!(complete("bowline call rope search limit:=@below/n"), ["@below/note.json"]);
}

/// A real bash at a terminal, which replaces only a part of the word.
#[cfg(unix)]
#[tokio::test]
async fn bash_keeps_the_rest_of_a_completed_word() {
    let site = ShellSite::new().await;
    site.context.write("home/.bashrc", "PS1='> '\nsource <(bowline completions bash)\n");
    let mut person = Person::sits_at(site.shell("bash", ["+m", "-i"]));
    person.sees("> ");
    for (line, completed) in [
        ("bowline call rope se", "bowline call rope search #"),
        ("bowline call rope search query=h", "bowline call rope search query=hitch #"),
        ("bowline call rope search limit=@be", "bowline call rope search limit=@below/#"),
        ("bowline call rope search limit=@./be", "bowline call rope search limit=@./below/#"),
        ("bowline call rope search limit:=@below/n", "bowline call rope search limit:=@below/note.json #"),
        ("bowline read rope file:///kn", "bowline read rope file:///knots.txt #"),
    ] {
        person.answers(&format!("{CLEAR}{line}\t#"), completed);
    }
    person.presses(&format!("{CLEAR}exit 0\r"));
    assert_eq!(person.leaves().code, 0);
}

/// A real zsh at a terminal. What is typed after the Tab shows whether a word was ended by a space.
#[cfg(unix)]
#[tokio::test]
async fn zsh_completes_words() {
    if !is_installed("zsh") {
        return;
    }
    let site = ShellSite::new().await;
    let start = "unsetopt prompt_sp\nPS1='> '\nautoload -Uz compinit\ncompinit -u -D\nsource <(bowline completions zsh)\n";
    site.context.write("home/.zshrc", start);
    // Without job control, for which the terminal would have to be that of its session.
    let mut person = Person::sits_at(site.shell("zsh", ["-d", "+m", "-i"]));
    person.sees(">");
    for (line, completed) in [
        ("bowline templ", "bowline templates #"),
        ("bowline call rope se", "bowline call rope search #"),
        ("bowline call rope search q", "bowline call rope search query=#"),
        ("bowline call rope search query=h", "bowline call rope search query=hitch #"),
        ("bowline call rope -- ", "bowline call rope -- --trust-project #"),
        ("bowline tools --protocol=le", "bowline tools --protocol=legacy #"),
        ("bowline read rope file:///kn", "bowline read rope file:///knots.txt #"),
        ("bowline call rope search limit=@be", "bowline call rope search limit=@below/#"),
        ("bowline call rope search limit:=@below/n", "bowline call rope search limit:=@below/note.json #"),
        // Files of the folder, where there is nothing of ours.
        ("bowline call rope search --file be", "bowline call rope search --file below/#"),
    ] {
        person.answers(&format!("{CLEAR}{line}\t#"), &format!("> {completed}"));
    }
    // Several candidates are listed with what they do.
    let list = person.answers(&format!("{CLEAR}bowline un\t"), "Stop trusting a project's configuration");
    assert!(list.contains("uninstall  -- Restore the configuration of a host"), "{list}");
    person.presses(&format!("{CLEAR}exit 0\r"));
    assert_eq!(person.leaves().code, 0);
}

/// A real fish, which says itself what it would offer, with descriptions.
#[cfg(unix)]
#[tokio::test]
async fn fish_completes_words() {
    if !is_installed("fish") {
        return;
    }
    let site = ShellSite::new().await;
    let complete = |line: &str| {
        let script = "source (bowline completions fish | psub); complete -C $argv[1]";
        site.lines("fish", ["--no-config", "-c", script, line])
    };
    assert_eq!(complete("bowline templ"), ["templates\tList the resource templates of a server"]);
    assert_eq!(complete("bowline call rope se"), ["search\tGives its arguments back"]);
    assert_eq!(complete("bowline call rope search q"), ["query="]);
    assert_eq!(complete("bowline call rope search query=h"), ["query=hitch"]);
    assert_eq!(complete("bowline call rope -- "), ["--trust-project\tGives its arguments back"]);
    assert_eq!(complete("bowline tools --protocol=le"), ["--protocol=legacy\tRevisions up to 2025-11-25"]);
    assert_eq!(complete("bowline read rope file:///kn"), ["file:///knots.txt\tknots.txt"]);
    assert_eq!(complete("bowline call rope search limit=@be"), ["limit=@below/"]);
    assert_eq!(complete("bowline call rope search limit:=@below/n"), ["limit:=@below/note.json"]);
    // Files of the folder, where there is nothing of ours.
    assert_eq!(complete("bowline call rope search --file be"), ["below/"]);
}
