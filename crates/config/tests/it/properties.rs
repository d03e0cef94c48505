//! Property tests of the parser, over arbitrary and nearly valid texts.

use bowline_config::{FileFormat, FixedEnvironment, Source, Transport, parse, parse_partial};
use proptest::prelude::*;

use crate::environment;

/// Generates text from fragments of configuration files, so that most of it is nearly valid.
fn near_valid_config() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("[servers.a]\n"),
        Just("[servers.b]\n"),
        Just("command = 'x'\n"),
        Just("args = ['${A}', '{file:x}']\n"),
        Just("url = 'http://h/${A'\n"),
        Just("timeout = 1e400\n"),
        Just("keepalive_interval = -0.1\n"),
        Just("reconnect_wait = '\u{e9}s'\n"),
        Just("transport = 'sse'\n"),
        Just("[[hooks]]\n"),
        Just("[[servers.a.hooks]]\n"),
        Just("[servers.b.hooks]\n"),
        Just("on = ['failed', '\u{1f600}']\n"),
        Just("webhook = 'http://h/${A'\n"),
        Just("headers = { A = '\u{e9}' }\n"),
        Just("[sampling]\n"),
        Just("provider = 'openai'\n"),
        Just("model = '${A'\n"),
        Just("base_url = 'http://\u{e9}/'\n"),
        Just("key_env = '\u{1f600}'\n"),
        Just("max_tokens = 1e400\n"),
        Just("[roots]\nfolders = ['~/', '{file:x}', '']\n"),
        Just("auth = { grant = 'workload', assertion = { command = ['${A', '\u{e9}'] } }\n"),
        Just("[servers.b.auth]\n"),
        Just("scope = ['\u{1f600}', 1]\n"),
        Just("redirect_uri = 'http://\u{e9}/#'\n"),
        Just("headers_command = ['']\n"),
        Just("[store]\nbackend = 'valkey'\n"),
        Just("[auth]\nclient_metadata_url = 'https://\u{e9}'\n"),
        Just("\"oauth\": {\"clientId\": \"x\", \"scopes\": [null]},"),
        Just("\"headersHelper\": \"a 'b \u{e9}\","),
        Just("{\"mcpServers\": {\"a\": {"),
        Just("\"command\": \"x\","),
        Just("\"url\": \"http://h\""),
        Just("\"timeout\": 99999999999999999999,"),
        Just("}"),
        Just("}}"),
        Just("\u{feff}"),
        Just("\r\n"),
        Just("\u{1f600}"),
    ];
    proptest::collection::vec(token, 0..16).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn no_text_panics_and_every_problem_has_a_place(
        text in prop_oneof![any::<String>(), near_valid_config()],
        format in prop_oneof![Just(FileFormat::Toml), Just(FileFormat::Json)],
    ) {
        let source = Source::new("c", text.clone()).with_format(format);
        let (config, errors) = parse_partial(&source, &environment());
        let lines = text.matches('\n').count() + 1;
        for problem in errors.into_iter().flatten().chain(config.notes) {
            prop_assert!((1..=lines).contains(&problem.line), "{problem}");
            prop_assert!(problem.column >= 1, "{problem}");
        }
    }

    /// In an empty environment, a value reaches the server only if it has no placeholder.
    #[test]
    fn no_placeholder_reaches_a_server(value in "([$][{]|[{]env:|[{]file:|[$]|[{]|[}]|a|[a-z :]){0,12}") {
        let text = format!("[servers.a]\ncommand = 'x'\nargs = ['{value}']");
        prop_assume!(!value.contains("$${"));
        let holds_placeholder = ["${", "{env:", "{file:"].iter().any(|opening| value.contains(opening));
        let parsed = parse(&Source::new("c.toml", text), &FixedEnvironment::default());
        prop_assert_eq!(parsed.is_err(), holds_placeholder, "{}", value);
        if let Ok(config) = parsed {
            let Transport::Stdio(stdio) = &config.servers["a"].transport else {
                panic!("not stdio");
            };
            prop_assert_eq!(&stdio.args, std::slice::from_ref(&value));
        }
    }
}
