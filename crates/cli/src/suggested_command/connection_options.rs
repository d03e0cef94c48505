//! Decides which connection options of this command line a suggested command repeats.

use bowline::config::Timeouts;
use clap::ValueEnum as _;

use super::absolute;
use crate::args::{TargetArgs, UrlArgs, format_duration};

/// An option of this command line that suggested commands repeat, and its value without secrets.
pub(crate) type RepeatedOption = (&'static str, String);

/// Returns the connection options that were typed, without the values of headers and variables: those may be
/// secrets. A time limit is repeated if it allows more than the default does.
pub(crate) fn repeated_options(target: &TargetArgs) -> Vec<RepeatedOption> {
    let TargetArgs {
        timeout,
        max_timeout,
        connect_timeout,
        message_limit,
        protocol,
        headers,
        url,
        envs,
        // Doctor always starts its own process.
        no_daemon: _,
        command: _,
    } = target;
    let UrlArgs { transport, ca_file } = url;
    let mut options: Vec<RepeatedOption> = Vec::new();
    if let Some(choice) = transport.and_then(|choice| choice.to_possible_value()) {
        options.push(("--transport", choice.get_name().to_owned()));
    }
    if let Some(path) = ca_file {
        options.push(("--ca-file", absolute(path).display().to_string()));
    }
    options.extend(message_limit.map(|mib| ("--message-limit", mib.to_string())));
    if let Some(era) = protocol.and_then(|era| era.to_possible_value()) {
        options.push(("--protocol", era.get_name().to_owned()));
    }
    options.extend(headers.iter().filter_map(|header| Some(("-H", hide_value(header, ": ")?))));
    options.extend(envs.iter().filter_map(|pair| Some(("-e", hide_value(pair, "=")?))));
    let defaults = Timeouts::default();
    for (name, limit, default) in [
        ("--timeout", *timeout, defaults.idle),
        ("--max-timeout", *max_timeout, defaults.total),
        ("--connect-timeout", *connect_timeout, defaults.connect),
    ] {
        let limit = limit.filter(|limit| *limit > default);
        options.extend(limit.map(|limit| (name, format_duration(limit))));
    }
    options
}

/// Returns those of the options that `bowline login` has as well, as words of a command.
pub(crate) fn login_options(options: &[RepeatedOption]) -> Vec<String> {
    let options = options.iter().filter(|(name, _)| LOGIN_OPTIONS.contains(name));
    options.flat_map(|(name, value)| [(*name).to_owned(), value.clone()]).collect()
}

/// The connection options that `bowline login` has as well.
const LOGIN_OPTIONS: [&str; 3] = ["--transport", "--ca-file", "-H"];

/// Replaces the value of a pair by `…`, unless it only names a variable. `None` if the text is no pair.
fn hide_value(pair: &str, separator: &str) -> Option<String> {
    let (name, value) = pair.split_once(separator.trim_end())?;
    if names_variable(value.trim()) {
        return Some(pair.to_owned());
    }
    Some(format!("{}{separator}…", name.trim()))
}

/// Whether a value is a variable such as `${TOKEN}`, after the word `Bearer` or alone.
fn names_variable(value: &str) -> bool {
    let value = value.strip_prefix("Bearer ").unwrap_or(value);
    let name = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_variable_is_no_secret() {
        assert!(names_variable("${TOKEN}") && names_variable("Bearer ${TOKEN}"));
        for secret in ["", "k3y", "Bearer k3y", "${TOKEN:-k3y}", "${A}k3y${B}", "k3y${A}"] {
            assert!(!names_variable(secret), "{secret}");
        }
    }
}
