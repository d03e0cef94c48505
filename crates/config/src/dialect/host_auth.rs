//! Owns the authentication settings that hosts write elsewhere or differently than we do: `oauth`,
//! `headersHelper`, and headers that come from variables.

use super::fields::Fields;
use crate::check::{self, InvalidValue};
use crate::keys::ValueKind as _;
use crate::problem::ProblemKind;
use crate::raw::{RawAuth, RawHeadersCommand, RawMap, RawResourceIndicator};
use crate::report::{Finding, LocatedValue, Location, Report};
use crate::tree::{Node, Value};

/// The authentication settings of one entry, collected key by key.
#[derive(Default)]
pub(super) struct HostAuth {
    auth: Option<LocatedValue<RawAuth>>,
    scopes: Option<LocatedValue<Vec<LocatedValue<String>>>>,
    resource: Option<LocatedValue<String>>,
    helper: Option<LocatedValue<RawHeadersCommand>>,
    headers: RawMap,
}

impl HostAuth {
    /// Reads the value of one of these keys; returns the location of any other key.
    pub(super) fn take(
        &mut self,
        read: &mut Fields<'_, '_>,
        key: &str,
        node: Node,
        place: Location,
    ) -> Option<Location> {
        match key {
            "auth" | "oauth" => {
                let found = decode_login(read, node, place.clone());
                if self.auth.is_some() && found.is_some() {
                    let finding = Finding::new(ProblemKind::Conflict, "configures the login a second time")
                        .hint("keep one of `auth` and `oauth`");
                    read.report.error(&place, finding);
                } else {
                    self.auth = self.auth.take().or(found);
                }
            }
            "headers_command" | "headersCommand" | "headersHelper" => {
                let found = if key == "headersHelper" {
                    decode_helper(read, node, place.clone())
                } else {
                    RawHeadersCommand::read(read, node, place.clone())
                };
                if self.helper.is_some() {
                    let message = "gives `headers_command` a second time";
                    read.report.error(&place, Finding::new(ProblemKind::DuplicateKey, message));
                } else {
                    self.helper = found;
                }
            }
            "scopes" => self.scopes = read.one_or_more(node, place),
            "oauth_resource" => self.resource = read.string(node, place),
            "bearer_token_env_var" => {
                if let Some(name) = decode_variable(read, node, place) {
                    let header = LocatedValue::new("Authorization".to_owned(), name.place.clone());
                    let value = LocatedValue::new(format!("Bearer ${{{}}}", name.value), name.place);
                    self.headers.push((header, value));
                }
            }
            "env_http_headers" => {
                for (header, name) in read.map(node, place).into_iter().flat_map(|map| map.value) {
                    if check::key_env_name(&name.value).is_err() {
                        report_bad_variable(read.report, &name.place);
                        continue;
                    }
                    let value = LocatedValue::new(format!("${{{}}}", name.value), name.place);
                    self.headers.push((header, value));
                }
            }
            "authProviderType" => decode_provider(read, node, place),
            _ => return Some(place),
        }
        None
    }

    /// Returns the collected settings in our form: how to log in, the headers command, and headers
    /// to add.
    pub(super) fn finish(
        self,
    ) -> (Option<LocatedValue<RawAuth>>, Option<LocatedValue<RawHeadersCommand>>, RawMap) {
        let Self { mut auth, scopes, resource, helper, headers } = self;
        let place = scopes.as_ref().map(|it| &it.place).or(resource.as_ref().map(|it| &it.place)).cloned();
        if let Some(place) = place {
            let auth = auth.get_or_insert_with(|| LocatedValue::new(RawAuth::default(), place));
            // The inner table wins: it is more specific to the login.
            if auth.value.scope.is_none() {
                auth.value.scope = scopes;
            }
            if auth.value.resource.is_none() {
                auth.value.resource =
                    resource.map(|it| LocatedValue::new(RawResourceIndicator::Uri(it.value), it.place));
            }
        }
        (auth, helper, headers)
    }
}

/// Decodes `false`, `true`, a word, or an object.
fn decode_login(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<RawAuth>> {
    match node.value {
        // These ask for a login, which is the default anyway.
        Value::Bool(true) => None,
        Value::String(word) if word == "oauth" => None,
        Value::String(_) => {
            let finding = Finding::new(ProblemKind::Ignored, "not used")
                .hint("bowline logs in when the server requires it; `false` turns that off");
            read.report.note(&place, finding);
            None
        }
        value => RawAuth::read(read, Node { value, ..node }, place),
    }
}

/// Decodes a shell command line. A plain one is split into words; any other is passed to `sh` as it
/// is written.
fn decode_helper(
    read: &mut Fields<'_, '_>,
    node: Node,
    place: Location,
) -> Option<LocatedValue<RawHeadersCommand>> {
    let line = read.string(node, place.clone())?;
    let words = split_plain_command(&line.value).unwrap_or_else(|| {
        let finding = Finding::new(ProblemKind::Doubtful, "is run by `sh`")
            .hint("write `headers_command` with a list of the program and its arguments to need no shell");
        read.report.note(&place, finding);
        vec!["sh".to_owned(), "-c".to_owned(), line.value]
    });
    let words = words.into_iter().map(|word| LocatedValue::new(word, place.clone())).collect();
    let command = Some(LocatedValue::new(words, place.clone()));
    let raw = RawHeadersCommand { command, of_host: true, ..RawHeadersCommand::default() };
    Some(LocatedValue::new(raw, place))
}

/// Splits a line that means the same with and without a shell into words; `None` for any other.
pub fn split_plain_command(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => loop {
                match letters.next()? {
                    '\'' => {
                        word.get_or_insert_default();
                        break;
                    }
                    inner => word.get_or_insert_default().push(inner),
                }
            },
            '"' => loop {
                match letters.next()? {
                    '"' => {
                        word.get_or_insert_default();
                        break;
                    }
                    '$' | '`' | '\\' => return None,
                    inner => word.get_or_insert_default().push(inner),
                }
            },
            plain if plain.is_alphanumeric() || "-_./:@%+,".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            // `=` is plain in an argument. Before the program it is an assignment, which needs a
            // shell, as do expansions, pipes and everything else.
            '=' if !words.is_empty() => word.get_or_insert_default().push('='),
            _ => return None,
        }
    }
    words.extend(word);
    (!words.is_empty()).then_some(words)
}

fn decode_variable(read: &mut Fields<'_, '_>, node: Node, place: Location) -> Option<LocatedValue<String>> {
    let name = read.string(node, place)?;
    if check::key_env_name(&name.value).is_err() {
        report_bad_variable(read.report, &name.place);
        return None;
    }
    Some(name)
}

/// Reports a value that names no variable, without showing it: it may be the token itself.
fn report_bad_variable(report: &mut Report<'_>, place: &Location) {
    let mut finding = Finding::new(ProblemKind::InvalidValue, InvalidValue::KeyEnvName.to_string());
    finding.hint = InvalidValue::KeyEnvName.hint().map(str::to_owned);
    report.error(place, finding);
}

fn decode_provider(read: &mut Fields<'_, '_>, node: Node, place: Location) {
    if read.string(node, place.clone()).is_some_and(|word| word.value != "dynamic_discovery") {
        let finding =
            Finding::new(ProblemKind::Ignored, "not used: bowline does not create such credentials")
                .hint("a program that prints them as headers can be named in `headers_command`");
        read.report.note(&place, finding);
    }
}

#[cfg(test)]
mod tests {
    use super::split_plain_command;

    #[test]
    fn a_plain_line_needs_no_shell() {
        for (line, words) in [
            ("get-headers", &["get-headers"][..]),
            ("  /opt/my/tool --for mcp  ", &["/opt/my/tool", "--for", "mcp"]),
            ("tool 'a b' \"c d\" e''f ''", &["tool", "a b", "c d", "ef", ""]),
            ("tool --key=value", &["tool", "--key=value"]),
        ] {
            let expected: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(split_plain_command(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn anything_else_is_for_a_shell() {
        for line in [
            "",
            "   ",
            "a | b",
            "a && b",
            "a; b",
            "a > b",
            "$HOME/tool",
            "~/tool",
            "tool $(id)",
            "tool `id`",
            "tool \"$X\"",
            "tool *",
            "tool a\\ b",
            "A=1 tool",
            "tool 'open",
            "tool \"open",
            "tool # comment",
            "tool\nother",
            "tool {a,b}",
        ] {
            assert_eq!(split_plain_command(line), None, "{line}");
        }
    }
}
