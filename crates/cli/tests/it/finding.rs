//! `bowline tools` without a server and for one tool, and `bowline search`.

use bowline::negotiation::ServerKey;
use bowline::{Json, Server};
use bowline_gateway::{CatalogCache as _, CatalogKey, FolderCatalog, ListKind, Profile, ServerLists};
use bowline_testkit::{self as testkit, StdioCommand, Tool};
use serde_json::{Value, json};

use crate::context::{Context, snapshot};
use crate::serve::CATALOG;
use crate::status::http_entry;

fn search_tool() -> Tool {
    Tool::named("search_notes")
        .member("title", json!("Search"))
        .member("description", json!("Finds notes by their words.\n\nThe rest is for models."))
        .member(
            "inputSchema",
            json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to look for", "minLength": 2},
                    "mode": {"enum": ["exact", "fuzzy"], "default": "fuzzy"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["query"],
            }),
        )
        .member(
            "outputSchema",
            json!({"type": "object", "properties": {"hits": {"type": "integer", "description": "How many"}}}),
        )
        .read_only()
}

#[tokio::test]
async fn one_tool_in_full() {
    let context = Context::new();
    let server = testkit::server().tool(search_tool()).tool("echo").run().await;
    context.user_config(&http_entry("notes", &server));
    snapshot!(context.run(context.bowline(["tools", "notes", "search_notes"])), @"
    exit: 0
    --- stdout
    search_notes  Search  read-only
      Finds notes by their words.

      The rest is for models.

    Parameters
      query=<text>      required, at least 2 characters · What to look for
      mode=exact|fuzzy  default fuzzy
      tags=<text>...

    Result
      hits=<integer>  How many

    Example
      bowline call notes search_notes query=text
    --- stderr
    ---
    ");
    // The example fits, so the server gets it.
    let called = context.run(context.bowline(["call", "notes", "search_notes", "query=text"]));
    assert!(called.contains("\n{\"query\":\"text\"}\n"), "{called}");
    snapshot!(context.run(context.bowline(["tools", "notes", "serch_notes"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: `notes` has no tool named `serch_notes`

    hint: did you mean `search_notes`?
    ---
    ");
    let output = context.bowline(["tools", "--json", "notes", "search_notes"]).output().unwrap();
    let tool: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&tool["name"], &tool["title"]), (&json!("search_notes"), &json!("Search")));
}

/// A list shows the first values of a long enumeration, and the page of the tool all of them.
#[tokio::test]
async fn the_page_of_a_tool_has_all_values_of_an_enumeration() {
    let context = Context::new();
    let values: Vec<_> = (1..=12).map(|month| format!("month-{month}")).collect();
    let schema = json!({ "type": "object", "properties": { "month": { "enum": values } } });
    let server = testkit::server().tool(Tool::named("tides").schema(schema)).run().await;
    context.user_config(&http_entry("sea", &server));
    let shown = |words: &[&str]| {
        let output = context.bowline(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let first = format!("month={}|…", values[..8].join("|"));
    assert!(shown(&["tools", "sea"]).contains(&first));
    let page = shown(&["tools", "sea", "tides"]);
    assert!(page.contains(&first) && page.contains(&format!("one of {}", values.join(", "))), "{page}");
}

#[tokio::test]
async fn a_tool_of_a_command() {
    let context = Context::new();
    let server = testkit::server().tool(search_tool()).stdio().await;
    let shown = context.run(context.bowline_with(&["tools", "search_notes"], &server.command()));
    assert!(shown.contains("  bowline call search_notes query=text -- COMMAND\n"), "{shown}");
}

/// Returns the example of a tool's page, without the indent.
fn example(context: &Context, server: &str, tool: &str) -> String {
    let output = context.bowline(["tools", server, tool]).output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    page.split_once("\nExample\n").unwrap_or_else(|| panic!("{page}")).1.trim().to_owned()
}

/// A server chooses the names and values of an example. Pasted into a shell, it sends those and nothing else.
#[cfg(unix)]
#[tokio::test]
async fn an_example_of_a_hostile_server_is_safe_to_paste() {
    let context = Context::new();
    std::fs::write(context.path("secret"), "TOPSECRET").unwrap();
    let secret = format!("@{}", context.path("secret").display());
    let evil = context.path("evil.toml").display().to_string();
    let tools = [
        ("default", "q", json!({"type": "string", "default": secret}), format!(r#"'q:="{secret}"'"#)),
        ("examples", "q", json!({"type": "string", "examples": [secret]}), format!(r#"'q:="{secret}"'"#)),
        ("stdin", "q", json!({"enum": ["@-"]}), r#"'q:="@-"'"#.to_owned()),
        ("list", "q", json!({"type": "array", "default": [secret]}), format!(r#"'q:=["{secret}"]'"#)),
        ("config", "--config", json!({"const": evil}), format!(r#"--args '{{"--config":"{evil}"}}'"#)),
        ("save", "--save", json!({"const": evil}), format!(r#"--args '{{"--save":"{evil}"}}'"#)),
        ("json", "--json", json!({"type": "string"}), r#"--args '{"--json":"text"}'"#.to_owned()),
        ("short", "-v", json!({"type": "string"}), r#"--args '{"-v":"text"}'"#.to_owned()),
        ("dash", "-", json!({"type": "string"}), r#"--args '{"-":"text"}'"#.to_owned()),
        ("colon", "a:", json!({"type": "string"}), r#"--args '{"a:":"text"}'"#.to_owned()),
        ("equals", "a=b", json!({"type": "string"}), r#"--args '{"a=b":"text"}'"#.to_owned()),
        ("nameless", "", json!({"type": "string"}), r#"--args '{"":"text"}'"#.to_owned()),
        ("red", "\u{1b}[31m", json!({"const": "\n'"}), r#"--args '{"\u001b[31m":"\n\u0027"}'"#.to_owned()),
        ("quote", "q", json!({"const": "'; touch x; '"}), r"'q='\''; touch x; '\'''".to_owned()),
    ];
    let schema = |name: &str, property: &Value| json!({"type": "object", "properties": {name: property}, "required": [name]});
    let mut script = testkit::server();
    for (tool, name, property, _) in &tools {
        script = script.tool(Tool::named(tool).schema(schema(name, property)));
    }
    let server = script.run().await;
    context.user_config(&http_entry("gh", &server));
    for (tool, name, property, arguments) in &tools {
        let command = example(&context, "gh", tool);
        assert_eq!(command, format!("bowline call gh {tool} {arguments}"));
        let line = command.replacen("bowline", "\"$0\"", 1);
        let mut shell = context.bowline([""; 0]).run_by("sh", ["-c", &line]);
        let value = ["const", "default"].iter().find_map(|keyword| property.get(keyword).cloned());
        let first = ["enum", "examples"].iter().find_map(|keyword| Some(property.get(keyword)?[0].clone()));
        let sent = json!({ *name: value.or(first).unwrap_or(json!("text")) });
        let shown = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        assert_eq!(shown, format!("{sent}\n"), "{command}");
    }
}

#[tokio::test]
async fn a_tool_that_no_command_can_name_has_no_example() {
    let context = Context::new();
    let names = ["a=b", "=ls", "key:=x", "\u{1b}[31m"];
    let script = names.iter().fold(testkit::server(), |script, name| script.tool(Tool::named(name)));
    let server = script.run().await;
    context.user_config(&http_entry("odd", &server));
    let example = |tool: &str| example(&context, "odd", tool);
    let why = |why: &str| format!("no command is shown: the name of the tool {why}");
    for tool in ["a=b", "=ls", "key:=x"] {
        assert_eq!(example(tool), why("contains `=`, like an argument"), "{tool}");
    }
    assert_eq!(example("\u{1b}[31m"), why("has control characters or invisible ones"));
}

/// The example of such a tool can be pasted, and the name is read from nothing but the place after `--`.
#[cfg(unix)]
#[tokio::test]
async fn a_tool_whose_name_begins_with_a_hyphen_is_shown() {
    let context = Context::new();
    let names = ["-x", "--help", "--", "-"];
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    let tool = |name: &str| Tool::named(name).schema(schema.clone());
    let script = names.iter().fold(testkit::server(), |script, name| script.tool(tool(name)));
    let (server, started) = (script.clone().run().await, script.stdio().await);
    context.user_config(&http_entry("odd", &server));
    for name in names {
        let page = context.run(context.bowline(["tools", "odd", "--", name]));
        assert!(page.starts_with(&format!("exit: 0\n--- stdout\n{name}\n")), "{page}");
        let command = format!("bowline call odd -- {name} a=1");
        assert!(page.contains(&format!("\nExample\n  {command}\n")), "{page}");
        let line = command.replacen("bowline", "\"$0\"", 1);
        let called = context.run(context.shell(&line));
        assert_eq!(called, "exit: 0\n--- stdout\n{\"a\":1}\n--- stderr\n---", "{name}");
        assert_eq!(server.executions(name), 1);
        // Of a server that is started, the command comes after another `--`.
        let StdioCommand { program, args, env, .. } = started.command();
        let mut words = vec!["tools".to_owned()];
        words.extend(env.iter().flat_map(|(key, value)| ["-e".to_owned(), format!("{key}={value}")]));
        words.extend(["--", name, "--"].map(String::from));
        words.push(program.display().to_string());
        let page = context.run(context.bowline(words.into_iter().chain(args)));
        assert!(page.contains(&format!("\nExample\n  bowline call -- {name} a=1 -- COMMAND\n")), "{page}");
    }
}

/// The others are remembered, and must not wait for it each time.
#[tokio::test]
async fn a_server_that_has_just_not_answered_is_not_asked_again() {
    let context = Context::new();
    let math = testkit::server().tool("add").run().await;
    let slow = testkit::server().tool("echo").run().await;
    context.user_config(&[http_entry("math", &math), http_entry("slow", &slow)].concat());
    let key = ServerKey::from_server(&Server::http("slow", slow.url()).build().unwrap());
    std::fs::create_dir_all(context.path(CATALOG)).unwrap();
    std::fs::write(context.path(CATALOG).join(format!("{key}.timeout")), "").unwrap();
    for words in [&["search", "add"][..], &["tools"]] {
        let shown = context.run(context.bowline(words));
        assert!(shown.starts_with("exit: 3\n") && shown.contains("math\tadd\t"), "{shown}");
        assert!(
            shown.contains(
                "note: `slow` could not be asked: it gave no answer within 20.00 s when it was last asked, "
            ),
            "{shown}"
        );
        assert!(shown.contains(" ago; `--refresh` asks it again\n"), "{shown}");
    }
    assert_eq!(slow.count("tools/list"), 0);
    let shown = context.run(context.bowline(["search", "--refresh", "echo"]));
    assert!(shown.starts_with("exit: 0\n") && shown.contains("slow\techo"), "{shown}");
    assert_eq!(slow.count("tools/list"), 1);
}

/// Servers are asked once. After that their lists are shown without them.
#[tokio::test]
async fn the_tools_of_all_servers() {
    let context = Context::new();
    let notes = testkit::server().tool(search_tool()).run().await;
    let math = testkit::server().tool("add").run().await;
    let none = testkit::server().prompt("greet", "Hello").run().await;
    let entries = [http_entry("notes", &notes), http_entry("math", &math), http_entry("none", &none)];
    context.user_config(&entries.concat());
    let listed = "\
    math\tadd\t\tAdds a and b\ta=<number> b=<number>\n\
    notes\tsearch_notes\tread-only\tFinds notes by their words.\\n\\nThe rest is for models.\t\
    query=<text> [mode=exact|fuzzy] [tags=<text>...]\n";
    let shown = |words: &[&str]| {
        let output = context.bowline(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let first = shown(&["tools"]);
    assert_eq!((first.0, &*first.1, &*first.2), (Some(0), listed, "note: `none` offers no tools\n"));
    assert_eq!([&notes, &math].map(|server| server.count("tools/list")), [1, 1]);
    assert_eq!(shown(&["tools"]), first);
    assert_eq!([&notes, &math].map(|server| server.count("tools/list")), [1, 1], "they are remembered");
    math.stop().await;
    assert_eq!(shown(&["tools"]), first);
    let (code, text, notes_on_stderr) = shown(&["tools", "--refresh"]);
    assert_eq!((code, &*text), (Some(3), listed));
    assert!(notes_on_stderr.contains("note: `math` could not be asked: "), "{notes_on_stderr}");
    assert!(notes_on_stderr.contains("this is what it listed 0s ago"), "{notes_on_stderr}");
    assert_eq!(notes.count("tools/list"), 2);
    let (_, text, _) = shown(&["tools", "--json"]);
    let all: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<_> = all["servers"].as_array().unwrap().iter().map(|one| &one["server"]).collect();
    assert_eq!(names, ["math", "none", "notes"]);
    assert_eq!(all["servers"][0]["tools"][0]["name"], "add");
    assert!(all["servers"][0]["fetched"].is_string() && all["servers"][0]["error"].is_null());
}

#[tokio::test]
async fn a_server_that_was_never_reached_is_named() {
    let context = Context::new();
    let math = testkit::server().tool("add").run().await;
    let gone = testkit::server().tool("echo").run().await;
    context.user_config(&[http_entry("gone", &gone), http_entry("math", &math)].concat());
    gone.stop().await;
    let shown = context.run(context.bowline(["tools"]));
    assert!(shown.starts_with("exit: 3\n"), "{shown}");
    assert!(shown.contains("math\tadd\t"), "{shown}");
    assert!(shown.contains("note: `gone` could not be asked: "), "{shown}");
}

/// Nothing is said of what a server offers that could not be asked.
#[tokio::test]
async fn a_search_says_which_servers_could_not_be_asked() {
    let context = Context::new();
    let math = testkit::server().tool("add").run().await;
    let gone = testkit::server().tool("echo").run().await;
    context.user_config(&http_entry("gone", &gone));
    gone.stop().await;
    let shown = context.run(context.bowline(["search", "add"]));
    assert!(shown.starts_with("exit: 3\n"), "{shown}");
    assert!(shown.contains("note: `gone` could not be asked: "), "{shown}");
    assert!(!shown.contains("nothing offered"), "{shown}");
    context.user_config(&[http_entry("gone", &gone), http_entry("math", &math)].concat());
    let shown = context.run(context.bowline(["search", "xyzzy"]));
    assert!(shown.contains("note: nothing offered by 1 server matches `xyzzy`"), "{shown}");
    let output = context.bowline(["search", "--json", "add"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["found"], &found["errors"][0]["server"]), (&json!(1), &json!("gone")), "{found}");
    assert!(found["errors"][0]["error"].as_str().unwrap().contains("refused"), "{found}");
}

/// `bowline serve` saves what it has of a server of which one list could not be fetched.
#[tokio::test]
async fn a_list_that_was_never_fetched_is_not_taken_for_an_empty_one() {
    let context = Context::new();
    let math = testkit::server().tool("add").prompt("greet", "Hello").run().await;
    context.user_config(&http_entry("math", &math));
    let server = ServerKey::from_server(&Server::http("math", math.url()).build().unwrap());
    let prompt = Json::parse(r#"{"name":"greet"}"#).unwrap();
    let mut lists = ServerLists { prompts: vec![prompt], ..ServerLists::default() };
    lists.unfetched = vec![ListKind::Tools, ListKind::Resources];
    lists.capabilities = Some(Json::parse(r#"{"tools":{},"prompts":{}}"#).unwrap());
    // The daemon saves them after the command has.
    let save_partial = || {
        let catalog = FolderCatalog::new(context.path(CATALOG));
        catalog.save(&CatalogKey { server, profile: Profile::default() }, &lists);
    };
    let json = |words: &[&str]| {
        let output = context.bowline(words).output().unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), value)
    };
    save_partial();
    assert_eq!(json(&["list", "--json"]).1["servers"][0]["tools"], Value::Null);
    let (code, all) = json(&["tools", "--json"]);
    assert_eq!((code, &all["servers"][0]["tools"][0]["name"]), (Some(0), &json!("add")), "{all}");
    assert_eq!(math.count("tools/list"), 1);
    // What a command has fetched before is complete.
    save_partial();
    assert_eq!(json(&["list", "--json"]).1["servers"][0]["tools"], json!(1));
    for words in [&["tools"][..], &["search", "add"]] {
        let shown = context.run(context.bowline(words));
        assert!(shown.starts_with("exit: 0\n") && shown.contains("add"), "{shown}");
    }
    assert_eq!(math.count("tools/list"), 1);
    // Of a server that cannot be asked, what is known is not all.
    std::fs::remove_dir_all(context.path(CATALOG)).unwrap();
    save_partial();
    math.stop().await;
    let (code, all) = json(&["tools", "--json"]);
    assert_eq!((code, &all["servers"][0]["tools"]), (Some(3), &json!([])), "{all}");
    assert!(all["servers"][0]["error"].is_string() && all["servers"][0]["fetched"].is_null(), "{all}");
    let (code, found) = json(&["search", "--json", "greet"]);
    assert_eq!((code, &found["results"][0]["name"]), (Some(3), &json!("greet")), "{found}");
    assert_eq!(found["errors"][0]["server"], "math", "{found}");
}

#[tokio::test]
async fn options_of_one_connection_need_a_server() {
    let context = Context::new();
    snapshot!(context.run(context.bowline(["tools", "-H", "a: b"])), @"
    exit: 2
    --- stdout
    --- stderr
    error: SERVER is missing: connection options apply to one server

    hint: write `bowline tools SERVER`
    ---
    ");
}

#[tokio::test]
async fn search_ranks_what_all_servers_offer() {
    let context = Context::new();
    let notes = testkit::server()
        .tool(search_tool())
        .tool(Tool::named("delete").member("description", json!("Deletes a note")))
        .resource("file:///notes.txt", "remember")
        .run()
        .await;
    let math = testkit::server().tool("add").prompt("greet", "Hello {name}").run().await;
    context.user_config(&[http_entry("notes", &notes), http_entry("math", &math)].concat());
    let found = |words: &[&str]| {
        let output = context.bowline(["search", "--json"].iter().chain(words)).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let results = found["results"].as_array().unwrap().clone();
        let name = |result: &Value| format!("{} {}", result["kind"], result["name"]).replace('"', "");
        (found["found"].as_u64().unwrap(), results.iter().map(name).collect::<Vec<_>>())
    };
    assert_eq!(found(&["search"]).1, ["tool search_notes"]);
    let (count, names) = found(&["searching", "notes"]);
    assert_eq!((count, &*names[0]), (3, "tool search_notes"));
    assert!(names.contains(&"resource file:///notes.txt".to_owned()), "{names:?}");
    assert_eq!(found(&["--limit", "1", "notes"]).1.len(), 1);
    math.stop().await;
    assert_eq!(found(&["gret"]), (1, vec!["prompt greet".to_owned()]), "misspelled, and the server is down");
    snapshot!(context.run(context.bowline(["search", "add"])), @"
    exit: 0
    --- stdout
    tool	math	add	Adds a and b
    --- stderr
    ---
    ");
    snapshot!(context.run(context.bowline(["search", "xyzzy"])), @"
    exit: 0
    --- stdout
    --- stderr
    note: nothing offered by 2 servers matches `xyzzy`; `--refresh` asks them what they offer now
    ---
    ");
}

/// A command that lists the tools of a server leaves its prompts to be found.
#[tokio::test]
async fn a_search_finds_prompts_of_a_server_whose_tools_were_listed() {
    let context = Context::new();
    let server = testkit::server().tool("add").prompt("greet", "Hello {name}").run().await;
    context.user_config(&http_entry("math", &server));
    assert!(context.bowline(["tools", "math"]).output().unwrap().status.success());
    let found = |word: &str| {
        let output = context.bowline(["search", word]).output().unwrap();
        let line = String::from_utf8(output.stdout).unwrap();
        line.trim_end().split('\t').take(3).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(found("greet"), ["prompt", "math", "greet"]);
    // From now on the tools are kept up to date beside the prompts.
    server.edit(|script| script.tool("subtract"));
    assert!(context.bowline(["tools", "math"]).output().unwrap().status.success());
    server.stop().await;
    assert_eq!(found("subtract"), ["tool", "math", "subtract"]);
    assert_eq!(found("greet"), ["prompt", "math", "greet"]);
}

/// What a search needs of the lists is kept beside them, and made anew when they change or it is damaged.
#[tokio::test]
async fn a_search_is_of_what_was_listed_last() {
    let context = Context::new();
    let server = testkit::server().tool("first").run().await;
    context.user_config(&http_entry("one", &server));
    let found = |word: &str| {
        let output = context.bowline(["search", word]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        output.stdout.split(|byte| *byte == b'\n').count() - 1
    };
    let kept = || -> Vec<_> {
        let files = std::fs::read_dir(context.path(CATALOG)).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "search")).collect()
    };
    assert_eq!((found("first"), kept().len()), (1, 0), "it was asked just now");
    assert_eq!((found("first"), kept().len()), (1, 1));
    server.edit(|script| script.without_tool("first").tool("second"));
    assert_eq!((found("first"), found("second")), (1, 0));
    assert!(context.bowline(["tools", "--refresh"]).output().unwrap().status.success());
    assert_eq!((found("first"), found("second"), kept().len()), (0, 1, 1));
    let whole = std::fs::read(&kept()[0]).unwrap();
    let mut zeros = whole.clone();
    let end = zeros.len();
    zeros[end - 40..end - 1].fill(0);
    for damage in [b"".to_vec(), b"{".to_vec(), b"{}\n\n\n".to_vec(), zeros] {
        std::fs::write(&kept()[0], &damage).unwrap();
        assert_eq!((found("first"), found("second")), (0, 1), "{damage:?}");
        assert_eq!((found("second"), std::fs::read(&kept()[0]).unwrap() == whole), (1, true), "{damage:?}");
    }
    assert_eq!(server.count("tools/list"), 2);
}
