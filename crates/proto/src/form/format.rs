//! Checks of the formats and patterns that a text field can require.
// EL-04

use jiff::civil::Date;
use regex::RegexBuilder;
use url::Url;

/// Checks whether `text` has the format. An unknown format requires nothing.
pub(super) fn check(format: &str, text: &str) -> Result<(), String> {
    let (fits, what) = match format {
        "email" => (is_email(text), "an e-mail address"),
        "uri" => (is_uri(text), "a whole URI such as https://example.org/"),
        "date" => (is_date(text), "a date such as 2026-07-28"),
        "date-time" => (is_date_time(text), "a time such as 2026-07-28T09:30:00Z"),
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(format!("must be {what}")) }
}

/// Checks whether `text` matches the pattern, in linear time. The pattern comes from the server: it
/// is ignored if it cannot be compiled, since its dialect may have look-around, or if it is too
/// big.
pub(super) fn check_pattern(pattern: &str, text: &str) -> Result<(), String> {
    if pattern.len() > MAX_PATTERN_LEN {
        return Ok(());
    }
    let compiled = RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED_PATTERN_SIZE)
        .dfa_size_limit(MAX_COMPILED_PATTERN_SIZE)
        .build();
    match compiled {
        Ok(regex) if !regex.is_match(text) => Err(format!("must match {}", pattern.escape_debug())),
        _ => Ok(()),
    }
}

/// Maximum length of a pattern in bytes. Longer ones are ignored as likely attacks.
const MAX_PATTERN_LEN: usize = 1_000;

/// Maximum size of a compiled pattern in bytes.
const MAX_COMPILED_PATTERN_SIZE: usize = 1 << 20;

/// Whether a mail server would accept the address, roughly. Whether the mailbox exists is not
/// checked.
fn is_email(text: &str) -> bool {
    // RFC 5321, 4.5.3.1.
    let Some((name, domain)) = text.rsplit_once('@').filter(|_| text.len() <= 254) else { return false };
    let is_atom = |char: char| char.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(char);
    let is_name =
        name.len() <= 64 && name.split('.').all(|part| !part.is_empty() && part.chars().all(is_atom));
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|char| char.is_alphanumeric() || char == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    is_name && domain.split('.').all(is_label)
}

/// Whether the text is a URI of RFC 3986 with a scheme. The URL parser repairs its input, so
/// invalid characters are looked for first.
fn is_uri(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
        && Url::parse(text).is_ok()
}

/// Whether the text is a `full-date` of RFC 3339.
fn is_date(text: &str) -> bool {
    matches_shape(text, "0000-00-00") && text.parse::<Date>().is_ok()
}

/// Whether the text is a `date-time` of RFC 3339. The parser accepts more, such as
/// `20260728T0930Z`.
fn is_date_time(text: &str) -> bool {
    const WHOLE: &str = "0000-00-00T00:00:00";
    let Some((whole, rest)) = text.split_at_checked(WHOLE.len()) else { return false };
    let Some(zone) = rest.find(['Z', 'z', '+', '-']) else { return false };
    let (fraction, zone) = rest.split_at(zone);
    let is_fraction = fraction.is_empty()
        || fraction.strip_prefix('.').is_some_and(|digits| {
            (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
    let is_zone = matches!(zone, "Z" | "z") || matches_shape(&zone[1..], "00:00");
    is_fraction
        && is_zone
        && matches_shape(&whole.to_ascii_uppercase(), WHOLE)
        && text.parse::<jiff::Timestamp>().is_ok()
}

/// Whether `text` has a digit for every `0` of `shape`, and is equal to it elsewhere.
fn matches_shape(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}
