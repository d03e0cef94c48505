//! [`ServerEntry`]: a server of a host in the keys and placeholders of our own configuration.

use std::fmt;

use bowline_settings::{EntryValue, shell_quote};

use super::secrets::{
    REDACTED, SecretPart, find_in_args, find_in_command, find_in_url, find_in_value, find_in_variables,
};

/// An entry for our own configuration. Values are in our syntax; they may be secrets, so `Debug` shows
/// the redacted form.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// How the server is reached.
    pub(crate) target: Target,
    /// `timeout`, `connect_timeout` and other lengths of time.
    pub(crate) times: Vec<(&'static str, String)>,
    /// The tools that are exposed; `None` is all of them.
    pub(crate) enabled_tools: Option<Vec<String>>,
    pub(crate) disabled_tools: Vec<String>,
    /// `prompts`, `resources` and other settings that a host turns off.
    pub(crate) flags: Vec<(&'static str, EntryValue)>,
    pub(crate) is_enabled: bool,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Program(ProgramEntry),
    Endpoint(EndpointEntry),
}

#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ProgramEntry {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: Option<String>,
    /// Whether the folder follows from where the file is, and is not written in it.
    pub(crate) is_cwd_implied: bool,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct EndpointEntry {
    pub(crate) url: String,
    pub(crate) socket: Option<String>,
    pub(crate) transport: Option<&'static str>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) headers_command: Option<HeadersProgram>,
    pub(crate) auth: Login,
    pub(crate) allow_http: bool,
    /// `ca_file`, `client_cert` and `client_key`.
    pub(crate) tls: Vec<(&'static str, String)>,
}

/// A program that prints headers.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct HeadersProgram {
    pub(crate) words: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
}

/// How tokens are obtained.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Login {
    Off,
    /// The keys of `auth`; none if everything is discovered.
    Keys(Vec<(&'static str, EntryValue)>),
}

impl Default for Login {
    fn default() -> Self {
        Self::Keys(Vec::new())
    }
}

/// A secret that was taken out of an entry.
pub struct StoredSecret {
    /// What it is, such as `env-GITHUB_TOKEN`; made of characters that every file system allows.
    pub label: String,
    /// The secret as the server gets it.
    pub value: String,
}

impl StoredSecret {
    /// Whether a text can be the [`label`](Self::label) of a secret, or one with numbers after it.
    pub fn is_label(text: &str) -> bool {
        let mut base = text;
        while let Some((before, number)) = base.rsplit_once('-')
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            base = before;
        }
        matches!(base, "arg" | "client-secret" | "command" | "headers-command" | "url")
            || ["env-", "header-"].iter().any(|start| text.starts_with(start))
    }
}

impl ServerEntry {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            times: Vec::new(),
            enabled_tools: None,
            disabled_tools: Vec::new(),
            flags: Vec::new(),
            is_enabled: true,
        }
    }

    /// Returns the keys of the entry, as they are written into our configuration.
    pub fn keys(&self) -> Vec<(&'static str, EntryValue)> {
        let text = |text: &String| EntryValue::Text(text.clone());
        let mut keys = Vec::new();
        match &self.target {
            Target::Program(ProgramEntry { command, args, env, cwd, is_cwd_implied: _ }) => {
                keys.push(("command", text(command)));
                keys.extend((!args.is_empty()).then(|| ("args", EntryValue::List(args.clone()))));
                keys.extend((!env.is_empty()).then(|| ("env", EntryValue::Table(env.clone()))));
                keys.extend(cwd.as_ref().map(|cwd| ("cwd", text(cwd))));
            }
            Target::Endpoint(endpoint) => {
                keys.push(("url", text(&endpoint.url)));
                keys.extend(endpoint.socket.as_ref().map(|socket| ("socket", text(socket))));
                let transport = endpoint.transport.map(|it| ("transport", EntryValue::Text(it.to_owned())));
                keys.extend(transport);
                let headers = &endpoint.headers;
                keys.extend((!headers.is_empty()).then(|| ("headers", EntryValue::Table(headers.clone()))));
                keys.extend(endpoint.headers_command.as_ref().map(|it| ("headers_command", it.to_value())));
                match &endpoint.auth {
                    Login::Off => keys.push(("auth", EntryValue::Flag(false))),
                    Login::Keys(login) if login.is_empty() => {}
                    Login::Keys(login) => keys.push(("auth", EntryValue::Keys(login.clone()))),
                }
                keys.extend(endpoint.allow_http.then_some(("allow_http", EntryValue::Flag(true))));
                keys.extend(endpoint.tls.iter().map(|(key, path)| (*key, text(path))));
            }
        }
        keys.extend(self.times.iter().map(|(key, time)| (*key, text(time))));
        keys.extend(self.enabled_tools.as_ref().map(|it| ("enabled_tools", EntryValue::List(it.clone()))));
        let disabled = &self.disabled_tools;
        keys.extend((!disabled.is_empty()).then(|| ("disabled_tools", EntryValue::List(disabled.clone()))));
        keys.extend(self.flags.iter().cloned());
        keys.extend((!self.is_enabled).then_some(("enabled", EntryValue::Flag(false))));
        keys
    }

    /// Returns whether the server is used.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Says whether the server is used.
    pub fn set_enabled(&mut self, is_enabled: bool) {
        self.is_enabled = is_enabled;
    }

    /// Returns whether a program is started to use the server.
    pub fn starts_program(&self) -> bool {
        match &self.target {
            Target::Program(_) => true,
            Target::Endpoint(endpoint) => endpoint.headers_command.is_some(),
        }
    }

    /// Returns whether a value of the entry is read from a file.
    pub fn reads_files(&self) -> bool {
        self.keys().iter().any(|(_, value)| names_file(value))
    }

    /// Describes the whole of what would be started or reached, on one line and without secrets.
    pub fn describe(&self) -> String {
        match &self.target {
            Target::Program(program) => {
                let parts = find_in_variables(&program.command, &program.args, &program.env);
                let env =
                    program.env.iter().zip(parts).map(|((name, value), parts)| {
                        shell_quote(&format!("{name}={}", redact(value, parts)))
                    });
                let words = redact_words(&program.command, &program.args);
                let line = env.chain(words).collect::<Vec<_>>().join(" ");
                let cwd = program.cwd.as_ref().map(|cwd| format!(" (in {cwd})")).unwrap_or_default();
                format!("{line}{cwd}")
            }
            Target::Endpoint(endpoint) => {
                let mut out = redact(&endpoint.url, find_in_url(&endpoint.url));
                out.extend(endpoint.socket.iter().map(|socket| format!(" (on {socket})")));
                for (name, value) in &endpoint.headers {
                    out.extend([" (", name, ": ", &redact(value, find_in_value(name, value)), ")"]);
                }
                out.push_str(if endpoint.allow_http { " (credentials also over plain http)" } else { "" });
                if let Some(program) = &endpoint.headers_command {
                    let mut words = program.words.iter();
                    let command = words.next().cloned().unwrap_or_default();
                    let args: Vec<String> = words.cloned().collect();
                    let words: Vec<String> = redact_words(&command, &args).collect();
                    out.extend([" (headers from `", &words.join(" "), "`)"]);
                }
                out
            }
        }
    }

    /// Returns whether the entry has secrets that could be stored elsewhere.
    pub fn has_secrets(&self) -> bool {
        let mut copy = self.clone();
        !copy.take_secrets(&mut |_| String::new()).is_empty()
    }

    /// Takes the secrets out. In the place of each is a `{file:…}` with the path that `path_of` gives for
    /// it. Secrets are what [`describe`](Self::describe) redacts.
    pub fn take_secrets(&mut self, path_of: &mut dyn FnMut(&StoredSecret) -> String) -> Vec<StoredSecret> {
        let mut taken = SecretTaker { path_of, stored: Vec::new() };
        match &mut self.target {
            Target::Program(program) => {
                let parts = find_in_variables(&program.command, &program.args, &program.env);
                for ((name, value), parts) in program.env.iter_mut().zip(parts) {
                    taken.take(&format!("env-{name}"), value, parts);
                }
                taken.take_from_command("command", "arg", &mut program.command, &mut program.args);
            }
            Target::Endpoint(endpoint) => {
                let parts = find_in_url(&endpoint.url);
                taken.take("url", &mut endpoint.url, parts);
                for (name, value) in &mut endpoint.headers {
                    let parts = find_in_value(name, value);
                    taken.take(&format!("header-{name}"), value, parts);
                }
                if let Some([command, args @ ..]) = endpoint.headers_command.as_mut().map(|it| &mut *it.words)
                {
                    taken.take_from_command("headers-command", "headers-command", command, args);
                }
                if let Login::Keys(keys) = &mut endpoint.auth {
                    for (key, value) in keys {
                        if let ("client_secret", EntryValue::Text(value)) = (*key, value) {
                            let parts = find_in_value("client_secret", value);
                            taken.take("client-secret", value, parts);
                        }
                    }
                }
            }
        }
        taken.stored
    }
}

impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerEntry").field(&self.describe()).finish()
    }
}

impl HeadersProgram {
    fn to_value(&self) -> EntryValue {
        let command = EntryValue::List(self.words.clone());
        if self.env.is_empty() {
            return command;
        }
        EntryValue::Keys(vec![("command", command), ("env", EntryValue::Table(self.env.clone()))])
    }
}

/// Whether a value has a placeholder for a file.
fn names_file(value: &EntryValue) -> bool {
    let is_file = |text: &String| text.contains("{file:");
    match value {
        EntryValue::Text(text) => is_file(text),
        EntryValue::List(texts) => texts.iter().any(is_file),
        EntryValue::Table(pairs) => pairs.iter().any(|(_, text)| is_file(text)),
        EntryValue::Keys(keys) => keys.iter().any(|(_, value)| names_file(value)),
        EntryValue::Flag(_) | EntryValue::Number(_) => false,
    }
}

struct SecretTaker<'p> {
    path_of: &'p mut dyn FnMut(&StoredSecret) -> String,
    stored: Vec<StoredSecret>,
}

impl SecretTaker<'_> {
    fn take_from_command(&mut self, label: &str, arg_label: &str, command: &mut String, args: &mut [String]) {
        let parts = find_in_args(command, args);
        let command_parts = find_in_command(command);
        self.take(label, command, command_parts);
        for (at, (arg, parts)) in args.iter_mut().zip(parts).enumerate() {
            self.take(&format!("{arg_label}-{}", at + 1), arg, parts);
        }
    }

    fn take(&mut self, label: &str, text: &mut String, parts: Vec<SecretPart>) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let label: String = label.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        debug_assert!(StoredSecret::is_label(&label), "{label}");
        // From the end, so that the ranges before stay valid.
        for part in parts.into_iter().rev().filter(|part| part.is_storable) {
            let value = text[part.range.clone()].replace("$${", "${");
            // What is read from a file has no line ends at its end.
            if value.ends_with(['\r', '\n']) {
                continue;
            }
            let is_new = |label: &String| self.stored.iter().all(|stored| stored.label != *label);
            let numbered = (2..).map(|number| format!("{label}-{number}"));
            let Some(label) = std::iter::once(label.clone()).chain(numbered).find(is_new) else { return };
            let secret = StoredSecret { label, value };
            text.replace_range(part.range, &format!("{{file:{}}}", (self.path_of)(&secret)));
            self.stored.push(secret);
        }
    }
}

fn redact(text: &str, parts: Vec<SecretPart>) -> String {
    let mut shown = text.to_owned();
    for part in parts.into_iter().rev() {
        shown.replace_range(part.range, REDACTED);
    }
    shown
}

fn redact_words(command: &str, args: &[String]) -> impl Iterator<Item = String> {
    let command_shown = shell_quote(&redact(command, find_in_command(command)));
    let shown =
        args.iter().zip(find_in_args(command, args)).map(|(arg, parts)| shell_quote(&redact(arg, parts)));
    std::iter::once(command_shown).chain(shown).collect::<Vec<_>>().into_iter()
}
