//! Decides which parts of a value look like secrets.

mod json_members;
mod launchers;
mod runnable;
mod scrutiny;
mod tokens;

use std::collections::HashSet;
use std::ops::Range;

use self::json_members::find_in_members;
use self::launchers::program_kind;
use self::runnable::{RunnableParts, find_identifiers, find_taken_variables};
use self::scrutiny::{Scrutiny, leading_run, used_names};
pub use self::tokens::redact_tokens;
use self::tokens::{has_token_prefix, is_random, is_random_word};

/// What is shown in place of a secret.
pub(crate) const REDACTED: &str = "[redacted]";

/// A part of a value that looks like a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretPart {
    pub(crate) range: Range<usize>,
    /// Whether a placeholder can take its place: the default of a variable cannot be one.
    pub(crate) is_storable: bool,
}

/// Finds secrets in the value of a variable or header.
pub(crate) fn find_in_value(name: &str, value: &str) -> Vec<SecretPart> {
    if is_secret_name(name) {
        return find_literals(value, scheme_length(value));
    }
    find_in_plain_value(value, Scrutiny::Lenient)
}

/// Finds secrets in the value of a variable or header that is not called like one. `scrutiny` is for what a name in the
/// value calls a secret.
fn find_in_plain_value(value: &str, scrutiny: Scrutiny) -> Vec<SecretPart> {
    let of_value = Scrutiny::of_command(&[value.to_owned()]);
    let mut parts = find_in_text(value, of_value);
    let members = find_in_members(value).into_iter();
    parts.extend(members.filter(|part| scrutiny.accepts(&value[part.range.clone()])));
    parts.extend(find_secret_default(value, of_value.max(scrutiny)));
    merge_overlaps(parts)
}

/// Whether a word of a command line looks like it holds a secret. In doubt it does.
pub fn has_secret(words: &[String]) -> bool {
    find_in_words(words, Scrutiny::Lenient, None).iter().any(|parts| !parts.is_empty())
}

/// Finds secrets in each argument of a command. What could be code is none, and neither is what a program such as `npx`
/// or `node` runs.
pub(crate) fn find_in_args(command: &str, args: &[String]) -> Vec<Vec<SecretPart>> {
    let (count, words) = join_command(command, args);
    find_in_words(args, Scrutiny::of_command(args), Some(&RunnableParts::find(&words).skip(count)))
}

/// Finds secrets in the value of each variable of a command. What the command line uses may be run, so that it is
/// looked at like a part of it: a value that could be code is none, and neither is one that names what is run.
pub(crate) fn find_in_variables(
    command: &str,
    args: &[String],
    variables: &[(String, String)],
) -> Vec<Vec<SecretPart>> {
    let (_, words) = join_command(command, args);
    let scrutiny = Scrutiny::of_command(&words);
    let ignores_case = words.iter().any(|word| CASELESS_SHELLS.contains(&&*program_kind(word)));
    let normalize = |name: &str| if ignores_case { name.to_ascii_lowercase() } else { name.to_owned() };
    let runnable = RunnableParts::find(&words);
    let run: HashSet<String> = runnable.texts(&words).flat_map(find_taken_variables).map(normalize).collect();
    // What is filled in before the start is no variable of the program.
    let literals =
        words.iter().flat_map(|word| find_literals(word, 0).into_iter().map(move |part| &word[part.range]));
    let used: HashSet<String> = literals.flat_map(find_identifiers).map(normalize).collect();
    let find = |(name, value): &(String, String)| match normalize(name) {
        name if run.contains(&name) => Vec::new(),
        key if used.contains(&key) && is_secret_name(name) => {
            let accepted = scrutiny.find_accepted_literals(value, scheme_length(value));
            accepted.unwrap_or_else(|| find_in_text(value, scrutiny))
        }
        key if used.contains(&key) => find_in_plain_value(value, scrutiny),
        _ => find_in_value(name, value),
    };
    variables.iter().map(find).collect()
}

/// Returns the words of a command and its arguments, and how many of them are in the command.
fn join_command(command: &str, args: &[String]) -> (usize, Vec<String>) {
    let (_, mut words) = split_command(command);
    let count = words.len();
    words.extend_from_slice(args);
    (count, words)
}

/// Finds secrets in a command that may have its arguments in it. What could be code is none.
pub(crate) fn find_in_command(command: &str) -> Vec<SecretPart> {
    let (ranges, words) = split_command(command);
    let Some((_, args)) = words.split_first().filter(|(_, args)| !args.is_empty()) else { return Vec::new() };
    let found = find_in_words(&words, Scrutiny::of_command(args), Some(&RunnableParts::find(&words)));
    ranges.iter().zip(found).flat_map(|(range, parts)| shift(parts, range.start)).collect()
}

/// Returns the secrets in the words of a command line, of which each may be a command line itself, for who hides them
/// elsewhere. In doubt a word is one.
pub fn secret_values_in_words(words: &[String]) -> Vec<String> {
    let inner = words.iter().map(|word| split_command(word).1).filter(|words| words.len() > 1);
    let lines = std::iter::once(words.to_vec()).chain(inner);
    lines.flat_map(|words| values(&words, &find_in_words(&words, Scrutiny::Lenient, None))).collect()
}

/// Returns the secrets in the value of a variable, header or parameter, for who hides them elsewhere. In doubt it is
/// one.
pub fn secret_values_in_pair(name: &str, value: &str) -> Vec<String> {
    let parts = if is_secret_name(name) {
        find_literals(value, scheme_length(value))
    } else {
        let mut parts = find_in_text(value, Scrutiny::Lenient);
        parts.extend(find_in_members(value));
        parts.extend(find_secret_default(value, Scrutiny::Lenient));
        merge_overlaps(parts)
    };
    values(&[value.to_owned()], &[parts])
}

fn values(texts: &[String], found: &[Vec<SecretPart>]) -> Vec<String> {
    let parts = texts.iter().zip(found).flat_map(|(text, parts)| parts.iter().map(move |part| (text, part)));
    parts.map(|(text, part)| text[part.range.clone()].to_owned()).collect()
}

/// Splits a command line at its blanks. A word in quotation marks is one word without them.
fn split_command(line: &str) -> (Vec<Range<usize>>, Vec<String>) {
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(begin) = line[at..].find(|c: char| !c.is_whitespace()).map(|blanks| at + blanks) {
        let mut quote = None;
        let ends_word = |c: char| {
            match quote {
                Some(open) if open == c => quote = None,
                Some(_) => {}
                None if matches!(c, '"' | '\'') => quote = Some(c),
                None => return c.is_whitespace(),
            }
            false
        };
        let end = line[begin..].find(ends_word).map_or(line.len(), |length| begin + length);
        let word = &line[begin..end];
        let is_whole = |mark: char| {
            word.len() > 1 && word.starts_with(mark) && word[1..].find(mark) == Some(word.len() - 2)
        };
        let marks = usize::from(is_whole('"') || is_whole('\''));
        ranges.push(begin + marks..end - marks);
        at = end;
    }
    let words = ranges.iter().map(|range| line[range.clone()].to_owned()).collect();
    (ranges, words)
}

fn find_in_words(
    words: &[String],
    scrutiny: Scrutiny,
    runnable: Option<&RunnableParts>,
) -> Vec<Vec<SecretPart>> {
    let mut found = Vec::with_capacity(words.len());
    let mut is_value_of_secret = false;
    let mut is_header = false;
    let used = used_names(words);
    // A token may begin with one hyphen; where it could be an option, it is taken for one.
    let option_start = if scrutiny == Scrutiny::Lenient { "--" } else { "-" };
    for (at, word) in words.iter().enumerate() {
        let was_secret = std::mem::take(&mut is_value_of_secret);
        let was_header = std::mem::take(&mut is_header);
        if was_secret
            && !word.starts_with(option_start)
            && let Some(parts) = scrutiny.find_accepted_literals(word, 0)
        {
            found.push(parts);
            continue;
        }
        // `--token:value` is a form of Windows.
        let equals: &[char] = if word.starts_with('-') { &['=', ':'] } else { &['='] };
        let assigned =
            word.split_once(equals).map(|(name, _)| (name.trim_start_matches('-'), name.len() + 1));
        let header_at = match assigned {
            _ if was_header => Some(0),
            Some(("header" | "headers" | "H", at)) => Some(at),
            _ => None,
        };
        let of_header = header_at.and_then(|at| Some(shift(find_in_header(&word[at..], scrutiny)?, at)));
        let of_assignment = assigned
            .filter(|(name, _)| is_identifier(name) && is_secret_name(name))
            .filter(|(name, _)| {
                scrutiny == Scrutiny::Lenient || word.starts_with('-') || !used.contains(name)
            })
            .and_then(|(_, at)| scrutiny.find_accepted_literals(word, at));
        if let Some(parts) = of_header.or(of_assignment) {
            found.push(parts);
            continue;
        }
        let name = word.trim_start_matches('-');
        let is_option = word.starts_with('-') && is_identifier(name);
        is_header = is_option && matches!(word.as_str(), "-H" | "--header" | "--headers");
        is_value_of_secret = is_option && !is_header && is_secret_name(name);
        let before = at.checked_sub(1).map(|before| words[before].as_str());
        let mut parts = find_in_text(word, scrutiny);
        parts.extend(scrutiny.find_assigned(word, &used));
        parts.extend(find_secret_default(word, scrutiny));
        if parts.is_empty() && scrutiny != Scrutiny::Lenient && is_random_argument(word, before, scrutiny) {
            parts.push(SecretPart { range: 0..word.len(), is_storable: true });
        }
        found.push(merge_overlaps(parts));
    }
    if let Some(runnable) = runnable {
        for (at, parts) in found.iter_mut().enumerate() {
            runnable.retain_hidden(at, parts);
        }
    }
    found
}

/// Whether an argument is a long random word, and not the value of an option that names something by its id or hash.
fn is_random_argument(word: &str, before: Option<&str>, scrutiny: Scrutiny) -> bool {
    let is_named = before.filter(|before| before.starts_with('-')).is_some_and(|option| {
        let last = option.rsplit(['-', '_']).next().unwrap_or_default().to_ascii_lowercase();
        HARMLESS_ENDS.contains(&&*last) || HASH_ENDS.contains(&&*last)
    });
    !is_named && !word.contains('/') && is_random_word(word) && scrutiny.accepts(word)
}

/// Finds secrets in `Name: value`; `None` if the name is not that of a secret, or the value could be code.
fn find_in_header(header: &str, scrutiny: Scrutiny) -> Option<Vec<SecretPart>> {
    let (name, value) = header.split_once(':').filter(|(name, _)| is_secret_name(name))?;
    let blanks = value.len() - value.trim_start().len();
    let value = &value[blanks..];
    let parts = scrutiny.find_accepted_literals(value, scheme_length(value))?;
    Some(shift(parts, name.len() + 1 + blanks))
}

/// Finds secrets in a URL: passwords, parameters that are called like a secret, and random parts of the
/// path.
pub(crate) fn find_in_url(url: &str) -> Vec<SecretPart> {
    let mut found = Vec::new();
    let rest = url.split_once("://").map_or(0, |(scheme, _)| scheme.len() + 3);
    let path_at = url[rest..].find(['/', '?', '#']).map_or(url.len(), |at| rest + at);
    if let Some(at) = url[rest..path_at].rfind('@') {
        found.extend(find_literals(&url[rest..rest + at], 0).into_iter().map(|part| part.shifted(rest)));
    }
    let query_at = url[path_at..].find(['?', '#']).map_or(url.len(), |at| path_at + at);
    let mut at = path_at;
    for segment in url[path_at..query_at].split_inclusive('/') {
        let name = segment.trim_end_matches('/');
        if is_random(name) || has_token_prefix(name) {
            found.push(SecretPart { range: at..at + name.len(), is_storable: true });
        }
        found.extend(shift(find_in_default(name), at));
        at += segment.len();
    }
    let mut at = query_at + 1;
    for pair in split_parameters(url.get(query_at + 1..).unwrap_or_default()) {
        if let Some((name, value)) = pair.split_once('=')
            && (is_secret_name(name) || has_token_prefix(value))
        {
            found.extend(shift(find_literals(value, 0), at + name.len() + 1));
        }
        at += pair.len() + 1;
    }
    merge_overlaps(found)
}

/// Splits a query and the fragment after it into parameters. A `#` with no parameter after it belongs to a value.
fn split_parameters(text: &str) -> impl Iterator<Item = &str> {
    text.split('&').flat_map(|pair| {
        let fragment = pair.find('#').filter(|at| pair[*at..].contains('='));
        let (own, fragment) = fragment.map_or((pair, None), |at| (&pair[..at], Some(&pair[at + 1..])));
        std::iter::once(own).chain(fragment)
    })
}

/// Finds secrets in a text that is not called like one: in URLs, after `Bearer`, and tokens of well-known
/// services.
fn find_in_text(text: &str, scrutiny: Scrutiny) -> Vec<SecretPart> {
    let is_gap = |c: char| c.is_whitespace() || "\"',;".contains(c);
    let mut found = Vec::new();
    let mut at = 0;
    let mut follows_scheme = false;
    for word in text.split_inclusive(is_gap) {
        let bare = word.trim_end_matches(is_gap);
        if follows_scheme {
            found.extend(shift(scrutiny.find_accepted_literals(bare, 0).unwrap_or_default(), at));
        } else if let Some(end) = bare.find("://") {
            let is_outside = |c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c);
            let begin = bare[..end].rfind(is_outside).map_or(0, |before| before + 1);
            if let Some(url) = bare.get(begin..) {
                let mut parts = find_in_url(url);
                // Code does not run a part of a URL.
                parts.retain(|part| scrutiny.min(Scrutiny::Words).accepts(&url[part.range.clone()]));
                found.extend(shift(parts, at + begin));
            }
        } else {
            let mut parts = find_in_default(bare);
            parts.retain(|part| scrutiny.accepts(&bare[part.range.clone()]));
            found.extend(shift(parts, at));
            let mut inner = at;
            for part in bare.split_inclusive(['=', ':']) {
                let token = part.trim_end_matches(['=', ':']);
                let token = if scrutiny == Scrutiny::Lenient { token } else { leading_run(token) };
                if has_token_prefix(token) {
                    found.push(SecretPart { range: inner..inner + token.len(), is_storable: true });
                }
                inner += part.len();
            }
        }
        follows_scheme = ["bearer", "basic"].iter().any(|scheme| bare.eq_ignore_ascii_case(scheme));
        at += word.len();
    }
    merge_overlaps(found)
}

/// Joins parts that overlap, and sorts them: who replaces them one after the other relies on both. Joined parts can be
/// stored only if each of them can: a token inside a default is a part of the default.
fn merge_overlaps(mut parts: Vec<SecretPart>) -> Vec<SecretPart> {
    parts.sort_by_key(|part| part.range.start);
    let mut merged: Vec<SecretPart> = Vec::with_capacity(parts.len());
    for part in parts {
        match merged.last_mut() {
            Some(last) if part.range.start < last.range.end => {
                last.range.end = last.range.end.max(part.range.end);
                last.is_storable &= part.is_storable;
            }
            _ => merged.push(part),
        }
    }
    merged
}

/// Finds a token of a well-known service that is the default of a placeholder, such as `${NAME:-sk-…}`.
fn find_in_default(word: &str) -> Vec<SecretPart> {
    let Some(begin) = word.find(":-").map(|at| at + 2) else { return Vec::new() };
    let end = word[begin..].find('}').map_or(word.len(), |length| begin + length);
    let part = SecretPart { range: begin..end, is_storable: false };
    if has_token_prefix(&word[begin..end]) { vec![part] } else { Vec::new() }
}

/// Finds the default of a placeholder that is called like a secret, if the placeholder is the whole text.
fn find_secret_default(text: &str, scrutiny: Scrutiny) -> Option<SecretPart> {
    let inner = text.strip_prefix("${")?.strip_suffix('}')?;
    let (name, default) = inner.split_once(":-").filter(|(_, default)| !default.trim().is_empty())?;
    let is_secret = is_identifier(name) && is_secret_name(name) && !default.contains('}');
    let range = 2 + name.len() + 2..text.len() - 1;
    (is_secret && scrutiny.accepts(default)).then_some(SecretPart { range, is_storable: false })
}

/// Finds what is not a placeholder, from an offset on.
fn find_literals(value: &str, from: usize) -> Vec<SecretPart> {
    let mut found = Vec::new();
    let mut begin = from;
    let mut at = from;
    let mut push = |range: Range<usize>, is_storable| {
        if !value[range.clone()].trim().is_empty() {
            found.push(SecretPart { range, is_storable });
        }
    };
    while let Some(rest) = value.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("$${") {
            at += 3;
            continue;
        }
        let is_opening = ["${", "{env:", "{file:"].iter().any(|opening| rest.starts_with(opening));
        if is_opening && let Some(length) = rest.find('}') {
            push(begin..at, true);
            let end = at + length + 1;
            if let Some(default) = value[at..end].find(":-") {
                push(at + default + 2..end - 1, false);
            }
            (begin, at) = (end, end);
            continue;
        }
        at += rest.chars().next().map_or(1, char::len_utf8);
    }
    push(begin..value.len(), true);
    found
}

impl SecretPart {
    fn shifted(self, by: usize) -> Self {
        Self { range: self.range.start + by..self.range.end + by, ..self }
    }
}

fn shift(parts: Vec<SecretPart>, by: usize) -> Vec<SecretPart> {
    parts.into_iter().map(|part| part.shifted(by)).collect()
}

/// The length of `Bearer ` and the like at the beginning of a value.
fn scheme_length(value: &str) -> usize {
    let length = value.find(' ').unwrap_or(0);
    let is_scheme = SCHEMES.iter().any(|scheme| value[..length].eq_ignore_ascii_case(scheme));
    if is_scheme { length + 1 } else { 0 }
}

/// Whether a variable, header, option or parameter of this name holds a secret.
fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    if words.last().is_some_and(|last| HARMLESS_ENDS.contains(last)) {
        return false;
    }
    words.iter().any(|word| SECRET_WORDS.contains(word))
        || SECRET_PARTS.iter().any(|part| lower.replace(['-', '_'], "").contains(part))
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Programs whose code names variables in any case.
const CASELESS_SHELLS: [&str; 3] = ["cmd", "powershell", "pwsh"];

const SCHEMES: [&str; 6] = ["Bearer", "Basic", "Token", "ApiKey", "Digest", "Key"];

const SECRET_WORDS: [&str; 18] = [
    "bearer",
    "key",
    "keys",
    "token",
    "tokens",
    "secret",
    "secrets",
    "pass",
    "pwd",
    "passwd",
    "password",
    "passphrase",
    "auth",
    "cookie",
    "pat",
    "jwt",
    "credential",
    "credentials",
];

/// Parts of names whose words are not separated.
const SECRET_PARTS: [&str; 7] =
    ["token", "secret", "password", "apikey", "authorization", "accesskey", "privatekey"];

/// Last words of names that only speak of a secret, or name a program that prints one.
const HARMLESS_ENDS: [&str; 22] = [
    "file", "path", "dir", "folder", "url", "uri", "endpoint", "id", "name", "type", "env", "var", "method",
    "mode", "limit", "timeout", "command", "cmd", "helper", "program", "script", "exec",
];

/// Last words of options whose values look random and are public.
const HASH_ENDS: [&str; 8] = ["checksum", "commit", "digest", "hash", "ref", "rev", "sha", "sha256"];

#[cfg(test)]
mod tests;
