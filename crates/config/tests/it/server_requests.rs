//! Tests of the tables about server requests: sampling, elicitation and roots.

use std::path::PathBuf;
use std::time::Duration;

use bowline_config::{
    Config, ElicitationPolicy, Sampling, SamplingApi, SamplingPolicy, Secret, Server, Source, diff,
    json_schema, parse_partial,
};
use bowline_testkit::with;
use serde_json::{Value, json};

use crate::{environment, note_lines, parse_errors, parse_valid};

#[test]
fn sampling_table_is_read() {
    let config = parse_valid(
        "c.toml",
        r#"
            [sampling]
            provider = "anthropic"
            base_url = "https://models.example.com/${PREFIX:-eu}#there"
            models = ["large", "small", "large"]
            key_env = "TOKEN"
            headers = { X-Team = "${TOKEN}" }
            policy = "allow"
            max_tokens = 1000
            per_minute = 3
            tokens_per_hour = 50000
            tool_rounds = 2
            concurrent = 1
            timeout = "30s"

            [servers.a]
            command = "x"
            sampling = "deny"
        "#,
    );
    assert_eq!(note_lines(&config.notes), "");
    let sampling = config.sampling.unwrap();
    let expected = with!(Sampling::new(SamplingApi::Anthropic, "https://models.example.com/eu", "large")
            .and_then(|it| it.with_model("small"))
            .unwrap(), key_env: Some("TOKEN".to_owned()), headers: vec![("X-Team".to_owned(), Secret::new("s3cret"))], policy: SamplingPolicy::Allow, max_tokens: 1000, per_minute: 3, tokens_per_hour: Some(50_000), tool_rounds: 2, concurrent: 1, timeout: Duration::from_secs(30));
    assert_eq!(sampling, expected);
    assert_eq!(config.servers["a"].sampling, Some(SamplingPolicy::Deny));
}

/// SA-02: the smallest table asks a person, and no table means no model.
#[test]
fn sa_02_the_defaults() {
    let text = "[sampling]\nprovider = 'openai'\nbase_url = 'http://127.0.0.1:1/v1'\nmodel = 'm'";
    let sampling = parse_valid("c.toml", text).sampling.unwrap();
    assert_eq!(sampling, Sampling::new(SamplingApi::OpenAi, "http://127.0.0.1:1/v1", "m").unwrap());
    assert_eq!(sampling.policy, SamplingPolicy::Ask);
    let nothing = parse_valid("c.toml", "[servers.a]\ncommand = 'x'");
    assert_eq!((nothing.sampling, nothing.elicitation, nothing.roots), (None, None, None));
    assert_eq!(nothing.servers["a"].sampling, None);
}

#[test]
fn what_is_missing_is_named_once() {
    let expected = "\
c.toml:1:2: sampling: needs `provider`
  hint: \"openai\" or \"anthropic\": what the endpoint speaks
c.toml:1:2: sampling: needs `base_url`
  hint: for example \"http://127.0.0.1:8080/v1\"
c.toml:1:2: sampling: needs `model` or `models`
  hint: the name by which the endpoint knows the model";
    assert_eq!(parse_errors("c.toml", "[sampling]"), expected);
    let text = "\
[sampling]
api = 'openai'
baseurl = 'http://h/'
model = 1
api_key = 's3cret'
policy = 'alow'
";
    let expected = "\
c.toml:2:1: sampling.api: unknown key
  hint: did you mean `provider`?
c.toml:3:1: sampling.baseurl: unknown key
  hint: did you mean `base_url`?
c.toml:4:9: sampling.model: must be a string, not a number
  hint: put the value in quotes
c.toml:5:1: sampling.api_key: unknown key
  hint: name the environment variable that holds the key in `key_env`
c.toml:6:10: sampling.policy: must be \"ask\", \"allow\" or \"deny\"
  hint: did you mean \"allow\"?";
    assert_eq!(parse_errors("c.toml", text), expected);
}

#[test]
fn values_are_checked() {
    let text = "\
[sampling]
provider = 'gemini'
base_url = 'https://me:s3cret@h/'
model = 'm'
models = []
key_env = 's3cret-s3cret'
headers = { Accept = 'x', X = '${BROKEN}' }
max_tokens = 0
per_minute = 1.5
tokens_per_hour = -1
tool_rounds = 'many'
concurrent = 4294967296
timeout = 0
[servers.a]
command = 'x'
sampling = 'never'
";
    let expected = "\
c.toml:2:12: sampling.provider: must be \"openai\" or \"anthropic\"
c.toml:3:12: sampling.base_url: the URL contains credentials
  hint: send them as a header, such as `Authorization`, with the value in an environment variable
c.toml:5:10: sampling.models: contradicts `model`
  hint: they are one setting; keep one of them
c.toml:6:11: sampling.key_env: must be the name of an environment variable, made of letters, digits and `_`
  hint: write the name of the variable, not the key itself
c.toml:7:22: sampling.headers.Accept: this header is set by the transport and cannot be configured
c.toml:7:31: sampling.headers.X: contains a control character, which is not allowed in a header value
  hint: is there a line break in the variable or file it comes from?
c.toml:8:14: sampling.max_tokens: must be a whole number from 1 to 4294967295
c.toml:9:14: sampling.per_minute: must be a whole number from 1 to 4294967295
c.toml:10:19: sampling.tokens_per_hour: must be a whole number from 1 to 4294967295
c.toml:11:15: sampling.tool_rounds: must be a whole number, not a string
c.toml:12:14: sampling.concurrent: must be a whole number from 1 to 4294967295
c.toml:13:11: sampling.timeout: must be more than 0 and at most 24 hours
c.toml:16:12: servers.a.sampling: must be \"ask\", \"allow\" or \"deny\"";
    assert_eq!(parse_errors("c.toml", text), expected);
    for (models, message) in [
        ("models = []", "c.toml:4:10: sampling.models: names no model"),
        ("model = ' '", "c.toml:4:9: sampling.model: the name of the model is empty"),
        (
            "model = '${NOPE}'",
            "c.toml:4:9: sampling.model: environment variable `NOPE` is not set\n  \
             hint: set it, or give a default: `${NOPE:-value}`",
        ),
    ] {
        let text = format!("[sampling]\nprovider = 'openai'\nbase_url = 'http://h/'\n{models}");
        assert_eq!(parse_errors("c.toml", &text), message);
    }
    assert_eq!(
        parse_errors("c.toml", "sampling = 's3cret'"),
        "c.toml:1:1: sampling: must be a table, not a string"
    );
}

/// Neither is an error, and neither note quotes anything.
#[test]
fn unset_or_unprotected_key_is_noted() {
    let text = |url: &str, key: &str| {
        format!("[sampling]\nprovider = 'openai'\nbase_url = '{url}'\nmodel = 'm'\nkey_env = '{key}'")
    };
    let notes = |url: &str, key: &str| note_lines(&parse_valid("c.toml", &text(url, key)).notes);
    let unset = "c.toml:5:11: sampling.key_env: the environment variable is not set\n  \
                 hint: set it before a server asks for the model";
    assert_eq!(notes("https://h/", "abcdef0123"), unset);
    let open = "c.toml:3:12: sampling.base_url: the key is sent over a connection that others can read\n  \
                hint: write an https URL";
    assert_eq!(notes("http://models.lan/v1", "TOKEN"), open);
    for here in ["http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]:9/", "https://h/"] {
        assert_eq!(notes(here, "TOKEN"), "", "{here}");
    }
}

#[test]
fn elicitation_policy_and_roots_are_read() {
    let config = parse_valid(
        "/srv/app/bowline.toml",
        "[elicitation]\npolicy = 'cancel'\n[roots]\nfolders = ['.', '~/notes', '/data', '.', '${HOME}/x']",
    );
    assert_eq!(config.elicitation, Some(ElicitationPolicy::Cancel));
    let expected = ["/srv/app/.", "/home/me/notes", "/data", "/home/me/x"].map(PathBuf::from);
    assert_eq!(config.roots.unwrap(), expected);
    let config = parse_valid("c.toml", "[elicitation]\n[roots]");
    assert_eq!((config.elicitation, config.roots), (None, None));
    assert_eq!(parse_valid("c.toml", "roots.folders = []").roots, Some(Vec::new()));
}

/// What could not be read is not replaced by a default that gives more away.
#[test]
fn a_broken_table_is_read_with_caution() {
    for text in ["roots = 1", "roots.folders = 'x'", "roots.folders = ['']", "roots.folder = ['x']"] {
        let (config, errors) = parse_partial(&Source::new("c.toml", text), &environment());
        assert_eq!((config.roots, errors.unwrap().problems().len()), (Some(Vec::new()), 1), "{text}");
    }
    for text in ["elicitation = 'ask'", "elicitation.policy = 'accept'", "elicitation.polcy = 'ask'"] {
        let (config, errors) = parse_partial(&Source::new("c.toml", text), &environment());
        let cautious = Some(ElicitationPolicy::Decline);
        assert_eq!((config.elicitation, errors.unwrap().problems().len()), (cautious, 1), "{text}");
    }
    let text = "[sampling]\nprovider = 'openai'\nbase_url = 'http://h/'\nmodel = 'm'\npolicy = 'x'";
    let (config, errors) = parse_partial(&Source::new("c.toml", text), &environment());
    assert_eq!((config.sampling, errors.unwrap().problems().len()), (None, 1));
    let expected = "\
c.toml:1:22: elicitation.policy: must be \"ask\", \"decline\" or \"cancel\"
c.toml:2:7: roots.folder: unknown key
  hint: did you mean `folders`?
c.toml:3:1: samplng: unknown key
  hint: did you mean `sampling`?";
    let text = "elicitation.policy = 'accept'\nroots.folder = 1\nsamplng.x = 1";
    assert_eq!(parse_errors("c.toml", text), expected);
}

/// In a host's file these keys belong to the host.
#[test]
fn a_host_has_tables_of_its_own() {
    let text = r#"{"sampling": {"policy": "allow"}, "roots": ["/"], "mcpServers": {"a": {"command": "x", "sampling": "allow"}}}"#;
    let config = parse_valid("settings.json", text);
    assert_eq!((config.sampling, config.roots, config.servers["a"].sampling), (None, None, None));
    assert_eq!(note_lines(&config.notes), "settings.json:1:100: mcpServers.a.sampling: not used");
}

#[test]
fn a_project_replaces_each_as_a_whole() {
    let sampling = |model: &str| Sampling::new(SamplingApi::OpenAi, "http://h/", model).unwrap();
    let user = || with!(Config::default(), sampling: Some(sampling("user").with_key_env("KEY").unwrap()), elicitation: Some(ElicitationPolicy::Cancel), roots: Some(vec![PathBuf::from("/user")]));
    let over = |project| Config::layered(user(), project);
    assert_eq!(over(Config::default()), user());
    let project = with!(Config::default(), sampling: Some(sampling("project")), roots: Some(Vec::new()));
    let layered = over(project);
    // The user's key must not be sent to the project's endpoint.
    assert_eq!(layered.sampling, Some(sampling("project")));
    assert_eq!((layered.elicitation, layered.roots), (user().elicitation, Some(Vec::new())));
}

/// A server learns these settings when it is connected to, so a change reconnects it.
#[test]
fn changed_table_changes_every_server() {
    let server = || Server::stdio("a", "x").build().unwrap();
    let config = || Config::default().with_server(server()).unwrap();
    let sampling = Sampling::new(SamplingApi::OpenAi, "http://h/", "m").unwrap();
    for changed in [
        with!(config(), sampling: Some(sampling)),
        with!(config(), elicitation: Some(ElicitationPolicy::Decline)),
        with!(config(), roots: Some(Vec::new())),
        config().with_server(server().with_sampling(SamplingPolicy::Deny)).unwrap(),
    ] {
        assert_eq!(diff(&config(), &changed).changed, ["a"], "{changed:?}");
        assert!(diff(&changed, &changed).is_empty());
    }
}

/// An editor with the schema and the parser must agree about each document.
#[test]
fn the_schema_agrees_with_the_parser() {
    let validator = jsonschema::validator_for(&json_schema()).unwrap();
    let sampling = |more: Value| {
        let mut table = json!({ "provider": "openai", "base_url": "http://127.0.0.1/", "model": "m" });
        for (key, value) in more.as_object().unwrap() {
            table[key] = value.clone();
        }
        table.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        json!({ "sampling": table })
    };
    for (document, valid) in [
        (sampling(json!({})), true),
        (sampling(json!({ "provider": "anthropic", "policy": "deny", "timeout": "2m" })), true),
        (sampling(json!({ "model": null, "models": ["a", "b"], "max_tokens": 1, "per_minute": 1 })), true),
        (sampling(json!({ "tokens_per_hour": 1, "tool_rounds": 1, "concurrent": 1, "key_env": "K" })), true),
        (sampling(json!({ "headers": { "A": "b" } })), true),
        (json!({ "elicitation": { "policy": "cancel" }, "roots": { "folders": [] } }), true),
        (json!({ "elicitation": {}, "roots": {} }), true),
        (json!({ "sampling": {} }), false),
        (sampling(json!({ "provider": null })), false),
        (sampling(json!({ "provider": "OpenAI" })), false),
        (sampling(json!({ "base_url": null })), false),
        (sampling(json!({ "model": null })), false),
        (sampling(json!({ "model": " " })), false),
        (sampling(json!({ "models": ["a"] })), false),
        (sampling(json!({ "model": null, "models": [] })), false),
        (sampling(json!({ "policy": "always" })), false),
        (sampling(json!({ "max_tokens": 0 })), false),
        (sampling(json!({ "per_minute": 1.5 })), false),
        (sampling(json!({ "timeout": 0 })), false),
        (sampling(json!({ "key_env": "a-b" })), false),
        (sampling(json!({ "key": "k" })), false),
        (json!({ "elicitation": { "policy": "accept" } }), false),
        (json!({ "roots": { "folders": "." } }), false),
        (json!({ "roots": [] }), false),
        (json!({ "servers": { "a": { "command": "x", "sampling": "deny" } } }), true),
        (json!({ "servers": { "a": { "command": "x", "sampling": true } } }), false),
    ] {
        assert_eq!(validator.is_valid(&document), valid, "schema: {document}");
        let tables = document.as_object().unwrap().iter();
        let text: Vec<String> =
            tables.map(|(key, value)| format!("{key} = {}", crate::schema::inline_toml(value))).collect();
        let text = text.join("\n");
        let (_, errors) = parse_partial(&Source::new("c.toml", text.clone()), &environment());
        assert_eq!(errors.is_none(), valid, "parser: {text} {errors:?}");
    }
}

#[test]
fn every_key_is_explained_and_defaults_are_given() {
    let schema = json_schema();
    for table in ["sampling", "elicitation", "roots"] {
        let table = &schema["properties"][table];
        assert!(table["description"].is_string(), "{table}");
        for (key, schema) in table["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{key}");
        }
    }
    let default = |key: &str| schema["properties"]["sampling"]["properties"][key]["default"].clone();
    assert_eq!(default("policy"), "ask");
    assert_eq!(default("max_tokens"), 4096);
    assert_eq!(default("per_minute"), 10);
    assert_eq!(default("tool_rounds"), 8);
    assert_eq!(default("concurrent"), 2);
    assert_eq!(default("timeout"), 120);
    assert_eq!(schema["properties"]["elicitation"]["properties"]["policy"]["default"], "ask");
}
