//! Formats a URL without what may be a key, for people, logs and models.

use url::{Origin, Url};

/// Returns the URL without its user, query and fragment. A part of its path that does not look like a word may
/// be a key, and is shown as `…`; so is everything after a scheme that has no origin.
pub fn describe_url(url: &Url) -> String {
    let origin = url.origin();
    if let Origin::Opaque(_) = origin {
        return format!("{}:…", url.scheme());
    }
    let path = describe_path(url.path().strip_prefix('/').unwrap_or_default());
    format!("{}/{path}", origin.ascii_serialization())
}

/// Returns what [`describe_url`] does for a URL that is text, such as an issuer, without a slash at the end of
/// the path that is not in the text. Of text that is no URL, the parts between slashes are shown that look like words.
pub fn describe_url_text(text: &str) -> String {
    let Ok(url) = Url::parse(text) else { return describe_path(text) };
    let shown = describe_url(&url);
    let ends_with_slash = text.split(['?', '#']).next().is_some_and(|before| before.ends_with('/'));
    match shown.strip_suffix('/') {
        Some(trimmed) if !ends_with_slash => trimmed.to_owned(),
        _ => shown,
    }
}

fn describe_path(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').map(|part| if is_word(part) { part } else { "…" }).collect();
    parts.join("/")
}

/// Whether a part of a path looks like a word, or like words that are joined, and not like a key.
pub fn is_word(segment: &str) -> bool {
    let parts: Vec<&str> = segment.split(WORD_JOINTS).collect();
    (segment.len() <= MAX_WORD_CHARS || LONG_WORDS.contains(&segment))
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !is_mixed(part))
        && count_digits(&parts) <= MAX_WORD_DIGITS
        && count_humps(segment) <= MAX_WORD_HUMPS
        && !has_secret_prefix(segment)
}

const WORD_JOINTS: [char; 3] = ['-', '_', '.'];
const MAX_WORD_CHARS: usize = 20;
/// Names of documents at well-known addresses, which are longer.
const LONG_WORDS: [&str; 2] = ["oauth-protected-resource", "oauth-authorization-server"];
const MAX_WORD_DIGITS: usize = 2;
/// How many humps a word has at most: `listTools` has one, and random letters have many.
const MAX_WORD_HUMPS: usize = 1;

/// Whether a part has digits and letters of both cases, as random characters do.
fn is_mixed(part: &str) -> bool {
    let has = |is_kind: fn(&u8) -> bool| part.as_bytes().iter().any(is_kind);
    has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase)
}

/// Counts the digits, without those of a date such as `2024-11-05`: revisions of protocols have one in their name.
fn count_digits(parts: &[&str]) -> usize {
    let count = |parts: &[&str]| parts.concat().bytes().filter(u8::is_ascii_digit).count();
    let is_date = |parts: &[&str]| {
        parts[0].starts_with("20")
            && parts.iter().map(|part| part.len()).eq([4, 2, 2])
            && count(parts) == parts.concat().len()
    };
    let date = parts.windows(3).find(|parts| is_date(parts));
    count(parts) - date.map_or(0, count)
}

/// Counts the uppercase letters that directly follow a lowercase one.
fn count_humps(segment: &str) -> usize {
    let pairs = segment.as_bytes().windows(2);
    pairs.filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()).count()
}

/// Whether it begins as the keys of a well-known service do.
fn has_secret_prefix(segment: &str) -> bool {
    let begins_with =
        |prefix: &str| segment.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    begins_with("github_pat_") || SECRET_PREFIXES.iter().any(|prefix| begins_with(prefix))
}

const SECRET_PREFIXES: [&str; 22] = [
    "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "pat-", "pat_", "npm_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_",
    "glpat-", "xoxa-", "xoxb-", "xoxp-", "xoxs-", "xapp-", "whsec_", "hf_",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown() {
        for (url, shown) in [
            ("https://h/mpc", "https://h/mpc"),
            ("https://h:8443/a/mcp/?key=k3y", "https://h:8443/a/mcp/"),
            ("https://h/s/d41d8cd98f00b204/mcp", "https://h/s/…/mcp"),
            ("https://127.0.0.1:18443/sk-live-S3CR3T0123456789/mcp", "https://127.0.0.1:18443/…/mcp"),
            ("https://h/AbCdEfGhIjKlMnOpQrSt/listTools", "https://h/…/listTools"),
            ("https://u:s3cret@h/a%20b#s3cret", "https://h/…"),
            ("https://h", "https://h/"),
            (
                "https://h/.well-known/oauth-protected-resource/sk-live-S3CR3Tab/mcp",
                "https://h/.well-known/oauth-protected-resource/…/mcp",
            ),
            ("mailto:s3cret@h", "mailto:…"),
            ("app://s3cret/s3cret", "app:…"),
        ] {
            assert_eq!(describe_url(&Url::parse(url).unwrap()), shown);
        }
    }

    #[test]
    fn text_of_a_url_is_shown_as_it_is_written() {
        for (text, shown) in [
            ("https://h", "https://h"),
            ("https://h/", "https://h/"),
            ("https://h/tenant", "https://h/tenant"),
            ("https://h/tenant?key=k3y", "https://h/tenant"),
            ("https://h?key=k3y/", "https://h"),
            ("https://h/tenant/?key=k3y", "https://h/tenant/"),
            ("https://h/AbCdEf0123456789xyz/v2.0", "https://h/…/v2.0"),
            ("https://u:s3cret@h/", "https://h/"),
            ("api://s3cret", "api:…"),
            ("login.example/sk-live-S3CR3Tab", "login.example/…"),
            ("/oauth/token?key=k3y", "/oauth/…"),
            ("", ""),
        ] {
            assert_eq!(describe_url_text(text), shown, "{text}");
        }
    }

    #[test]
    fn words_are_told_from_keys() {
        for (segment, is_shown) in [
            ("", true),
            ("mcp", true),
            ("v1", true),
            ("MCP", true),
            ("API", true),
            ("GitHub", true),
            ("listTools", true),
            ("my-server_2.json", true),
            ("abcdefghijklmnopqrst", true),
            ("abcdefghijklmnopqrstu", false),
            ("AbCdEfGhIjKlMnOpQrSt", false),
            ("abCdEf", false),
            ("xY-zW", false),
            ("d41d8cd9", false),
            ("a%20b", false),
        ] {
            assert_eq!(is_word(segment), is_shown, "{segment}");
        }
    }

    #[test]
    fn joined_words_are_told_from_keys() {
        for (segment, is_shown) in [
            ("my-server-v2", true),
            ("mcp-2024-11-05", true),
            ("2025-06-18", true),
            ("Team-Alpha", true),
            ("project_42", true),
            ("task-list", true),
            ("skills-mcp", true),
            ("ghp", true),
            ("team-a1", true),
            ("TEAM-A1", true),
            ("npm-registry", true),
            ("sk-live-S3CR3Tab", false),
            ("sk-live-abc123DEF456", false),
            ("sk-live-S3CR3T0123456789", false),
            ("sk-abcdefgh", false),
            ("SK-abcdefgh", false),
            ("sk_test_abcdefgh", false),
            ("pk-abcdefgh", false),
            ("rk-abcdefgh", false),
            ("ghp_x8Jd", false),
            ("gho_abcdefgh", false),
            ("github_pat_abcdefgh", false),
            ("glpat-abcdefgh", false),
            ("xoxb-123-abc", false),
            ("xoxp-abcdefgh", false),
            ("npm_abcdefgh", false),
            ("pat-abcdefgh", false),
            ("team-S3CR3Tab", false),
            ("team_Ab1", false),
            ("team.Ab1", false),
            ("Ab1", false),
            ("mcp-2024-11-05-06", true),
            ("mcp-2024-11-05-123", false),
            ("mcp-4821-11-05", false),
            ("1234-5678-9012", false),
        ] {
            assert_eq!(is_word(segment), is_shown, "{segment}");
        }
    }
}
