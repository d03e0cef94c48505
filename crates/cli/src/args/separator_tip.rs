//! Replaces the tips about an unknown flag where there is more to say: the `--` before a command is missing, or
//! certificates should not be checked.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::suggested_command::shell_quote;

/// Replaces the tip about an unknown flag that belongs to a command, such as `bowline tools npx -y foo`.
pub(crate) fn suggest_separator(mut error: clap::Error, argv: &[OsString]) -> clap::Error {
    let takes_command =
        error.get(ContextKind::Usage).is_some_and(|usage| usage.to_string().contains("-- COMMAND"));
    let is_misspelled = error.get(ContextKind::SuggestedArg).is_some();
    if error.kind() != ErrorKind::UnknownArgument || is_misspelled || !takes_command {
        return error;
    }
    let flag = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    if ["--insecure", "-k", "--no-verify"].contains(&&*flag) {
        let tip = "certificates are always checked; `--ca-file PATH` trusts one more authority";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.to_owned().into()]));
        return error;
    }
    let words: Option<Vec<&str>> = argv.iter().skip(1).map(|word| word.to_str()).collect();
    let Some([verb, command @ ..]) = words.as_deref() else { return error };
    if command.first().is_none_or(|word| word.starts_with('-') || word.contains("://")) {
        return error;
    }
    let command: Vec<String> = command.iter().map(|word| shell_quote(word)).collect();
    let tip =
        format!("a command that starts a server comes after `--`: bowline {verb} -- {}", command.join(" "));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn a_flag_of_a_command_gets_a_separator() {
        let tip = |line: &str| {
            let argv: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let error = suggest_separator(Cli::try_parse_from(&argv).unwrap_err(), &argv);
            let text = error.render().to_string();
            text.lines().find_map(|line| line.strip_prefix("  tip: ").map(str::to_owned)).unwrap_or_default()
        };
        let suggested = "a command that starts a server comes after `--`: bowline tools -- npx -y foo";
        assert_eq!(tip("bowline tools npx -y foo"), suggested);
        assert_eq!(tip("bowline call npx --jsn"), "a similar argument exists: '--json'");
        assert_eq!(tip("bowline list -y"), "", "it takes no command");
        let insecure = "certificates are always checked; `--ca-file PATH` trusts one more authority";
        assert_eq!(tip("bowline tools https://h/mcp --insecure"), insecure);
        assert_eq!(tip("bowline call https://h/mcp t -k"), insecure);
        let other = "to pass '-y' as a value, use '-- -y'";
        assert_eq!(tip("bowline tools https://h/mcp -y"), other);
    }
}
