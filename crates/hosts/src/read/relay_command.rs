//! Recognizes commands that relay a URL: `npx mcp-remote URL …` and `bowline connect URL …`. Their
//! entries become entries with that URL.

use bowline_config::tree::Value;
use bowline_settings::EntryValue;

use super::auth::LoginKeys;
use super::findings::Findings;
use super::placeholder::{Piece, Translator, is_variable_name, join, variable};
use super::server_entry::EndpointEntry;

/// What the command of an entry is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// A relay to a URL, with its arguments.
    Relay(Vec<String>),
    /// Bowline in front of another command.
    Wrapped(Vec<String>),
    /// Bowline itself, for this reason not to be imported.
    Own(&'static str),
    /// A server.
    Server,
}

/// Finds out what a command is from its words.
pub(super) fn classify_command(words: &[String]) -> CommandKind {
    let Some((program, args)) = strip_runner(words) else { return CommandKind::Server };
    match program.as_str() {
        "mcp-remote" if args.iter().any(|arg| arg.contains("://")) => CommandKind::Relay(args.to_vec()),
        "bowline" | "bowline-mcp" => classify_own(args),
        _ => CommandKind::Server,
    }
}

fn classify_own(args: &[String]) -> CommandKind {
    let mut words = args.iter();
    let mut verb = None;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--config" | "--color" | "--output" => drop(words.next()),
            option if option.starts_with('-') => {}
            word => {
                verb = Some(word);
                break;
            }
        }
    }
    if verb != Some("connect") {
        return CommandKind::Own("it is bowline itself");
    }
    let rest: Vec<String> = words.cloned().collect();
    if let Some(at) = rest.iter().position(|word| word == "--") {
        return CommandKind::Wrapped(rest[at + 1..].to_vec());
    }
    if rest.iter().any(|word| word.contains("://") && !word.contains(' ')) {
        return CommandKind::Relay(rest);
    }
    CommandKind::Own("it is a server of bowline already")
}

/// Returns the program that a package runner runs, by its name without a version, and its arguments.
fn strip_runner(words: &[String]) -> Option<(String, &[String])> {
    let (first, rest) = words.split_first()?;
    match program_name(first).as_str() {
        "cmd" => {
            let at = rest.iter().position(|word| !word.starts_with('/'))?;
            strip_runner(&rest[at..])
        }
        "npx" | "pnpx" | "bunx" | "uvx" => strip_options(rest),
        "npm" | "pnpm" | "yarn" | "bun" | "pipx" => {
            let (verb, rest) = rest.split_first()?;
            matches!(verb.as_str(), "exec" | "x" | "dlx" | "run").then_some(())?;
            strip_options(rest)
        }
        "node" | "deno" => {
            let (script, rest) = rest.split_first()?;
            let is_relay = script.replace('\\', "/").split('/').any(|part| part == "mcp-remote");
            is_relay.then(|| ("mcp-remote".to_owned(), rest))
        }
        program => Some((program.to_owned(), rest)),
    }
}

/// Returns the package that follows the options of a runner.
fn strip_options(words: &[String]) -> Option<(String, &[String])> {
    let mut rest = words;
    loop {
        let (word, after) = rest.split_first()?;
        rest = match word.as_str() {
            "-p" | "--package" | "--from" | "--python" => after.get(1..)?,
            option if option.starts_with('-') => after,
            package => {
                // The scope of a package begins with the sign, too.
                let name = package.get(1..)?.find(['@', '=']).map_or(package, |at| &package[..=at]);
                return Some((name.to_owned(), after));
            }
        };
    }
}

/// The name of a program without its folder and extension.
pub(super) fn program_name(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word).to_ascii_lowercase();
    let stem = [".exe", ".cmd", ".bat", ".ps1"].iter().find_map(|end| name.strip_suffix(end));
    stem.map(ToOwned::to_owned).unwrap_or(name)
}

/// The arguments of a relay.
#[derive(Default)]
struct RelayArgs {
    url: Option<String>,
    port: Option<u16>,
    headers: Vec<(String, String)>,
    transport: Option<&'static str>,
    allow_http: bool,
    resource: Option<String>,
    client_info: Option<String>,
    client_metadata: Option<String>,
    client_metadata_url: Option<String>,
    is_client_credentials: bool,
    names_no_resource: bool,
    authorize_params: Vec<(String, String)>,
    callback_host: Option<String>,
    callback_path: Option<String>,
    ca_file: Option<String>,
    hidden_tools: Vec<String>,
}

impl RelayArgs {
    fn parse(args: &[String], found: &mut Findings) -> Self {
        let mut parsed = Self::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let (option, assigned) = match word.split_once('=') {
                Some((option, value)) if word.starts_with("--") => (option, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let mut value = || assigned.clone().or_else(|| words.next().cloned());
            match option {
                "--header" | "-H" => match value().as_deref().and_then(|header| header.split_once(':')) {
                    Some((name, value)) => {
                        parsed.headers.push((name.trim().to_owned(), value.trim().to_owned()));
                    }
                    None => found.leave_out("one of its headers has no `:`".to_owned()),
                },
                "--transport" => {
                    parsed.transport = match value().as_deref() {
                        Some("sse-only") => Some("sse"),
                        Some("http-only") => Some("http"),
                        _ => None,
                    }
                }
                "--resource" => parsed.resource = value(),
                "--static-oauth-client-info" => parsed.client_info = value(),
                "--static-oauth-client-metadata" => parsed.client_metadata = value(),
                "--client-metadata-url" => parsed.client_metadata_url = value(),
                "--client-credentials" => parsed.is_client_credentials = true,
                "--disable-resource-parameter" => parsed.names_no_resource = true,
                "--authorize-param" => {
                    let param = value();
                    let param = param.as_deref().and_then(|param| param.split_once('='));
                    parsed
                        .authorize_params
                        .extend(param.map(|(key, value)| (key.to_owned(), value.to_owned())));
                }
                "--host" => parsed.callback_host = value(),
                "--callback-path" => parsed.callback_path = value(),
                "--ca-file" => parsed.ca_file = value(),
                "--header-file" => {
                    drop(value());
                    found.attend("its headers are in another file: set `headers`".to_owned());
                }
                "--ignore-tool" => parsed.hidden_tools.extend(value()),
                "--allow-http" => parsed.allow_http = true,
                "--auth-timeout" | "--timeout" | "--max-timeout" | "--connect-timeout"
                | "--headers-timeout" | "--body-timeout" | "--ping-interval" | "--auth-success-url"
                | "--reconnect-wait" | "--protocol" | "--env" | "-e" => drop(value()),
                "--token-endpoint" => {
                    drop(value());
                    found.note("`--token-endpoint` is not used".to_owned());
                }
                "--debug" | "--silent" | "--enable-proxy" | "--keep-alive" | "--device-code" | "-v"
                | "-q" => {}
                unknown if unknown.starts_with('-') => {
                    found.note(format!("`{}` is not used", option_name(unknown)));
                }
                url if parsed.url.is_none() && url.contains("://") => parsed.url = Some(word.clone()),
                other => parsed.port = other.parse().ok().or(parsed.port),
            }
        }
        parsed
    }
}

/// The name of an option, without a value that is attached to it and may be a secret.
fn option_name(word: &str) -> &str {
    let end = match word.strip_prefix("--") {
        Some(_) => word.find(|c: char| c == '=' || c == ':' || c.is_whitespace()),
        // One letter; the rest of the word is its value.
        None => word.char_indices().nth(2).map(|(at, _)| at),
    };
    &word[..end.unwrap_or(word.len())]
}

/// A relay as an entry with its URL, and the tools that it hides.
pub(super) fn read_relay(
    args: &[String],
    env: &[(String, String)],
    translator: &Translator<'_>,
    found: &mut Findings,
) -> (EndpointEntry, Vec<String>) {
    let args = RelayArgs::parse(args, found);
    let mut used = Vec::new();
    let mut endpoint = EndpointEntry {
        url: translator.translate(&args.url.unwrap_or_default(), found),
        transport: args.transport,
        allow_http: args.allow_http,
        ..EndpointEntry::default()
    };
    for (name, value) in &args.headers {
        let value = fill_header(value, env, &mut used, translator, found);
        endpoint.headers.push((name.clone(), value));
    }
    let mut login = LoginKeys::default();
    if let Some(info) = args.client_info {
        match parse_object(&info) {
            Some(info) => {
                for (key, name) in [("client_id", "client_id"), ("client_secret", "client_secret")] {
                    if let Some(text) = info.get(key).and_then(serde_json::Value::as_str) {
                        login.set_text(name, translator.translate(text, found));
                    }
                }
                if let Some(port) = args.port {
                    let host = args.callback_host.as_deref().unwrap_or("localhost");
                    let path = args.callback_path.as_deref().unwrap_or("/oauth/callback");
                    login.set_text("redirect_uri", format!("http://{host}:{port}{path}"));
                }
            }
            None => found.attend("its OAuth client is in another file: set `auth.client_id`".to_owned()),
        }
    }
    if let Some(metadata) = args.client_metadata.as_deref().and_then(parse_object)
        && let Some(scope) = metadata.get("scope").and_then(serde_json::Value::as_str)
    {
        login.set_scopes(&Value::String(scope.to_owned()), translator, found);
    }
    if let Some(url) = args.client_metadata_url {
        login.set_text("client_metadata_url", translator.translate(&url, found));
    }
    if args.is_client_credentials {
        login.set_text("grant", "client-credentials".to_owned());
    }
    if !args.authorize_params.is_empty() {
        let params = args.authorize_params.iter();
        let params = params.map(|(key, value)| (key.clone(), translator.translate(value, found))).collect();
        login.set("authorize_params", EntryValue::Table(params));
    }
    if args.names_no_resource {
        login.set("resource", EntryValue::Flag(false));
    }
    if let Some(path) = args.ca_file {
        endpoint.tls.push(("ca_file", translator.translate(&path, found)));
    }
    if let Some(resource) = args.resource {
        login.set("resource", EntryValue::Text(translator.translate(&resource, found)));
    }
    endpoint.auth = login.finish(found);
    for (name, value) in env.iter().filter(|(name, _)| !used.contains(name)) {
        match name.as_str() {
            "NODE_EXTRA_CA_CERTS" => endpoint.tls.push(("ca_file", translator.translate(value, found))),
            "NODE_TLS_REJECT_UNAUTHORIZED" if value == "0" => {
                found.attend("it accepts any certificate: set `ca_file`".to_owned());
            }
            "MCP_REMOTE_CONFIG_DIR" | "NODE_OPTIONS" => {}
            other => found.note(format!("the variable `{other}` is not used, since nothing is started")),
        }
    }
    found.note("it was relayed by a command, and is now reached directly".to_owned());
    (endpoint, args.hidden_tools)
}

/// Fills in the variables of a header: relays take them from the environment that the host gives them.
fn fill_header(
    value: &str,
    env: &[(String, String)],
    used: &mut Vec<String>,
    translator: &Translator<'_>,
    found: &mut Findings,
) -> String {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut rest = value;
    let mut literal_end = 0;
    while let Some(at) = rest[literal_end..].find("${").map(|at| at + literal_end) {
        let inner = &rest[at + 2..];
        let Some((name, after)) = inner.split_once('}').filter(|(name, _)| is_variable_name(name)) else {
            literal_end = at + 2;
            continue;
        };
        pieces.extend(translator.split(&rest[..at], found));
        match env.iter().find(|(own, _)| own == name) {
            Some((_, value)) => {
                used.push(name.to_owned());
                pieces.extend(translator.split(value, found));
            }
            None => pieces.push(variable(name)),
        }
        (rest, literal_end) = (after, 0);
    }
    pieces.extend(translator.split(rest, found));
    join(pieces, found)
}

fn parse_object(text: &str) -> Option<serde_json::Map<String, serde_json::Value>> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(ToOwned::to_owned).collect()
    }

    #[test]
    fn value_of_an_unknown_option_is_not_quoted() {
        for (word, name) in [
            ("-HAuthorization: Bearer T", "-H"),
            ("--header=Authorization: Bearer T", "--header"),
            ("--ipv4", "--ipv4"),
            ("-é1", "-é"),
            ("-", "-"),
        ] {
            assert_eq!(option_name(word), name);
        }
    }

    #[test]
    fn relays_are_recognized_behind_every_runner() {
        for line in [
            "npx mcp-remote https://h/mcp",
            "npx -y mcp-remote@latest https://h/mcp",
            "npx --yes -p mcp-remote@0.1 mcp-remote https://h/mcp",
            "/usr/local/bin/npx -- mcp-remote https://h/mcp",
            "bunx mcp-remote https://h/mcp",
            "bun x mcp-remote https://h/mcp",
            "pnpm dlx mcp-remote https://h/mcp",
            "yarn dlx mcp-remote https://h/mcp",
            "npm exec mcp-remote https://h/mcp",
            "cmd /c npx -y mcp-remote https://h/mcp",
            "CMD.EXE /d /c npx.cmd mcp-remote https://h/mcp",
            "mcp-remote https://h/mcp",
            "node /x/node_modules/mcp-remote/dist/proxy.js https://h/mcp",
            "bowline connect https://h/mcp",
            "npx -y bowline connect https://h/mcp",
            "uvx bowline-mcp connect https://h/mcp",
            "/opt/bowline -q connect https://h/mcp",
        ] {
            assert_eq!(classify_command(&words(line)), CommandKind::Relay(words("https://h/mcp")), "{line}");
        }
    }

    #[test]
    fn bowline_itself_is_recognized() {
        for (line, expected) in [
            ("bowline serve --stdio", CommandKind::Own("it is bowline itself")),
            ("bowline --config x serve", CommandKind::Own("it is bowline itself")),
            ("npx bowline@1 serve --stdio", CommandKind::Own("it is bowline itself")),
            ("bowline connect files", CommandKind::Own("it is a server of bowline already")),
            ("bowline connect -- uvx a https://h/", CommandKind::Wrapped(words("uvx a https://h/"))),
            ("npx -y @scope/server https://h/", CommandKind::Server),
            ("npx", CommandKind::Server),
            ("npx -y", CommandKind::Server),
            ("cmd /c", CommandKind::Server),
            ("node server.js", CommandKind::Server),
            ("mcp-remote", CommandKind::Server),
        ] {
            assert_eq!(classify_command(&words(line)), expected, "{line}");
        }
        assert_eq!(classify_command(&[]), CommandKind::Server);
    }
}
