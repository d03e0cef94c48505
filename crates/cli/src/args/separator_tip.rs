//! Replaces the tips about an unknown flag where there is more to say: the `--` before a command or before a name
//! that begins with `-` is missing, or certificates should not be checked.

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
    let join = |words: &[&str]| words.iter().map(|word| shell_quote(word)).collect::<Vec<_>>().join(" ");
    let tip = format!("a command that starts a server comes after `--`: bowline {verb} -- {}", join(command));
    let name_tip = names_after_server(verb, command, &flag).map(|(server, names)| {
        format!(
            "so does a name that begins with `-`: bowline {verb} {} -- {}",
            shell_quote(server),
            join(names)
        )
    });
    let tips = std::iter::once(tip).chain(name_tip).map(Into::into).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

/// Returns the server and the words after it, if these can be the name of a tool or a prompt and its arguments.
fn names_after_server<'a>(verb: &str, words: &'a [&'a str], flag: &str) -> Option<(&'a str, &'a [&'a str])> {
    let [server, names @ ..] = words else { return None };
    let [name, arguments @ ..] = names else { return None };
    let is_argument = |word: &&str| word.contains('=') && !word.starts_with('-');
    let fits = match verb {
        "tools" => arguments.is_empty(),
        "call" | "prompt" => arguments.iter().all(is_argument),
        _ => false,
    };
    // Clap names the first letter alone if it took the others for flags too.
    (fits && name.starts_with(flag)).then_some((*server, names))
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
            let tips = text.lines().filter_map(|line| line.strip_prefix("  tip: "));
            tips.collect::<Vec<_>>().join("\n  tip: ")
        };
        let suggested = "a command that starts a server comes after `--`: bowline tools -- npx -y foo";
        assert_eq!(tip("bowline tools npx -y foo"), suggested);
        let similar =
            "a similar argument exists: '--json'\n  tip: to pass '--jsn' as a value, use '-- --jsn'";
        assert_eq!(tip("bowline call npx --jsn"), similar);
        assert_eq!(tip("bowline list -y"), "", "it takes no command");
        let insecure = "certificates are always checked; `--ca-file PATH` trusts one more authority";
        assert_eq!(tip("bowline tools https://h/mcp --insecure"), insecure);
        assert_eq!(tip("bowline call https://h/mcp t -k"), insecure);
        let both = "a command that starts a server comes after `--`: bowline tools -- ev2 -x\n  \
                    tip: so does a name that begins with `-`: bowline tools ev2 -- -x";
        assert_eq!(tip("bowline tools ev2 -x"), both);
        assert_eq!(tip("bowline call ev2 -xyz a=1"), both.replace("tools", "call").replace("-x", "-xyz a=1"));
        assert_eq!(
            tip("bowline info ev2 -x"),
            "a command that starts a server comes after `--`: bowline info -- ev2 -x"
        );
        let other = "to pass '-y' as a value, use '-- -y'";
        assert_eq!(tip("bowline tools https://h/mcp -y"), other);
    }
}
