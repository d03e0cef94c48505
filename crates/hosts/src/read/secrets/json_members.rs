//! Finds the secrets among the members of JSON that is the value of a variable.

use super::{SecretPart, find_literals, is_secret_name, scheme_length, shift};

/// Finds the texts of members that are called like a secret, such as in `{"apiKey": "…"}`. Only for a value that is
/// passed on: code is shown as a whole.
pub(super) fn find_in_members(value: &str) -> Vec<SecretPart> {
    let mut found = Vec::new();
    if !value.trim_start().starts_with(['{', '[']) {
        return found;
    }
    let mut at = 0;
    while let Some((begin, end)) = next_text(value, at) {
        at = end + 1;
        let after = value[at..].trim_start();
        let Some(rest) = after.strip_prefix(':').map(str::trim_start).filter(|rest| rest.starts_with('"'))
        else {
            continue;
        };
        // The text that follows is the value of the member, and no name.
        let Some((from, to)) = next_text(value, value.len() - rest.len()) else { break };
        at = to + 1;
        if is_secret_name(&value[begin..end]) {
            let text = &value[from..to];
            found.extend(shift(find_literals(text, scheme_length(text)), from));
        }
    }
    found
}

/// Returns where the next text in quotation marks is, without them.
fn next_text(json: &str, from: usize) -> Option<(usize, usize)> {
    let begin = json[from..].find('"').map(|at| from + at + 1)?;
    let mut is_escaped = false;
    let is_end = |c: char| {
        let was_escaped = is_escaped;
        is_escaped = c == '\\' && !was_escaped;
        c == '"' && !was_escaped
    };
    json[begin..].find(is_end).map(|length| (begin, begin + length))
}
