//! Writes the report: a file without secrets, to attach to a bug.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::SystemTime;

use bowline::Server;
use bowline::config::{AuthSettings, Grant, Program, Redirect, TokenSource, Transport};
use bowline_hosts::{redact_tokens, secret_values_in_pair, secret_values_in_words};
use bowline_transport::{REDACTED, Redactor, is_word};
use url::Url;

use super::check::Check;
use super::{Examination, ServerExamination, installation, render};
use crate::env;
use crate::failure::{Failure, Outcome};
use crate::print::{clock, json};
use crate::settings::Settings;

/// Fails if the report could not be written there, before any check is made.
pub(super) fn check_path(path: &Path) -> Outcome<()> {
    if path.symlink_metadata().is_ok() {
        let message = format!("{} exists already, and is not overwritten", path.display());
        return Err(Failure::usage_hint(message, "name another file: --report=FILE"));
    }
    Ok(())
}

/// Writes the report for its owner only. An existing file is not overwritten.
pub(super) fn write(path: &Path, text: &str) -> Outcome<()> {
    let written = create_private(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::file(path, &error.to_string()))
}

fn create_private(path: &Path) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Formats the report. The secrets of `servers` are removed from it, and the user's home folder.
pub(super) fn format<'a>(
    examination: &Examination,
    servers: impl IntoIterator<Item = &'a Server>,
    settings: &Settings,
) -> String {
    let mut out = String::new();
    // Before it is laid out: a secret that is wrapped or escaped would not be found.
    let examination = SecretRedactor::new(servers).redact_examination(examination);
    let text = render::plain_text(&examination, REPORT_WIDTH);
    let data = json::pretty(&render::to_json(&examination).to_string());
    let made = clock::utc(SystemTime::now());
    write!(
        out,
        "# bowline doctor\n\n{}, {made}\n\n```text\n{}```\n\n```json\n{}\n```\n",
        installation::version(),
        text.replace("```", "` ` `"),
        data.trim_end().replace("```", "` ` `"),
    )
    .expect("writing to a string");
    match env::home_folder(&*settings.env) {
        Some(home) if home.components().count() > 1 => out.replace(&home.display().to_string(), "~"),
        _ => out,
    }
}

const REPORT_WIDTH: usize = 100;

/// Removes from a report what may be a secret in the configuration of its servers, and what has the shape of a token.
struct SecretRedactor {
    /// What may be a secret, the longest first.
    values: Vec<String>,
    /// One for each [`SECRETS_PER_REDACTOR`] values.
    redactors: Vec<Redactor>,
    /// Secrets that are too short for a [`Redactor`]. They are removed where they are a word of their own.
    short_secrets: Vec<String>,
    /// Queries of URLs with their question mark, the longest first. They are removed however short they are.
    queries: Vec<String>,
}

/// What may be a secret in the configuration of servers. Words among it are removed as well, which does no harm.
#[derive(Default)]
struct SecretValues {
    values: BTreeSet<String>,
    short_secrets: BTreeSet<String>,
    /// Queries of URLs with their question mark.
    queries: BTreeSet<String>,
}

/// A redactor takes no more secrets than this.
const SECRETS_PER_REDACTOR: usize = 64;
/// A redactor takes no shorter secrets than this, in bytes.
const MIN_SECRET_BYTES: usize = 8;
/// Shortest secret that is removed, and shortest beginning of one at the end of a line, in bytes: less reveals nothing.
const MIN_SHORT_SECRET_BYTES: usize = 4;
/// A line of this many characters may have been cut.
const MIN_CUT_LINE_CHARS: usize = 160;
/// Values of variables that are called like a secret and are none.
const ORDINARY_VALUES: [&str; 4] = ["false", "none", "null", "true"];

// === impl SecretRedactor ===

impl SecretRedactor {
    fn new<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Self {
        let mut secrets = SecretValues::default();
        servers.into_iter().for_each(|server| secrets.add_server(server));
        let by_length = |texts: BTreeSet<String>| {
            let mut texts: Vec<String> = texts.into_iter().collect();
            texts.sort_by_key(|text| Reverse(text.len()));
            texts
        };
        let values = by_length(secrets.values);
        Self {
            redactors: values.chunks(SECRETS_PER_REDACTOR).map(Redactor::new).collect(),
            values,
            short_secrets: by_length(secrets.short_secrets),
            queries: by_length(secrets.queries),
        }
    }

    fn redact_examination(&self, examination: &Examination) -> Examination {
        let checks = |checks: &[Check]| checks.iter().map(|check| self.redact_check(check)).collect();
        let servers = examination.servers.iter().map(|server| ServerExamination {
            name: self.redact(&server.name),
            transport: server.transport,
            target: self.redact(&server.target),
            checks: checks(&server.checks),
        });
        Examination { installation: checks(&examination.installation), servers: servers.collect() }
    }

    fn redact_check(&self, check: &Check) -> Check {
        let mut shown = check.clone();
        let finding = &mut shown.finding;
        let remedy =
            finding.remedy.iter_mut().flat_map(|it| std::iter::once(&mut it.text).chain(&mut it.command));
        for text in std::iter::once(&mut finding.seen).chain(&mut finding.details).chain(remedy) {
            *text = self.redact(text);
        }
        shown
    }

    fn redact(&self, text: &str) -> String {
        let mut shown = redact_queries(text);
        for query in &self.queries {
            shown = shown.replace(query, &format!("?{REDACTED}"));
        }
        for redactor in &self.redactors {
            shown = redactor.redact_text(&shown).into_owned();
        }
        for secret in &self.short_secrets {
            shown = replace_word(&shown, secret);
        }
        // What a server prints may be a secret that only the server knows.
        redact_tokens(&self.redact_cut_end(shown))
    }

    /// Removes the beginning of a secret from the end of a line that may have been cut there.
    fn redact_cut_end(&self, line: String) -> String {
        let text = line.trim_end_matches('…');
        if text.len() == line.len() && text.chars().count() < MIN_CUT_LINE_CHARS {
            return line;
        }
        let beginning = |value: &String| {
            let lengths = MIN_SHORT_SECRET_BYTES..value.len();
            lengths.rev().find(|length| value.get(..*length).is_some_and(|start| text.ends_with(start)))
        };
        match self.values.iter().filter_map(beginning).max() {
            Some(length) => {
                format!("{}{REDACTED}{}", &text[..text.len() - length], &line[text.len()..])
            }
            None => line,
        }
    }
}

/// Replaces a secret where it is a word of its own.
fn replace_word(text: &str, secret: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.match_indices(secret) {
        let (before, after) = (&text[..at], &text[at + secret.len()..]);
        if !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric) {
            shown.extend([&text[from..at], REDACTED]);
            from = at + secret.len();
        }
    }
    shown + &text[from..]
}

/// Removes the queries and fragments of all URLs from a text. A URL that was typed is in commands as it was typed, so
/// its query need not be written as in the configuration.
fn redact_queries(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(colon) = rest.find("://") {
        let before = rest[..colon].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let end = find_url_end(rest, colon, before.ends_with('\''));
        let (url, after) = rest.split_at(end);
        match url[colon..].find(['?', '#']).map(|at| url.split_at(colon + at + 1)) {
            Some((address, query)) => {
                // A sentence may go on after the URL.
                let secret = query.trim_end_matches(['.', ',', ';', ':', ')', ']', '`']);
                let replacement = if secret.is_empty() { "" } else { REDACTED };
                shown.extend([address, replacement, &query[secret.len()..]]);
            }
            None => shown.push_str(url),
        }
        rest = after;
    }
    shown + rest
}

/// Finds the end of the URL whose scheme ends at `colon`, in quotation marks of a shell or without.
fn find_url_end(text: &str, colon: usize, is_quoted: bool) -> usize {
    // How a quotation mark is written within quotation marks.
    const ESCAPED_QUOTE: &str = r"'\''";
    let mut from = colon;
    while let Some(quote) = text[from..].find('\'').filter(|_| is_quoted) {
        if !text[from + quote..].starts_with(ESCAPED_QUOTE) {
            return from + quote;
        }
        from += quote + ESCAPED_QUOTE.len();
    }
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>');
    text[colon..].find(is_end).map_or(text.len(), |at| colon + at)
}

// === impl SecretValues ===

impl SecretValues {
    fn add_server(&mut self, server: &Server) {
        match &server.transport {
            Transport::Stdio(program) => self.add_program(program),
            Transport::Http(http) | Transport::Sse(http) => {
                for (name, value) in &http.headers {
                    self.add_pair(name, value.expose());
                    self.add(Redactor::secret_in_header(value.expose()));
                }
                self.add_url(&http.url);
                if let Some(command) = &http.headers_command {
                    self.add_program(&command.program);
                }
                self.add_auth(&http.auth);
            }
            _ => {}
        }
    }

    fn add(&mut self, value: &str) {
        self.values.insert(value.to_owned());
        if value.contains('\'') {
            // As in a command.
            self.values.insert(value.replace('\'', r"'\''"));
        }
    }

    /// Adds what is called a secret or looks like one, however short it is.
    fn add_secret(&mut self, value: &str) {
        let is_short = (MIN_SHORT_SECRET_BYTES..MIN_SECRET_BYTES).contains(&value.len());
        if is_short && !ORDINARY_VALUES.contains(&value) {
            self.short_secrets.insert(value.to_owned());
        }
        self.add(value);
        // Of a user with a password, the password is used alone as well.
        if let Some((_, password)) = value.split_once(':') {
            self.add(password);
        }
    }

    /// Adds a text of any form: as a whole, and its parts that are no words, which a server may repeat alone. A path is
    /// not added: it only says where something is.
    fn add_text(&mut self, text: &str) {
        let is_path = |text: &str| text.starts_with('/') || text.starts_with("~/");
        if is_path(text) {
            return;
        }
        self.add(text);
        for word in text.split(|c: char| c.is_whitespace() || "\"'`<>".contains(c)) {
            let url = word.split_once("://").and_then(|(before, after)| {
                let is_outside = |c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c);
                let scheme = before.rsplit(is_outside).next()?;
                Url::parse(&format!("{scheme}://{after}")).ok()
            });
            if let Some(url) = url {
                self.add_url(&url);
            }
            let parts = word.split(|c: char| "=:,;&|(){}[]".contains(c));
            parts.filter(|part| !is_word(part) && !is_path(part)).for_each(|part| self.add(part));
        }
    }

    /// Adds the value of a variable or header.
    fn add_pair(&mut self, name: &str, value: &str) {
        self.add_text(value);
        for secret in secret_values_in_pair(name, value) {
            self.add_named_secret(&secret);
        }
    }

    /// Adds what is called a secret, unless it is the path of a file.
    fn add_named_secret(&mut self, value: &str) {
        // A key in base64 may begin with a slash too.
        let is_path = value.starts_with("~/")
            || (value.starts_with('/') && (value.contains('.') || Path::new(value).exists()));
        if !is_path {
            self.add_secret(value);
        }
    }

    /// Adds arguments and variables. The command may have arguments in it.
    fn add_program(&mut self, program: &Program) {
        let Program { command, args, env, .. } = program;
        for arg in args {
            self.add_text(arg);
            arg.split_once('=').into_iter().for_each(|(_, value)| self.add_text(value));
        }
        let words: Vec<String> = std::iter::once(command).chain(args).cloned().collect();
        for secret in secret_values_in_words(&words) {
            self.add_named_secret(&secret);
        }
        for (name, value) in env {
            self.add_pair(name, value.expose());
        }
    }

    fn add_auth(&mut self, auth: &AuthSettings) {
        if let Some(client) = &auth.client {
            let key = client.key.as_ref().map(|key| &key.pem);
            client.secret.iter().chain(key).for_each(|secret| self.add_secret(secret.expose()));
        }
        match &auth.grant {
            Grant::Enterprise(idp) => {
                self.add_url(&idp.token_endpoint);
                idp.client_secret.iter().for_each(|secret| self.add_secret(secret.expose()));
                self.add_token_source(&idp.id_token);
            }
            Grant::Workload(assertion) => self.add_token_source(assertion),
            Grant::Person | Grant::Device | Grant::ClientCredentials | Grant::Off => {}
        }
        auth.authorize_params.iter().for_each(|(_, value)| self.add(value));
        auth.client_metadata_url.iter().for_each(|url| self.add_url(url));
        if let Redirect::Uri(url) = &auth.redirect {
            self.add_url(url);
        }
    }

    fn add_token_source(&mut self, source: &TokenSource) {
        match source {
            TokenSource::Value(token) => self.add_secret(token.expose()),
            TokenSource::Command(program) => self.add_program(program),
            _ => {}
        }
    }

    /// Adds the user and password, the query and its parts, as they are written and as they are read, and the parts of
    /// the path that are no words.
    fn add_url(&mut self, url: &Url) {
        let segments = url.path_segments().into_iter().flatten().filter(|segment| !is_word(segment));
        segments.for_each(|segment| self.add_secret(segment));
        self.add(url.username());
        url.password().into_iter().for_each(|password| self.add_secret(password));
        let Some(query) = url.query().filter(|query| !query.is_empty()) else { return };
        self.queries.insert(format!("?{query}"));
        self.add(query);
        let written = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let written = written.map(|(name, value)| (name.into(), value.into()));
        for (name, value) in written.chain(url.query_pairs()) {
            if value.is_empty() || !is_word(&name) {
                self.add(&name);
            }
            self.add(&value);
            for secret in secret_values_in_pair(&name, &value) {
                self.add_secret(&secret);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bowline::config::{ClientSettings, HeadersCommand, Idp, SigningKey};
    use bowline_config::TransportSettings as _;
    use bowline_testkit::with;

    use super::*;
    use crate::commands::doctor::check::Finding;

    #[test]
    fn every_slot_of_an_entry_is_taken_for_a_secret() {
        let http = Server::http("docs", "https://docs.example/path-secret-0123/mcp?key=query-secret")
            .build()
            .unwrap();
        let http = http.with_header("authorization", "Bearer header-secret").unwrap();
        let stdio =
            Server::stdio("files", "server").args(["--key=argument-secret", "/home/a"]).build().unwrap();
        let stdio = stdio.with_env("TOKEN", "variable-secret").unwrap();
        let redactor = SecretRedactor::new([&http, &stdio]);
        let text = "path-secret-0123 query-secret header-secret --key=argument-secret argument-secret \
                    variable-secret /home/a";
        let shown = "[redacted] [redacted] [redacted] [redacted] [redacted] [redacted] /home/a";
        assert_eq!(redactor.redact(text), shown);
    }

    #[test]
    fn programs_and_keys_of_an_entry_are_taken_for_secrets() {
        let program = |name: &str| {
            let mut program = Program::new("print", [format!("--key={name}-argument")]);
            program.env.insert("TOKEN".to_owned(), format!("{name}-variable").into());
            program
        };
        let server =
            |auth: AuthSettings| Server::http("docs", "https://docs.example/mcp").auth(auth).build().unwrap();
        let client = with!(ClientSettings::new("me"), secret: Some("client-secret".into()),
            key: Some(SigningKey::new("-----BEGIN PRIVATE KEY-----\nprivate-key-line\n")));
        let endpoint = "https://login.example/token?key=endpoint-query".parse().unwrap();
        let idp = with!(Idp::new(endpoint, "me", TokenSource::Value("id-token-value".into())),
            client_secret: Some("idp-client-secret".into()));
        let client = with!(AuthSettings::default(), client: Some(client),
            authorize_params: vec![("hint".to_owned(), "parameter-value".to_owned())]);
        let auths = [
            client,
            with!(AuthSettings::default(), grant: Grant::Enterprise(idp)),
            with!(AuthSettings::default(), grant: Grant::Workload(TokenSource::Command(program("assertion")))),
        ];
        let mut servers = auths.map(server).to_vec();
        let headers = HeadersCommand::new(program("headers"));
        servers
            .push(Server::http("docs", "https://docs.example/mcp").headers_command(headers).build().unwrap());
        let redactor = SecretRedactor::new(&servers);
        for secret in [
            "headers-argument",
            "headers-variable",
            "client-secret",
            "private-key-line",
            "parameter-value",
            "endpoint-query",
            "id-token-value",
            "idp-client-secret",
            "assertion-argument",
            "assertion-variable",
        ] {
            assert_eq!(redactor.redact(&format!("said {secret}.")), "said [redacted].", "{secret}");
        }
    }

    #[test]
    fn secrets_within_arguments_and_variables_are_redacted() {
        let headers = ["--header", "X-Team: blue", "-H", "Authorization: Bearer header-secret"];
        let args =
            [&["--token", "hush-1", "--key=/k3y+1", "-c", "X_KEY=In51de0f-Script exec s"][..], &headers];
        let url = "https://argument.example/mcp/abcdefghijklmnopqrstuvwxyzabcdef/sse?k=q1";
        let stdio = Server::stdio("files", "python3 x --token in-command").args(args.concat()).args([url]);
        let stdio = stdio.build().unwrap().with_env("DATABASE", "postgres://u:p4ssword@h/d").unwrap();
        let stdio = stdio.with_env("A_TOKEN", "true").unwrap();
        let redactor = SecretRedactor::new([&stdio]);
        for secret in [
            "hush-1",
            "/k3y+1",
            "In51de0f-Script",
            "header-secret",
            "/mcp/abcdefghijklmnopqrstuvwxyzabcdef/sse",
            "p4ssword",
            "in-command",
        ] {
            let said = redactor.redact(&format!("said {secret}, then."));
            let shown = if secret.starts_with("/mcp") { "/mcp/[redacted]/sse" } else { REDACTED };
            assert_eq!(said, format!("said {shown}, then."), "{secret}");
        }
        // A short one only where it is a word, and no ordinary word.
        assert_eq!(redactor.redact("hush-12 is true, hush-1"), "hush-12 is true, [redacted]");
    }

    #[test]
    fn words_that_look_like_tokens_are_redacted() {
        let redactor = SecretRedactor::new([]);
        let said =
            "stderr: key sk-live-S3CR3T0123456789 for https://u:p@h/mcp, /usr/lib/node_modules/server.js:10";
        let shown = "stderr: key [redacted] for https://[redacted]@h/mcp, /usr/lib/node_modules/server.js:10";
        assert_eq!(redactor.redact(said), shown);
    }

    #[test]
    fn beginning_of_a_secret_is_redacted_where_a_line_is_cut() {
        let server = Server::stdio("s", "server").args(["argument-secret"]).build().unwrap();
        let redactor = SecretRedactor::new([&server]);
        assert_eq!(redactor.redact("said argument-sec…"), "said [redacted]…");
        let line = "a ".repeat(80);
        assert_eq!(redactor.redact(&format!("{line}argument-sec")), format!("{line}[redacted]"));
        assert_eq!(redactor.redact("said argument"), "said argument");
    }

    #[test]
    fn query_of_any_form_is_redacted() {
        for (query, echoed) in [
            ("S3CR3Tnoval", "S3CR3Tnoval"),
            ("S3CR3T=x", "S3CR3T=x"),
            ("S3CR3T0123456=x", "S3CR3T0123456"),
            ("key=%533CR3T0abcdef", "S3CR3T0abcdef"),
            ("key=%533CR3T0abcdef", "%533CR3T0abcdef"),
            ("key=S3C'R3T", "S3C%27R3T"),
            ("a=S3C", "/mcp?a=S3C"),
        ] {
            let url = format!("https://h/mcp?{query}");
            let server = Server::http("h", &url).build().unwrap();
            let redactor = SecretRedactor::new([&server]);
            let written = server.transport.http().unwrap().url.clone();
            let quoted = crate::suggested_command::shell_quote(&url);
            let text = format!("run: bowline doctor {quoted} -vv; see {written}: refused");
            let shown = redactor.redact(&text).replace('\'', "");
            assert_eq!(
                shown,
                "run: bowline doctor https://h/mcp?[redacted] -vv; see https://h/mcp?[redacted]: refused"
            );
            let shown = redactor.redact(&format!("no {echoed} here"));
            let place = if echoed.starts_with('/') { "/mcp?" } else { "" };
            assert_eq!(shown, format!("no {place}[redacted] here"));
        }
    }

    #[test]
    fn only_queries_are_removed_from_urls() {
        for (text, shown) in [
            ("is it http://h? Yes", "is it http://h? Yes"),
            ("(http://h/a?b=c) d?e", "(http://h/a?[redacted]) d?e"),
            (r#"{"a":"https://h/?b","c":"d"}"#, r#"{"a":"https://h/?[redacted]","c":"d"}"#),
            (r"run 'https://h/?a=b c'\''d e' f", "run 'https://h/?[redacted]' f"),
            ("https://h/#b https://h/c", "https://h/#[redacted] https://h/c"),
        ] {
            assert_eq!(redact_queries(text), shown);
        }
    }

    #[test]
    fn secrets_of_many_servers_are_redacted() {
        let servers: Vec<Server> = (100..300)
            .map(|n| Server::stdio("s", "server").args([format!("secret-{n}")]).build().unwrap())
            .collect();
        let redactor = SecretRedactor::new(&servers);
        assert_eq!(redactor.redact("secret-100 secret-299 secret-300"), "[redacted] [redacted] secret-300");
    }

    #[test]
    fn every_text_of_an_examination_is_redacted() {
        let server = Server::stdio("s", "server").args(["argument-secret"]).build().unwrap();
        let text = || "argument-secret".to_owned();
        let finding = Finding::ok(text()).details([text()]).fix(text()).run(text());
        let check = Check { name: "tcp", duration: std::time::Duration::ZERO, finding };
        let examined = ServerExamination {
            name: text(),
            transport: "stdio",
            target: text(),
            checks: vec![check.clone()],
        };
        let examination = Examination { installation: vec![check], servers: vec![examined] };
        let shown = SecretRedactor::new([&server]).redact_examination(&examination);
        let shown = render::to_json(&shown).to_string();
        assert!(!shown.contains("argument-secret"), "{shown}");
        assert_eq!(shown.matches(REDACTED).count(), 10, "{shown}");
    }
}
