//! Reads one entry of a host: what its keys mean there, in our keys.

use std::path::Path;

use bowline_config::tree::{Key, Node, Value};
use bowline_config::{is_reserved_header, split_plain_command};

use super::auth::LoginKeys;
use super::fields::{has, into_table, pairs, take, text, texts};
use super::findings::Findings;
use super::mcporter::normalize_command;
use super::placeholder::{Piece, Translator, is_variable_name, join, variable};
use super::relay_command::{CommandKind, classify_command, read_relay};
use super::server_entry::{EndpointEntry, HeadersProgram, ProgramEntry, ServerEntry, Target};
use super::settings::read_settings;
use crate::host::Host;

/// An entry as it is written, before it is known whether it is started or reached.
#[derive(Default)]
struct Draft {
    words: Vec<String>,
    env: Vec<(String, String)>,
    /// Variables that are taken from the environment, or from a store of the host.
    inherited: Vec<String>,
    cwd: Option<String>,
    url: Option<String>,
    /// Whether the key of the URL says that it is HTTP+SSE.
    is_sse_url: bool,
    kind: Option<String>,
    headers: Vec<(String, String)>,
    /// Headers in our form.
    made_headers: Vec<(String, String)>,
    helper: Option<Vec<String>>,
    login: LoginKeys,
    tls: Vec<(&'static str, String)>,
}

/// Reads one entry. `None` with a finding if it cannot be used.
pub(super) fn read_entry(
    name: &str,
    fields: Vec<(Key, Node)>,
    translator: &Translator<'_>,
    found: &mut Findings,
) -> Option<ServerEntry> {
    let host = translator.host;
    let mut fields = fields;
    // One form of goose has the settings in a table of their own.
    let nested = if host == Host::Goose { take(&mut fields, "config").map(into_table) } else { None };
    fields.extend(nested.unwrap_or_default());
    if host == Host::Mcporter {
        normalize_command(&mut fields);
    }
    let mut draft = Draft::default();
    let mut entry = ServerEntry::new(Target::Program(ProgramEntry::default()));
    let prefers_http_url = has(&fields, "httpUrl");
    for (key, node) in fields {
        let value = node.value;
        if matches!(value, Value::Null) || (prefers_http_url && key.name == "url") {
            continue;
        }
        let is_read = read_how_it_is_reached(&key.name, &value, &mut draft, translator, found)
            || read_settings(&key.name, &value, &mut entry, host, found);
        if !is_read && !IGNORED_KEYS.contains(&key.name.as_str()) {
            found.note(format!("`{}` is not used", key.name));
        }
    }
    let hidden = entry.target_from(name, draft, translator, found)?;
    entry.disabled_tools.extend(hidden);
    found.left_out.is_none().then_some(entry)
}

/// Reads a key that says how the server is reached. Returns whether it is one.
fn read_how_it_is_reached(
    key: &str,
    value: &Value,
    draft: &mut Draft,
    translator: &Translator<'_>,
    found: &mut Findings,
) -> bool {
    let host = translator.host;
    let unreadable = |found: &mut Findings| found.leave_out(format!("`{key}` cannot be read"));
    match key {
        "command" | "cmd" | "serverCommand" => match texts(value) {
            Some(words) => drop(draft.words.splice(0..0, words)),
            // Old files of Zed have a table with the program and its arguments.
            None => match read_command_table(value) {
                Some((words, env)) => {
                    draft.words.splice(0..0, words);
                    draft.env.extend(env);
                }
                None => unreadable(found),
            },
        },
        "args" => match texts(value) {
            Some(words) => draft.words.extend(words),
            None => unreadable(found),
        },
        "env" | "environment" | "envs" => match pairs(value) {
            Some(env) => draft.env.extend(env),
            None => unreadable(found),
        },
        "env_keys" | "env_vars" => draft.inherited.extend(inherited_names(value, found)),
        "envFile" | "env_file" => {
            found.attend(format!("`{key}` names a file with variables: write them into `env`"));
        }
        "cwd" | "workingDirectory" => draft.cwd = text(value),
        "url" | "serverUrl" | "uri" | "baseUrl" | "base_url" | "server_url" | "httpUrl" => {
            draft.url = text(value);
            draft.is_sse_url = key == "url" && matches!(host, Host::GeminiCli | Host::QwenCode);
        }
        "tcp" => found.leave_out("it is reached over WebSocket, which is not a transport of MCP".to_owned()),
        "type" | "transport" | "transportType" => draft.kind = text(value).map(|word| squeeze(&word)),
        "headers" | "http_headers" => match pairs(value) {
            Some(headers) => draft.headers.extend(headers),
            None => unreadable(found),
        },
        "env_http_headers" => {
            for (header, name) in pairs(value).unwrap_or_default() {
                let value = join(vec![variable(&name)], found);
                draft.made_headers.push((header, value));
                check_variable(&name, found);
            }
        }
        "bearer_token_env_var" | "bearerTokenEnv" | "bearer_token_env" => {
            let name = text(value).unwrap_or_default();
            check_variable(&name, found);
            draft.made_headers.push(("Authorization".to_owned(), format!("Bearer ${{{name}}}")));
        }
        "bearer_token" | "bearerToken" => {
            let token = text(value).unwrap_or_default();
            if host == Host::Codex {
                found.note("Codex itself rejects `bearer_token`; bowline uses it".to_owned());
            }
            draft.headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        "headersHelper" | "http_headers_helper" => draft.helper = read_helper(value),
        "oauth" | "auth" => draft.login.read(value, translator, found),
        "scopes" | "oauthScope" => draft.login.set_scopes(value, translator, found),
        "oauth_resource" => {
            let resource = translator.translate(&text(value).unwrap_or_default(), found);
            draft.login.set_text("resource", resource);
        }
        "oauthRedirectUrl" => draft.login.set_redirect(text(value).unwrap_or_default(), found),
        "authProviderType" if text(value).as_deref() != Some("dynamic_discovery") => {
            found.attend(format!("{} makes its credentials; `headers_command` can do that", host.name()));
        }
        "ssl_verify" | "sslVerify" => match value {
            Value::String(path) => draft.tls.push(("ca_file", translator.translate(path, found))),
            Value::Bool(false) => found.attend("it accepts any certificate: set `ca_file`".to_owned()),
            _ => {}
        },
        "client_cert" => {
            let paths = texts(value).unwrap_or_default();
            for (key, path) in ["client_cert", "client_key"].into_iter().zip(&paths) {
                draft.tls.push((key, translator.translate(path, found)));
            }
            if paths.len() > 2 {
                found.attend("the key of its client certificate has a password".to_owned());
            }
        }
        "client_key" => {
            draft.tls.push(("client_key", translator.translate(&text(value).unwrap_or_default(), found)));
        }
        _ => return false,
    }
    true
}

/// The words of a program that prints headers. A line that needs a shell is passed to one.
fn read_helper(value: &Value) -> Option<Vec<String>> {
    if let Value::Array(_) = value {
        return texts(value);
    }
    let line = text(value)?;
    Some(split_plain_command(&line).unwrap_or_else(|| vec!["sh".to_owned(), "-c".to_owned(), line]))
}

impl ServerEntry {
    /// Sets how the server is reached. Returns tools that are hidden by the way it was reached before.
    fn target_from(
        &mut self,
        name: &str,
        mut draft: Draft,
        translator: &Translator<'_>,
        found: &mut Findings,
    ) -> Option<Vec<String>> {
        let host = translator.host;
        let kind = draft.kind.take().unwrap_or_default();
        match kind.as_str() {
            "ws" | "websocket" => {
                found.leave_out("it is reached over WebSocket, which is not a transport of MCP".to_owned());
            }
            "builtin" | "platform" | "frontend" | "inlinepython" => {
                found.leave_out(format!("it is a part of {}", host.name()));
            }
            _ => {}
        }
        let starts = match kind.as_str() {
            "stdio" | "local" => true,
            "http" | "streamablehttp" | "sse" | "remote" => false,
            _ if draft.url.is_some() && !draft.words.is_empty() && host != Host::GeminiCli => {
                found.leave_out("it has both a command and a URL".to_owned());
                false
            }
            _ => draft.url.is_none(),
        };
        if starts {
            draft.words.first().filter(|command| !command.is_empty()).or_else(|| {
                let reason =
                    if host == Host::Zed { "it is an extension of Zed" } else { "it has no command" };
                found.leave_out(reason.to_owned());
                None
            })?;
            return self.start(draft, translator, found);
        }
        let url = draft.url.take().filter(|url| !url.is_empty()).or_else(|| {
            found.leave_out("it has no URL".to_owned());
            None
        })?;
        let (url, socket) = split_socket(&url, found);
        let is_sse = kind == "sse" || (draft.is_sse_url && kind.is_empty());
        let mut endpoint = EndpointEntry {
            url: translator.translate(&url, found),
            socket: socket.map(|socket| translator.translate(&socket, found)),
            transport: is_sse.then_some("sse"),
            tls: draft.tls,
            ..EndpointEntry::default()
        };
        for (header, value) in &draft.headers {
            let value = match host {
                Host::Goose => fill_goose_header(value, &draft.env, found),
                _ => translator.translate(value, found),
            };
            endpoint.set_header(header, value, found);
        }
        for (header, value) in draft.made_headers {
            endpoint.set_header(&header, value, found);
        }
        endpoint.headers_command = draft.helper.map(|words| {
            let told = [
                ("CLAUDE_CODE_MCP_SERVER_NAME".to_owned(), name.replace("${", "$${")),
                ("CLAUDE_CODE_MCP_SERVER_URL".to_owned(), endpoint.url.clone()),
            ];
            let env = if host == Host::ClaudeCode { told.to_vec() } else { Vec::new() };
            // The host fills in nothing of it.
            HeadersProgram { words: words.iter().map(|word| word.replace("${", "$${")).collect(), env }
        });
        endpoint.auth = draft.login.finish(found);
        if host != Host::Goose && !(draft.env.is_empty() && draft.words.is_empty()) {
            found.note("its command and variables are not used, as it has a URL".to_owned());
        }
        self.target = Target::Endpoint(endpoint);
        Some(Vec::new())
    }

    /// Sets the command, or what it relays.
    fn start(
        &mut self,
        draft: Draft,
        translator: &Translator<'_>,
        found: &mut Findings,
    ) -> Option<Vec<String>> {
        let Draft { mut words, env, inherited, cwd, headers, made_headers, .. } = draft;
        match classify_command(&words) {
            CommandKind::Own(reason) => {
                found.leave_out(reason.to_owned());
                return None;
            }
            CommandKind::Relay(args) => {
                let (mut endpoint, hidden) = read_relay(&args, &env, translator, found);
                for (name, value) in std::mem::take(&mut endpoint.headers) {
                    endpoint.set_header(&name, value, found);
                }
                self.target = Target::Endpoint(endpoint);
                return Some(hidden);
            }
            CommandKind::Wrapped(inner) => words = inner,
            CommandKind::Server => {}
        }
        if !(headers.is_empty() && made_headers.is_empty()) {
            found.note("its headers are not used, as it is started by a command".to_owned());
        }
        let mut words = words.into_iter().map(|word| translator.translate(&word, found));
        let command = words.next()?;
        let args: Vec<String> = words.collect();
        if args.is_empty() && is_command_line(&command) {
            found.note("its command has blanks in it, and is started as one word".to_owned());
        }
        let mut program = ProgramEntry { command, args, ..ProgramEntry::default() };
        program.env =
            env.iter().map(|(name, value)| (name.clone(), translator.translate(value, found))).collect();
        for name in inherited {
            check_variable(&name, found);
            if translator.host == Host::Goose {
                found.note(format!("goose has `{name}` in its keyring; here it is a variable"));
            }
            if !program.env.iter().any(|(known, _)| *known == name) {
                program.env.push((name.clone(), format!("${{{name}}}")));
            }
        }
        let cwd = cwd.filter(|cwd| !cwd.is_empty()).map(|cwd| translator.translate(&cwd, found));
        program.is_cwd_implied = cwd.is_none() && translator.project.is_some();
        program.cwd = resolve_folder(cwd, translator, found);
        self.target = Target::Program(program);
        Some(Vec::new())
    }
}

/// Whether a command has arguments in it, as far as that can be seen: a path may have blanks in it, too.
fn is_command_line(command: &str) -> bool {
    let Some((first, rest)) = command.split_once(' ') else { return false };
    !first.contains(['/', '\\']) || rest.split(' ').any(|word| word.starts_with(['-', '/', '@', '"', '\'']))
}

impl EndpointEntry {
    /// Sets a header in place of one of the same name. Headers that the transport sets are left out.
    fn set_header(&mut self, name: &str, value: String, found: &mut Findings) {
        if is_reserved_header(name) {
            found.note(format!("the header `{name}` is not used: the transport sets it"));
            return;
        }
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }
}

/// The folder that a command runs in. In a project's file, relative ones begin at the project.
fn resolve_folder(cwd: Option<String>, translator: &Translator<'_>, found: &mut Findings) -> Option<String> {
    let escaped = |path: &Path| path.display().to_string().replace("${", "$${");
    let is_fixed = |cwd: &str| {
        Path::new(cwd).is_absolute() || cwd.starts_with(['~', '$', '{']) || cwd.get(1..3) == Some(":\\")
    };
    match (cwd, translator.project) {
        (Some(cwd), _) if is_fixed(&cwd) => Some(cwd),
        (Some(cwd), Some(project)) => Some(Path::new(&escaped(project)).join(cwd).display().to_string()),
        (Some(_), None) => {
            let host = translator.host.name();
            found.leave_out(format!("its folder is relative to the one that {host} is started in"));
            None
        }
        (None, project) => project.map(escaped),
    }
}

/// Splits a URL of VS Code for a Unix socket into the URL and the socket.
fn split_socket(url: &str, found: &mut Findings) -> (String, Option<String>) {
    if url.starts_with("pipe://") {
        found.leave_out("it is reached over a named pipe".to_owned());
    }
    match url.strip_prefix("unix://") {
        None => (url.to_owned(), None),
        Some(rest) => {
            let (socket, path) = rest.split_once('#').unwrap_or((rest, "/"));
            (format!("http://localhost/{}", path.trim_start_matches('/')), Some(socket.to_owned()))
        }
    }
}

/// Fills in a header of goose, which takes `${VAR}` and `$VAR` from the variables of the entry.
fn fill_goose_header(value: &str, env: &[(String, String)], found: &mut Findings) -> String {
    let mut pieces = Vec::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        pieces.push(Piece::Literal(rest[..at].to_owned()));
        let inner = &rest[at + 1..];
        let braced = inner.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
        let (name, after) = braced.unwrap_or_else(|| inner.split_at(end));
        if is_variable_name(name) {
            match env.iter().find(|(known, _)| known == name) {
                Some((_, value)) => pieces.push(Piece::Literal(value.clone())),
                None => pieces.push(variable(name)),
            }
            rest = after;
        } else {
            pieces.push(Piece::Literal("$".to_owned()));
            rest = inner;
        }
    }
    pieces.push(Piece::Literal(rest.to_owned()));
    join(pieces, found)
}

/// The names of variables that an entry takes from outside.
fn inherited_names(value: &Value, found: &mut Findings) -> Vec<String> {
    let Value::Array(items) = value else { return Vec::new() };
    let mut names = Vec::new();
    for item in items {
        match &item.value {
            Value::Table(fields) => {
                let field = |name: &str| {
                    let field = fields.iter().find(|(key, _)| key.name == name);
                    field.and_then(|(_, node)| text(&node.value))
                };
                if field("source").as_deref() == Some("remote") {
                    found.note("a variable of a remote environment is not used".to_owned());
                } else {
                    names.extend(field("name"));
                }
            }
            other => names.extend(text(other)),
        }
    }
    names
}

/// The words and variables of a command that is a table.
#[expect(clippy::type_complexity, reason = "two lists")]
fn read_command_table(value: &Value) -> Option<(Vec<String>, Vec<(String, String)>)> {
    let Value::Table(fields) = value else { return None };
    let field = |name: &str| fields.iter().rfind(|(key, _)| key.name == name).map(|(_, node)| &node.value);
    let mut words = vec![text(field("path")?)?];
    words.extend(field("args").and_then(texts).unwrap_or_default());
    Some((words, field("env").and_then(pairs).unwrap_or_default()))
}

fn check_variable(name: &str, found: &mut Findings) {
    if !is_variable_name(name) {
        // It is not shown: it may be the secret itself.
        found.leave_out("it names a variable that is not the name of one".to_owned());
    }
}

/// Drops case and punctuation, in which hosts differ.
fn squeeze(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Keys that concern the host alone.
const IGNORED_KEYS: [&str; 30] = [
    "name",
    "description",
    "alwaysLoad",
    "alwaysAllow",
    "autoApprove",
    "trust",
    "extension",
    "targetAudience",
    "targetServiceAccount",
    "authProviderType",
    "bundled",
    "display_name",
    "dev",
    "gallery",
    "version",
    "source",
    "settings",
    "required",
    "supports_parallel_tool_calls",
    "experimental_environment",
    "skip_preflight",
    "isActive",
    "icon",
    "iconUrl",
    "logging",
    "tokenCacheDir",
    "clientName",
    "$schema",
    "registry",
    "id",
];
