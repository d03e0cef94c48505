//! `bowline add` with a name in a registry.

use bowline_testkit::{self as testkit, RegistryAnswer, ScriptedRegistry};
use serde_json::{Value, json};

use crate::context::{Command, Context, snapshot};
use crate::entries::config;

/// A home and a registry.
pub(crate) struct RegistrySite {
    pub(crate) context: Context,
    pub(crate) registry: ScriptedRegistry,
}

impl RegistrySite {
    pub(crate) async fn new() -> Self {
        Self { context: Context::new(), registry: ScriptedRegistry::start().await }
    }

    /// Publishes a version of `io.github.knots/notes` with these members.
    pub(crate) fn publish(&self, version: &str, members: Value) {
        let mut server =
            json!({ "name": "io.github.knots/notes", "version": version, "description": "Keeps notes" });
        for (key, value) in members.as_object().unwrap() {
            server[key] = value.clone();
        }
        self.registry.publish(&server);
    }

    /// Makes `bowline add`, with this registry.
    pub(crate) fn add(&self, words: &[&str]) -> Command {
        let mut command = self.context.bowline([&["add"], words].concat());
        command.env("BOWLINE_REGISTRY", self.registry.url());
        command
    }

    fn run(&self, words: &[&str]) -> String {
        self.context.run(self.add(words))
    }

    /// Puts a program on the PATH that notes its arguments and the variable `API_KEY`, and then is `server`.
    #[cfg(unix)]
    pub(crate) fn install(&self, name: &str, server: &testkit::StdioCommand) -> std::ffi::OsString {
        use std::fmt::Write as _;
        std::fs::create_dir_all(self.context.path("bin")).unwrap();
        let mut script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" \"API_KEY=$API_KEY\" > '{}'\n",
            self.context.path("started").display()
        );
        for (key, value) in &server.env {
            writeln!(script, "export {key}='{value}'").unwrap();
        }
        writeln!(script, "exec '{}' {}", server.program.display(), server.args.join(" ")).unwrap();
        self.context.write(&format!("bin/{name}"), script);
        self.context.set_mode(&format!("bin/{name}"), 0o755);
        let mut path = self.context.path("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path
    }

    /// The lines that the installed program noted, if it was started.
    #[cfg(unix)]
    pub(crate) fn started(&self) -> Option<String> {
        std::fs::read_to_string(self.context.path("started")).ok()
    }
}

/// A package of npm, with these members.
pub(crate) fn npm(members: Value) -> Value {
    let mut package = json!({
        "registryType": "npm", "identifier": "@knots/notes", "version": "1.2.0", "transport": { "type": "stdio" },
    });
    for (key, value) in members.as_object().unwrap() {
        package[key] = value.clone();
    }
    package
}

#[tokio::test]
async fn a_remote_of_the_registry_is_added() {
    let site = RegistrySite::new().await;
    let server = testkit::server().legacy().tool("echo").run().await;
    let url = server.url();
    site.publish(
        "1.0.0",
        json!({ "remotes": [{ "type": "streamable-http", "url": "http://127.0.0.1:9/old" }] }),
    );
    let remotes = json!([
        { "type": "sse", "url": "http://127.0.0.1:9/sse" },
        { "type": "streamable-http", "url": url, "headers": [
            { "name": "X-Key", "value": "key {token}", "isRequired": true, "variables": { "token": { "isSecret": true } } },
            { "name": "X-Region", "default": "eu" },
            { "name": "X-Trace" },
        ] },
    ]);
    site.publish("1.1.0", json!({ "remotes": remotes, "packages": [npm(json!({}))] }));
    snapshot!(site.run(&["io.github.knots/notes", "--arg", "token=${HOME}"]), @"
    exit: 0
    --- stdout
    testkit 1.0.0, http, 2025-11-25 (legacy)
    1 tool
    --- stderr
    note: io.github.knots/notes 1.1.0: Keeps notes
    note: it can be used in several ways; --remote and --package choose another one
    note: using http://127.0.0.1:[PORT]/mcp (runs elsewhere, Streamable HTTP)
    note: it also takes -H 'X-Trace: VALUE'
    note: added `notes` to [TMP]/home/.config/bowline/config.toml; see `bowline tools notes`
    ---
    ");
    let entry = format!(
        "[servers.notes]\nurl = \"{url}\"\nheaders = {{ X-Key = \"key ${{HOME}}\", X-Region = \"eu\" }}\n"
    );
    assert_eq!(config(&site.context).unwrap(), entry);
    assert_eq!(site.registry.requests(), ["/v0.1/servers/io.github.knots%2Fnotes/versions/latest"]);
    let old = site.run(&["old", "io.github.knots/notes@1.0.0", "--no-check"]);
    assert!(old.starts_with("exit: 0\n"), "{old}");
    assert!(config(&site.context).unwrap().ends_with("\n[servers.old]\nurl = \"http://127.0.0.1:9/old\"\n"));
}

/// SE-04: the whole command of a package is shown before anything is started.
#[cfg(unix)]
#[tokio::test]
async fn se_04_a_package_of_the_registry_is_shown_whole_and_approved() {
    let site = RegistrySite::new().await;
    let server = testkit::server().tool("echo").stdio().await;
    let path = site.install("npx", &server.command());
    let package = npm(json!({
        "runtimeHint": "npx",
        "runtimeArguments": [{ "type": "positional", "value": "-y" }, { "type": "named", "name": "--loglevel", "value": "silent" }],
        "packageArguments": [
            { "type": "named", "name": "--mode", "isRequired": true, "choices": ["ro", "rw"] },
            { "type": "named", "name": "-v", "value": "2" },
            { "type": "positional", "valueHint": "folder", "isRequired": true, "description": "Where notes are kept" },
            { "type": "positional", "value": "${HOME}/{kind}", "variables": { "kind": { "default": "plain" } } },
            { "type": "named", "name": "--cache" },
        ],
        "environmentVariables": [
            { "name": "API_KEY", "isRequired": true, "isSecret": true, "description": "The key of your account" },
            { "name": "LEVEL", "default": "info" },
        ],
    }));
    site.publish("1.2.0", json!({ "packages": [package] }));
    let run = |words: &[&str]| {
        let mut command = site.add(&[&["io.github.knots/notes"], words].concat());
        command.env("PATH", &path);
        site.context.run(command)
    };
    snapshot!(run(&[]), @"
    exit: 2
    --- stdout
    --- stderr
    note: io.github.knots/notes 1.2.0: Keeps notes
    note: using npx -y @knots/notes@1.2.0 (npm package, runs on this machine)
    error: `io.github.knots/notes` needs values that are not given, and there is no terminal to ask you on
      missing:
        -e API_KEY=VALUE: The key of your account
        --arg mode=VALUE
        --arg folder=VALUE: Where notes are kept

    hint: add -e API_KEY=VALUE --arg mode=VALUE --arg folder=VALUE
    ---
    ");
    let given = ["-e", "API_KEY=k", "--arg", "mode=rw", "--arg", "folder=/tmp/my notes"];
    snapshot!(run(&given), @"
    exit: 2
    --- stdout
    --- stderr
    note: io.github.knots/notes 1.2.0: Keeps notes
    note: using npx -y @knots/notes@1.2.0 (npm package, runs on this machine)
    note: it also takes --arg cache=VALUE
    error: `LEVEL=info npx -y --loglevel=silent @knots/notes@1.2.0 --mode=rw -v 2 '/tmp/my notes' '${HOME}/plain'` was not started, as there is no terminal to ask you on

    hint: use --yes if it may be started, or --no-check to add it without starting it
    ---
    ");
    assert_eq!((site.started(), config(&site.context)), (None, None));
    snapshot!(run(&[&given[..], &["--yes"]].concat()), @"
    exit: 0
    --- stdout
    testkit 1.0.0, stdio, 2026-07-28 (modern)
    1 tool
    --- stderr
    note: io.github.knots/notes 1.2.0: Keeps notes
    note: using npx -y @knots/notes@1.2.0 (npm package, runs on this machine)
    note: it also takes --arg cache=VALUE
    note: the command is `LEVEL=info npx -y --loglevel=silent @knots/notes@1.2.0 --mode=rw -v 2 '/tmp/my notes' '${HOME}/plain'`
    note: added `notes` to [TMP]/home/.config/bowline/config.toml; see `bowline tools notes`
    ---
    ");
    let words = "-y\n--loglevel=silent\n@knots/notes@1.2.0\n--mode=rw\n-v\n2\n/tmp/my notes\n${HOME}/plain\nAPI_KEY=k\n";
    assert_eq!(site.started().unwrap(), words);
    let entry = "[servers.notes]\ncommand = \"npx\"\nargs = [\"-y\", \"--loglevel=silent\", \"@knots/notes@1.2.0\", \
                 \"--mode=rw\", \"-v\", \"2\", \"/tmp/my notes\", \"$${HOME}/plain\"]\n\
                 env = { LEVEL = \"info\", API_KEY = \"k\" }\n";
    assert_eq!(config(&site.context).unwrap(), entry);
    snapshot!(run(&["--replace", "-e", "API_KEY=k", "--arg", "mode=all", "--arg", "folder=/"]), @"
    exit: 2
    --- stdout
    --- stderr
    note: io.github.knots/notes 1.2.0: Keeps notes
    note: using npx -y @knots/notes@1.2.0 (npm package, runs on this machine)
    error: `all` is not allowed for mode

    hint: it takes ro, rw
    ---
    ");
    snapshot!(run(&["--replace", "-e", "API_KEY=k", "--arg", "mode=ro", "--arg", "folder=/", "--arg", "depth=3"]), @"
    exit: 2
    --- stdout
    --- stderr
    note: io.github.knots/notes 1.2.0: Keeps notes
    note: using npx -y @knots/notes@1.2.0 (npm package, runs on this machine)
    error: `io.github.knots/notes` takes no argument `depth`

    hint: it takes mode, folder, kind, cache
    ---
    ");
}

#[tokio::test]
async fn images_and_python_packages_become_commands() {
    let site = RegistrySite::new().await;
    let package = |kind: &str, identifier: &str| {
        npm(json!({
            "registryType": kind, "identifier": identifier,
            "environmentVariables": [{ "name": "API_KEY", "isRequired": true }],
        }))
    };
    site.publish(
        "1.2.0",
        json!({ "packages": [package("oci", "docker.io/knots/notes"), package("pypi", "knots-notes")] }),
    );
    for kind in ["oci", "pypi"] {
        let words = [kind, "io.github.knots/notes", "--no-check", "--package", kind, "-e", "API_KEY=k"];
        let added = site.run(&words);
        assert!(added.starts_with("exit: 0\n"), "{added}");
    }
    let entries = "\
[servers.oci]
command = \"docker\"
args = [\"run\", \"-i\", \"--rm\", \"-e\", \"API_KEY\", \"docker.io/knots/notes:1.2.0\"]
env = { API_KEY = \"k\" }

[servers.pypi]
command = \"uvx\"
args = [\"knots-notes==1.2.0\"]
env = { API_KEY = \"k\" }
";
    assert_eq!(config(&site.context).unwrap(), entries);
    snapshot!(site.run(&["io.github.knots/notes", "--package", "npm"]), @"
    exit: 2
    --- stdout
    --- stderr
    note: io.github.knots/notes 1.2.0: Keeps notes
    error: `io.github.knots/notes` is not offered in that way
      offered:
        docker run -i --rm docker.io/knots/notes:1.2.0
        uvx knots-notes==1.2.0

    hint: leave out --remote, --package and --transport
    ---
    ");
    snapshot!(site.run(&["io.github.knots/notes", "--package", "oci", "-H", "A: b"]), @"
    exit: 2
    --- stdout
    --- stderr
    note: io.github.knots/notes 1.2.0: Keeps notes
    note: using docker run -i --rm docker.io/knots/notes:1.2.0 (oci package, runs on this machine)
    error: -H is for a URL, and this server is started

    hint: use --remote if it is to be used by its URL
    ---
    ");
}

#[tokio::test]
async fn what_is_not_in_the_registry_is_said() {
    let site = RegistrySite::new().await;
    site.publish("1.0.0", json!({}));
    snapshot!(site.run(&["io.github.knot/notes"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is no server `io.github.knot/notes` in the registry at http://127.0.0.1:[PORT]

    hint: did you mean `io.github.knots/notes`?
    ---
    ");
    snapshot!(site.run(&["io.github.knots/notes@2.0.0"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is no version 2.0.0 of `io.github.knots/notes` in the registry at http://127.0.0.1:[PORT]

    hint: write io.github.knots/notes for the latest version
    ---
    ");
    snapshot!(site.run(&["mcp.example.com/mcp"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: there is no server `mcp.example.com/mcp` in the registry at http://127.0.0.1:[PORT]

    hint: write https://mcp.example.com/mcp if it is a URL
    ---
    ");
    snapshot!(site.run(&["io.github.knots/notes"]), @"
    exit: 2
    --- stdout
    --- stderr
    note: io.github.knots/notes 1.0.0: Keeps notes
    error: `io.github.knots/notes` cannot be used

    hint: see its own pages for how to start it, then add its command
    ---
    ");
    snapshot!(site.run(&["https://example.com/", "--remote"]), @"
    exit: 2
    --- stdout
    --- stderr
    error: --arg, --remote and --package are for a name in the registry

    hint: see `bowline add --help` for examples
    ---
    ");
    assert_eq!(config(&site.context), None);
}

#[tokio::test]
async fn a_deprecated_server_is_said_to_be_so() {
    let site = RegistrySite::new().await;
    let server = json!({
        "name": "io.github.knots/notes", "version": "1.0.0", "description": "Keeps notes",
        "packages": [npm(json!({ "registryType": "nuget" })), npm(json!({}))],
    });
    let official = json!({ "status": "deprecated", "statusMessage": "use\u{1b}]0;x\u{7} com.example/notes\nnote: fine" });
    site.registry.publish_with_meta(&server, &official);
    snapshot!(site.run(&["io.github.knots/notes", "--no-check"]), @r"
    exit: 0
    --- stdout
    --- stderr
    note: io.github.knots/notes 1.0.0: Keeps notes
    note: io.github.knots/notes 1.0.0 is deprecated: use\u{1b}]0;x\u{7} com.example/notes note: fine
    note: using npx -y @knots/notes@1.2.0 (npm package, runs on this machine)
    note: the command is `npx -y @knots/notes@1.2.0`
    note: added `notes` to [TMP]/home/.config/bowline/config.toml; see `bowline tools notes`
    ---
    ");
}

/// SE-01: a registry cannot send us to addresses that are less public than it is, or that are not encrypted.
#[tokio::test]
async fn se_01_a_remote_must_be_encrypted_and_a_url() {
    let site = RegistrySite::new().await;
    for (url, said) in [
        ("http://169.254.169.254/latest", "http://169.254.169.254 is not encrypted"),
        ("http://example.com/mcp", "http://example.com is not encrypted"),
        ("ftp://example.com/mcp", "the URL must begin with http:// or https://"),
        ("javascript:alert(1)", "the URL must begin with http:// or https://"),
        ("https://h/{file:/etc/passwd}", "has `{env:` or `{file:` in it"),
        ("https://h/{env:HOME}", "has `{env:` or `{file:` in it"),
    ] {
        site.publish("1.0.0", json!({ "remotes": [{ "type": "streamable-http", "url": url }] }));
        for check in [&[][..], &["--no-check"]] {
            let shown = site.run(&[&["io.github.knots/notes"], check].concat());
            assert!(shown.starts_with("exit: 2\n") && shown.contains(said), "{url}: {shown}");
        }
    }
    assert_eq!(config(&site.context), None);
    let plain = site.run(&["io.github.knots/notes", "--registry", "http://example.com"]);
    assert!(
        plain.starts_with("exit: 2\n") && plain.contains("the URL of the registry cannot be used"),
        "{plain}"
    );
}

/// A package that could be taken for an option, a path or a URL is never a word of a command.
#[tokio::test]
async fn hostile_packages_of_a_registry_are_not_started() {
    let site = RegistrySite::new().await;
    let packages = [
        npm(json!({ "identifier": "--call=touch /tmp/x" })),
        npm(json!({ "identifier": "https://h/\u{1b}[2Jx.tgz" })),
        npm(json!({ "version": "file:../x" })),
        npm(json!({ "registryBaseUrl": "https://h" })),
        npm(json!({ "runtimeHint": "sh", "runtimeArguments": [{ "type": "positional", "value": "-c" }] })),
        npm(json!({ "environmentVariables": [{ "name": "A B" }] })),
        npm(json!({ "packageArguments": 7 })),
        npm(json!({ "registryType": "mcpb" })),
        npm(json!({ "transport": { "type": "streamable-http", "url": "http://127.0.0.1:1/" } })),
    ];
    let remotes = [
        json!({ "type": "carrier-pigeon", "url": "https://h/" }),
        json!({ "type": "sse", "url": "https://h/", "headers": [{ "name": "A\r\nB" }] }),
        json!({ "type": "sse", "url": 5 }),
    ];
    site.publish("1.0.0", json!({ "packages": packages, "remotes": remotes }));
    snapshot!(site.run(&["io.github.knots/notes", "--yes"]), @r"
    exit: 2
    --- stdout
    --- stderr
    note: io.github.knots/notes 1.0.0: Keeps notes
    error: `io.github.knots/notes` cannot be used
      not supported:
        a URL with the transport `carrier-pigeon`, which is not supported
        a URL with a header that cannot be sent
        a URL whose description cannot be read
        the npm package `--call=touch /tmp/x`, whose name, version or origin cannot be used
        the npm package `https://h/\u{1b}[2Jx.tgz`, whose name, version or origin cannot be used
        the npm package `@knots/notes`, whose name, version or origin cannot be used
        the npm package `@knots/notes`, whose name, version or origin cannot be used
        the npm package `@knots/notes`, which has to be run in a way that is not supported
        the npm package `@knots/notes`, which takes arguments or variables that cannot be used
        a package whose description cannot be read
        the mcpb package `@knots/notes`, a kind that is not supported
        the npm package `@knots/notes`, which listens on a port: start it yourself, and add its URL

    hint: see its own pages for how to start it, then add its command
    ---
    ");
    assert_eq!(config(&site.context), None);
}

#[tokio::test]
async fn answers_of_a_registry_are_bounded_and_checked() {
    let site = RegistrySite::new().await;
    let elsewhere = ScriptedRegistry::start().await;
    let other = json!({ "server": { "name": "io.github.other/notes", "version": "1" } }).to_string();
    for (answer, said) in [
        (RegistryAnswer::Body(vec![b' '; 2 << 20]), "larger than"),
        (
            RegistryAnswer::Body(b"{\"server\": {\"name\": 5}}".to_vec()),
            "it is not the JSON of a server (line 1, column 21)",
        ),
        (RegistryAnswer::Body(b"<html>".to_vec()), "it is not the JSON of a server (line 1, column 1)"),
        (RegistryAnswer::Body(other.into_bytes()), "it is about another server"),
        (RegistryAnswer::Status(503), "answered with status 503"),
        (RegistryAnswer::Redirect(elsewhere.url()), "redirect"),
        (RegistryAnswer::Redirect("file:///etc/passwd".to_owned()), "redirect"),
        (RegistryAnswer::Silence, "no whole answer within 10s"),
    ] {
        site.registry.answer_with(answer.clone());
        let shown = site.run(&["io.github.knots/notes"]);
        assert!(shown.starts_with("exit: 3\n") && shown.contains(said), "{said}: {shown}");
        assert!(shown.contains("error: the registry at http://127.0.0.1:"), "{shown}");
        assert!(shown.contains("\nhint: "), "{shown}");
    }
    assert_eq!(elsewhere.requests(), [""; 0]);
    assert_eq!(config(&site.context), None);
}
