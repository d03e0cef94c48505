//! Lets a tool or a prompt have a name that begins with `-`, which clap takes for an option.
//!
//! Such a name is given after `--`, where a command is expected otherwise: `bowline call SERVER -- -x a=1`. No
//! command begins with `-`, so a first word that does belongs to the verb, and so do the words after it up to
//! another `--`, behind which a command may follow: `bowline call -- -x a=1 -- COMMAND`.

use super::{TargetArgs, Verb};
use crate::failure::{Failure, Outcome};

impl TargetArgs {
    /// Removes the words of the verb from the command, and returns them. Only verbs for which
    /// [`Verb::takes_hyphen_name`] is true call this. Fails if one of them looks like an option, which would not be
    /// read as one.
    pub(crate) fn take_hyphen_words(&mut self) -> Outcome<Vec<String>> {
        if !begins_with_hyphen(&self.command) {
            return Ok(Vec::new());
        }
        let mut words = std::mem::take(&mut self.command);
        if let Some(separator) = separator_at(&words) {
            self.command = words.split_off(separator + 1);
            words.pop();
        }
        match words.iter().skip(1).find(|word| word.starts_with('-') && *word != "-") {
            Some(option) => Err(Failure::usage_hint(
                format!("`{option}` is no option after `--`"),
                format!("write options before `--`: `{option} -- {} …`", words[0]),
            )),
            None => Ok(words),
        }
    }
}

impl Verb {
    /// Returns whether a command that starts a server is given.
    pub(crate) fn has_server_command(&self) -> bool {
        let Some(command) = self.target_args().map(|target| &target.command) else { return false };
        if self.takes_hyphen_name() && begins_with_hyphen(command) {
            return separator_at(command).is_some_and(|separator| separator + 1 < command.len());
        }
        !command.is_empty()
    }

    /// Returns whether the verb takes the name of something that a server named.
    const fn takes_hyphen_name(&self) -> bool {
        matches!(self, Self::Tools(_) | Self::Call(_) | Self::Prompt(_))
    }
}

fn begins_with_hyphen(command: &[String]) -> bool {
    command.first().is_some_and(|word| word.starts_with('-'))
}

/// Returns where the command is separated from the words of the verb. The first word is a name, even if it is `--`.
fn separator_at(words: &[String]) -> Option<usize> {
    words.iter().skip(1).position(|word| word == "--").map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    /// Returns the words of a verb, and the command.
    fn split(line: &str) -> (String, String) {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let has_command = cli.verb.has_server_command();
        let (mut words, mut target) = match cli.verb {
            Verb::Call(args) => (args.words, args.target),
            Verb::Tools(args) => (args.words, args.target),
            other => panic!("{other:?}"),
        };
        words.extend(target.take_hyphen_words().ok().unwrap());
        assert_eq!(has_command, !target.command.is_empty(), "{line}");
        (words.join(" "), target.command.join(" "))
    }

    #[test]
    fn words_after_the_separator_that_begin_with_a_hyphen_are_no_command() {
        for (line, words, command) in [
            ("bowline call s -- -x a=1", "s -x a=1", ""),
            ("bowline call s -- --help", "s --help", ""),
            ("bowline call s -- --", "s --", ""),
            ("bowline call -- -x a=1 -- npx -y srv -- z", "-x a=1", "npx -y srv -- z"),
            ("bowline call -- -- a=1 -- npx", "-- a=1", "npx"),
            ("bowline call -- -x --", "-x", ""),
            ("bowline call s -- -x a=1 -", "s -x a=1 -", ""),
            ("bowline tools s -- -x", "s -x", ""),
            ("bowline tools -- -x -- npx", "-x", "npx"),
            ("bowline call t a=1 -- npx -y srv", "t a=1", "npx -y srv"),
            ("bowline call s t", "s t", ""),
        ] {
            assert_eq!(split(line), (words.to_owned(), command.to_owned()), "{line}");
        }
    }

    #[test]
    fn only_verbs_that_take_a_name_have_such_words() {
        let has_command =
            |line: &str| Cli::try_parse_from(line.split(' ')).unwrap().verb.has_server_command();
        assert!(!has_command("bowline prompt s -- -x") && has_command("bowline prompt -- -x -- npx"));
        assert!(has_command("bowline info -- -x") && !has_command("bowline info s"));
        assert!(!has_command("bowline list"));
    }
}
