//! Examples of verbs whose arguments they share with others, and the test that every example parses. Those that need no
//! network are run by `tests/it/examples.rs`.

pub(super) const TEMPLATES: &str = "\
Examples:
  bowline templates files
  bowline templates https://mcp.example.com/mcp
  bowline templates --json files | jq -r '.[].uriTemplate'";

pub(super) const PROMPTS: &str = "\
Examples:
  bowline prompts docs
  bowline prompts --json docs | jq -r '.[].name'
  bowline prompts -- npx -y @modelcontextprotocol/server-everything";

pub(super) const INFO: &str = "\
Examples:
  bowline info docs
  bowline info https://mcp.example.com/mcp --json
  bowline info -- npx -y @modelcontextprotocol/server-everything";

pub(super) const ENABLE: &str = "\
Sets `enabled = true` in the entries. Comments and the order of the file stay as they are.

Examples:
  bowline enable docs
  bowline enable docs files";

pub(super) const DISABLE: &str = "\
Sets `enabled = false` in the entries: the servers stay configured, and are not connected to. Comments and the order \
of the file stay as they are.

Examples:
  bowline disable docs
  bowline disable docs files";

pub(super) const LIST: &str = "\
In a pipe each server is a line: name, state, number of tools when it was last asked, URL or command, separated by \
tabs.

Examples:
  bowline list
  bowline list --json | jq -r '.servers[].name'";

pub(super) const EDIT: &str = "\
The editor is that of $VISUAL or $EDITOR: the path of a program, or a command with arguments. A path with spaces has to be in \
quotes if arguments follow it.

Examples:
  bowline edit
  bowline edit --config ./bowline.toml";

pub(super) const CONFIG: &str = "\
Examples:
  bowline config check
  bowline config path
  bowline config schema > bowline.schema.json";

pub(super) const CONFIG_CHECK: &str = "\
The exit code is 2 if a file has an error.

Examples:
  bowline config check
  bowline config check --config ./bowline.toml";

pub(super) const CONFIG_SCHEMA: &str = "\
Examples:
  bowline config schema > bowline.schema.json";

pub(super) const CONFIG_PATH: &str = "\
Examples:
  bowline config path
  bowline config path --json";

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use crate::args::{Cli, rewrite_json_flag};

    /// Returns every verb with its words: `auth export` as well as `auth`.
    fn verbs(command: &Command, words: &str) -> Vec<(String, Command)> {
        let own = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        own.flat_map(|verb| {
            let words = format!("{words} {}", verb.get_name());
            let mut all = vec![(words.clone(), verb.clone())];
            all.extend(verbs(verb, &words));
            all
        })
        .collect()
    }

    /// Returns the lines of the *Examples* of a verb.
    fn examples(verb: &Command) -> Vec<String> {
        let text = verb.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let mut lines = text.lines().skip_while(|line| *line != "Examples:").skip(1);
        let lines = lines.by_ref().take_while(|line| line.starts_with("  "));
        lines.map(|line| line.trim().to_owned()).collect()
    }

    /// Splits a line as a shell does, up to what is no longer part of the command: a pipe, a redirection, a remark.
    fn split(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        let mut previous = ' ';
        for (at, c) in line.char_indices() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (Some(_), c) => word.get_or_insert_default().push(c),
                (None, '\'' | '"') => {
                    word.get_or_insert_default();
                    quote = Some(c);
                }
                (None, '|' | '>' | '#') if previous == ' ' => break,
                // Remarks without a sign are in a column of their own.
                (None, ' ') if line[at..].starts_with("   ") => {
                    words.extend(word.take());
                    break;
                }
                (None, ' ') => words.extend(word.take()),
                (None, c) => word.get_or_insert_default().push(c),
            }
            previous = c;
        }
        words.extend(word);
        words
    }

    #[test]
    fn every_verb_has_examples_that_parse() {
        let all = verbs(&Cli::command(), "bowline");
        assert!(all.len() > 35, "{}", all.len());
        for (words, verb) in all {
            let examples = examples(&verb);
            assert!(!examples.is_empty(), "`{words} --help` has no examples");
            let mut uses = 0;
            for line in examples {
                // Some begin with what comes through a pipe.
                let command = line.find("bowline ").map_or("", |at| &line[at..]);
                let argv = rewrite_json_flag(split(command).into_iter().map(Into::into));
                let parsed = Cli::command().try_get_matches_from(&argv);
                if let Err(error) = parsed {
                    panic!("`{words}`: the example `{line}` does not parse: {error}");
                }
                uses += usize::from(format!("{command} ").starts_with(&format!("{words} ")));
            }
            assert!(uses > 0, "no example of `{words}` uses it");
        }
    }

    #[test]
    fn lines_are_split_as_a_shell_does() {
        for (line, expected) in [
            ("bowline ps --json | jq '.a'", &["bowline", "ps", "--json"][..]),
            ("bowline a 'b c' \"d\"  # e", &["bowline", "a", "b c", "d"]),
            ("bowline a b=c   all of them", &["bowline", "a", "b=c"]),
            ("bowline a '' > f", &["bowline", "a", ""]),
        ] {
            assert_eq!(split(line), expected);
        }
    }
}
