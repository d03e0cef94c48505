use super::*;
use crate::keys::{self, KeyTable as _};
use crate::raw::{
    RawApp, RawAuth, RawHeadersCommand, RawHook, RawIdp, RawSampling, RawServer, RawTokenSource,
};

fn outline_of(text: &str) -> Outline {
    outline(&Source::new("bowline.toml", text))
}

fn outline_of_json(text: &str) -> Outline {
    outline(&Source::new(".mcp.json", text))
}

#[test]
fn outline_lists_everything_as_written() {
    let outline = outline_of(
        r#"
        [[hooks]]
        command = "tell"
        args = ["${WHAT}"]

        [sampling]
        base_url = "http://model/v1"
        key_env = "MODEL_KEY"

        [roots]
        folders = ["/", "~"]

        [servers.files]
        command = "${SHELL:-sh}"
        args = ["-c", "{file:run.sh}"]
        env = { LD_PRELOAD = "./x.so", T = "{env:TOKEN}" }
        cwd = "/tmp"
        roots = ["/srv"]

        [servers.far]
        url = "https://${HOST}/mcp"
        headers = { Authorization = "Bearer ${KEY}", X-Id = "1" }
        headers_command = ["printer", "-x"]
        ca_file = "ca.pem"
        auth = { grant = "workload", assertion = { file = "/run/token" }, issuer = "${ISSUER}" }

        [servers."not one"]
        command = "still-started"
    "#,
    );
    let names: Vec<&str> = outline.servers.iter().map(|server| &*server.name).collect();
    assert_eq!(names, ["files", "far"], "a name that no server can have is none");
    assert_eq!(outline.server("files").unwrap().command.as_deref(), Some("${SHELL:-sh}"));
    assert_eq!(outline.server("far").unwrap().url.as_deref(), Some("https://${HOST}/mcp"));
    let started: Vec<(&str, String)> =
        outline.programs.iter().map(|it| (&*it.key, it.words.join(" "))).collect();
    assert_eq!(
        started,
        [
            ("hooks[0]", "tell ${WHAT}".to_owned()),
            ("servers.files", "${SHELL:-sh} -c {file:run.sh}".to_owned()),
            ("servers.far.headers_command", "printer -x".to_owned()),
            ("servers.\"not one\"", "still-started".to_owned()),
        ]
    );
    let files = &outline.programs[1];
    assert_eq!(files.cwd.as_deref(), Some("/tmp"));
    let env = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(files.env, [env("LD_PRELOAD", "./x.so"), env("T", "{env:TOKEN}")]);
    let reached: Vec<(&str, &str, String)> =
        outline.endpoints.iter().map(|it| (&*it.key, &*it.url, it.headers.join(" "))).collect();
    assert_eq!(
        reached,
        [
            ("sampling.base_url", "http://model/v1", String::new()),
            ("servers.far.url", "https://${HOST}/mcp", "Authorization X-Id".to_owned()),
            ("servers.far.auth.issuer", "${ISSUER}", String::new()),
        ]
    );
    let variables: Vec<&str> = outline.variables.iter().map(String::as_str).collect();
    assert_eq!(variables, ["HOST", "ISSUER", "KEY", "MODEL_KEY", "SHELL", "TOKEN", "WHAT"]);
    let files: Vec<&str> = outline.files.iter().map(String::as_str).collect();
    assert_eq!(files, ["/run/token", "ca.pem", "run.sh"]);
    assert_eq!((outline.folders.join(" "), outline.problem), ("/ ~ /srv".to_owned(), None));
}

#[test]
fn outline_lists_every_permission() {
    let outline = outline_of(
        r#"
        [sampling]
        provider = "openai"
        base_url = "http://model/v1"
        model = "m"
        policy = "allow"
        tokens_per_hour = 1000000

        [elicitation]
        policy = "cancel"

        [auth]
        client_name = "Your bank"

        [servers.env]
        url = "http://h/mcp"
        allow_http = true
        sampling = "allow"
        ca_file = "ca.pem"
        timeout = 5
        env = { sampling = "a variable" }
        headers = { policy = "a header" }
        auth = { scope = ["a", "b"], dpop = false, client_secret = "s3cret", authorize_params = { prompt = "none", type = "t", args = "a" } }
    "#,
    );
    let told: Vec<(&str, &str)> =
        outline.settings.iter().map(|it| (it.key.as_str(), it.value.as_str())).collect();
    assert_eq!(
        told,
        [
            ("sampling.provider", "openai"),
            ("sampling.model", "m"),
            ("sampling.policy", "allow"),
            ("sampling.tokens_per_hour", "1000000"),
            ("elicitation.policy", "cancel"),
            ("auth.client_name", "Your bank"),
            ("servers.env.allow_http", "true"),
            ("servers.env.sampling", "allow"),
            ("servers.env.ca_file", "ca.pem"),
            ("servers.env.auth.scope", "a, b"),
            ("servers.env.auth.dpop", "false"),
            ("servers.env.auth.authorize_params.prompt", "none"),
            ("servers.env.auth.authorize_params.type", "t"),
            ("servers.env.auth.authorize_params.args", "a"),
        ]
    );
}

/// No table hides a key that may widen something: only the listed ones are left out.
#[test]
fn only_listed_keys_are_omitted() {
    let programs_and_urls = ["command", "args", "env", "headers", "headers_command", "roots"];
    let told = |key: &str| {
        [&ENDPOINT_KEYS[..], &LOGIN_URL_KEYS[..], &programs_and_urls[..]]
            .iter()
            .any(|keys| keys.contains(&key))
    };
    let tables: [(&str, &[keys::Key]); 5] = [
        ("servers.a", RawServer::KEYS),
        ("servers.a.auth", RawAuth::KEYS),
        ("servers.a.auth.idp", RawIdp::KEYS),
        ("sampling", RawSampling::KEYS),
        ("auth", RawApp::KEYS),
    ];
    for (table, keys) in tables {
        let names = keys.iter().map(|key| key.name);
        for key in names.filter(|key| !told(key) && !OMITTED_KEYS.contains(key)) {
            let outline = outline_of(&format!("[{table}]\n{key} = 'x'\n"));
            assert_eq!(outline.settings.len(), 1, "{table}.{key}");
        }
    }
}

/// A new key is shown without a change here.
#[test]
fn no_key_hides_a_placeholder() {
    let tables: [(&str, &[keys::Key]); 8] = [
        ("servers.a", RawServer::KEYS),
        ("servers.a.hooks", RawHook::KEYS),
        ("servers.a.auth", RawAuth::KEYS),
        ("servers.a.auth.assertion", RawTokenSource::KEYS),
        ("servers.a.auth.idp", RawIdp::KEYS),
        ("servers.a.headers_command", RawHeadersCommand::KEYS),
        ("sampling", RawSampling::KEYS),
        ("auth", RawApp::KEYS),
    ];
    for (table, keys) in tables {
        for key in keys.iter().map(|key| key.name) {
            for value in ["'${SECRET}'", "['${SECRET}']", "{ x = '${SECRET}' }", "[{ x = ['${SECRET}'] }]"] {
                let outline = outline_of(&format!("[{table}]\n{key} = {value}\n"));
                assert!(outline.variables.contains("SECRET"), "{table}.{key} = {value}");
            }
        }
    }
}

#[test]
fn a_text_that_cannot_be_read_is_a_problem_and_nothing_else() {
    let outline = outline_of("[servers.a]\ncommand = 'x'\n[[[");
    assert!(outline.problem.is_some() && outline.servers.is_empty() && outline.programs.is_empty());
    assert_eq!(outline_of("servers = 7\nhooks = 'x'"), Outline::default());
}

/// Each way in which a host's file can name a program.
#[test]
fn every_spelling_of_a_program_is_listed() {
    for (fields, key, words) in [
        (r#""command": "tool", "args": ["a b"]"#, "", &["tool", "a b"][..]),
        (r#""command": "tool", "args": ["-p", 8080, true]"#, "", &["tool", "-p", "8080", "true"]),
        (r#""command": 7, "args": null"#, "", &["7"]),
        (r#""url": "u", "headers_command": "tool""#, ".headers_command", &["tool"]),
        (r#""url": "u", "headers_command": ["tool", 1]"#, ".headers_command", &["tool", "1"]),
        (r#""url": "u", "headers_command": {"command": "tool"}"#, ".headers_command", &["tool"]),
        (r#""url": "u", "headersCommand": "tool""#, ".headersCommand", &["tool"]),
        (r#""url": "u", "headersCommand": ["tool", "a"]"#, ".headersCommand", &["tool", "a"]),
        (
            r#""url": "u", "headersCommand": {"command": ["tool"], "args": [1]}"#,
            ".headersCommand",
            &["tool", "1"],
        ),
        (r#""url": "u", "headersHelper": "tool 'a b'""#, ".headersHelper", &["tool", "a b"]),
        (r#""url": "u", "headersHelper": "a | b""#, ".headersHelper", &["sh", "-c", "a | b"]),
        (r#""url": "u", "headers\u0048elper": "tool""#, ".headersHelper", &["tool"]),
        (r#""url": "u", "auth": {"assertion": {"command": "tool"}}"#, ".auth.assertion", &["tool"]),
        (
            r#""url": "u", "oauth": {"assertion": {"command": ["tool", 1]}}"#,
            ".oauth.assertion",
            &["tool", "1"],
        ),
        (
            r#""url": "u", "oauth": {"idp": {"id_token": {"command": ["tool", "a"]}}}"#,
            ".oauth.idp.id_token",
            &["tool", "a"],
        ),
        // No entry means this, but it is better to show too much.
        (r#""command": ["tool", "a"]"#, "", &["tool", "a"]),
        (r#""hooks": [{"command": "tool"}]"#, ".hooks[0]", &["tool"]),
    ] {
        for table in ["mcpServers", "servers"] {
            let outline = outline_of_json(&format!(r#"{{"{table}": {{"a": {{{fields}}}}}}}"#));
            let key = format!("{table}.a{key}");
            let words = words.iter().map(ToString::to_string).collect();
            let program = ProgramOutline { key, words, env: vec![], cwd: None };
            assert_eq!(outline.programs, [program], "{fields}");
            assert!(outline.settings.is_empty(), "{fields}");
        }
    }
}

#[test]
fn a_program_of_a_host_is_listed_with_its_variables() {
    let outline = outline_of_json(
        r#"{"mcpServers": {
            "a": {"command": "tool", "env": {"PORT": 8080, "DEBUG": true}, "cwd": "/tmp"},
            "b": {"url": "u", "headersCommand": {"command": "tool", "env": {"N": 1}, "cwd": "/srv"}}
        }}"#,
    );
    let started: Vec<(&str, Vec<&str>, Option<&str>)> = outline
        .programs
        .iter()
        .map(|it| (&*it.key, it.env.iter().map(|(_, value)| value.as_str()).collect(), it.cwd.as_deref()))
        .collect();
    assert_eq!(
        started,
        [
            ("mcpServers.a", vec!["8080", "true"], Some("/tmp")),
            ("mcpServers.b.headersCommand", vec!["1"], Some("/srv")),
        ]
    );
}

/// An entry with two values for one key is not used, but neither value may be hidden.
#[test]
fn programs_of_repeated_keys_are_all_listed() {
    let outline = outline_of_json(
        r#"{"mcpServers": {"a": {"command": "one"}, "a": {"command": "two"}},
            "servers": {"a": {"command": "three"}}, "mcpServers": {"b": {"command": "four"}}}"#,
    );
    let started: Vec<String> = outline.programs.iter().map(|it| it.words.join(" ")).collect();
    assert_eq!(started, ["one", "two", "three", "four"]);
}

#[test]
fn variables_that_a_host_names_as_headers_are_listed() {
    let outline = outline_of_json(
        r#"{"mcpServers": {
            "a": {"url": "u", "bearer_token_env_var": "FIRST"},
            "b": {"serverUrl": "v", "headers": {"X": "${SECOND}"}, "env_http_headers": {"Y": "THIRD"}}
        }}"#,
    );
    let variables: Vec<&str> = outline.variables.iter().map(String::as_str).collect();
    assert_eq!(variables, ["FIRST", "SECOND", "THIRD"]);
    let reached: Vec<(&str, String)> =
        outline.endpoints.iter().map(|it| (&*it.url, it.headers.join(" "))).collect();
    assert_eq!(reached, [("u", "Authorization".to_owned()), ("v", "X Y".to_owned())]);
    assert_eq!(outline.server("b").unwrap().url.as_deref(), Some("v"));
}

#[test]
fn spellings_of_login_keys_are_understood() {
    let outline = outline_of_json(
        r#"{"mcpServers": {"a": {"url": "u", "oauth": {
            "clientId": "me", "clientSecret": "s3cret", "callbackUrl": "${BACK}",
            "authorize_params": {"type": "t"}}}}}"#,
    );
    let told: Vec<(&str, &str)> = outline.settings.iter().map(|it| (&*it.key, &*it.value)).collect();
    assert_eq!(
        told,
        [("mcpServers.a.oauth.clientId", "me"), ("mcpServers.a.oauth.authorize_params.type", "t")]
    );
    let reached: Vec<&str> = outline.endpoints.iter().map(|it| &*it.url).collect();
    assert_eq!(reached, ["u", "${BACK}"]);
}
