//! Parses a line of the prompt: its own commands, verbs of the shell, or the name of a tool.

use bowline_config::closest_name;
use clap::Parser as _;

use crate::args::{Cli, rewrite_json_flag};
use crate::failure::{Failure, Outcome};
use crate::shell::command_line::split_words;

/// The server that commands are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerWord {
    /// The word that verbs have for it: its configured name, its URL, or a word for a command.
    pub(super) word: String,
    /// Its name, for people.
    pub(super) name: String,
}

/// What a line asks for.
pub(super) enum ReplCommand {
    Empty,
    Leave,
    /// List the commands.
    Help,
    /// Print this text: the help of a verb.
    Text(String),
    Servers,
    Status,
    Use(String),
    /// A verb of the shell.
    Verb(Box<Cli>),
}

/// Commands that only the prompt has.
pub(super) const OWN_COMMANDS: [&str; 6] = ["use", "servers", "status", "help", "exit", "quit"];
/// Verbs that take a server first.
pub(super) const SERVER_VERBS: [&str; 12] = [
    "tools",
    "call",
    "read",
    "prompt",
    "resources",
    "templates",
    "prompts",
    "info",
    "ping",
    "logs",
    "tasks",
    "complete",
];
/// A verb that takes no server. It is there while none is in use, since many tools are called like it.
pub(super) const SEARCH: &str = "search";

/// Lists the commands.
pub(super) const HELP: &str = "\
TOOL [KEY=VALUE]...     call a tool; `call TOOL …` is the same
tools [TOOL]            list the tools, or show one of them in full
resources, templates, prompts
read URI                read a resource
prompt NAME [KEY=VALUE]...
info, ping, logs, tasks
use SERVER              whose tools are meant from now on
search WORDS            find tools of all servers, while none is in use
servers, status         which servers there are, and how the connections fare
help COMMAND            the options of a command
exit                    leave, as Ctrl-D does";

impl ReplCommand {
    /// Parses a line for the server that is in use. `servers` are the configured ones.
    pub(super) fn parse(line: &str, current: Option<&ServerWord>, servers: &[&str]) -> Outcome<Self> {
        let split = split_words(line);
        if split.is_quote_open {
            return Err(Failure::usage_hint(
                "a quote is not closed",
                "quote it with the other kind, or with \\",
            ));
        }
        let mut words = split.words;
        // The last word is empty if the line ends with a space.
        if split.last_word_at == line.len() {
            words.pop();
        }
        let Some((first, rest)) = words.split_first() else { return Ok(Self::Empty) };
        let is_stdin = |word: &String| word == "-" || word.ends_with("=@-");
        if rest.iter().any(is_stdin) {
            return Err(Failure::usage("stdin is where the commands come from: name a file"));
        }
        match (first.as_str(), rest) {
            ("exit" | "quit", []) => Ok(Self::Leave),
            ("help", []) => Ok(Self::Help),
            ("help", [verb, ..]) => Self::parse_verb(&[verb.clone(), "--help".to_owned()]),
            ("servers", []) => Ok(Self::Servers),
            ("status", []) => Ok(Self::Status),
            ("use", [name]) => Ok(Self::Use(name.clone())),
            ("use", _) => Err(Failure::usage_hint("which server?", "write `use SERVER`")),
            ("exit" | "quit" | "servers" | "status", _) => {
                Err(Failure::usage(format!("`{first}` takes no arguments")))
            }
            _ => {
                let argv = to_verb(first, rest, current, servers);
                Self::parse_verb(&argv.ok_or_else(|| unknown_command(first, servers))?)
            }
        }
    }

    fn parse_verb(words: &[String]) -> Outcome<Self> {
        let argv = std::iter::once("bowline".to_owned()).chain(words.iter().cloned()).map(Into::into);
        match Cli::try_parse_from(rewrite_json_flag(argv)) {
            Ok(cli) => Ok(Self::Verb(Box::new(cli))),
            Err(error) if !error.use_stderr() => Ok(Self::Text(error.render().to_string())),
            Err(error) => {
                let text = error.render().to_string();
                let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                Err(Failure::usage_hint(message, format!("`help {}` has its options", words[0])))
            }
        }
    }
}

/// Returns the words of the shell's command for these; `None` if there is none.
pub(super) fn to_verb(
    first: &str,
    rest: &[String],
    current: Option<&ServerWord>,
    servers: &[&str],
) -> Option<Vec<String>> {
    let server = current.map(|server| server.word.clone());
    // Options would be read from a name that begins with `-`.
    let is_hyphen_name = first.starts_with('-') && !matches!(first, "-h" | "--help");
    let separator = is_hyphen_name.then(|| "--".to_owned());
    let before: Vec<String> = if first == SEARCH && server.is_none() {
        vec![first.to_owned()]
    } else if SERVER_VERBS.contains(&first) {
        std::iter::once(first.to_owned()).chain(server).collect()
    } else if let Some(server) = server {
        ["call".to_owned(), server].into_iter().chain(separator).chain([first.to_owned()]).collect()
    } else if servers.contains(&first) {
        vec!["call".to_owned(), first.to_owned()]
    } else {
        return None;
    };
    Some(before.into_iter().chain(rest.iter().cloned()).collect())
}

fn unknown_command(word: &str, servers: &[&str]) -> Failure {
    let all = OWN_COMMANDS.iter().chain(&SERVER_VERBS).chain(&[SEARCH]).chain(servers).copied();
    let message = format!("`{word}` is not a command, and no server is in use");
    match closest_name(word, all) {
        Some(near) => Failure::usage_hint(message, format!("did you mean `{near}`?")),
        None => {
            Failure::usage_hint(message, "`use SERVER` makes its tools commands; `help` lists the others")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str, current: Option<&str>) -> Option<String> {
        let current = current.map(|word| ServerWord { word: word.to_owned(), name: word.to_owned() });
        let split = split_words(line).words;
        to_verb(&split[0], &split[1..], current.as_ref(), &["files"]).map(|words| words.join(" "))
    }

    #[test]
    fn a_line_becomes_a_command_of_the_shell() {
        for (line, current, expected) in [
            ("tools", Some("files"), Some("tools files")),
            ("tools read", Some("files"), Some("tools files read")),
            ("tools", None, Some("tools")),
            ("call read path=x", Some("files"), Some("call files read path=x")),
            ("read_text path=x", Some("files"), Some("call files read_text path=x")),
            ("files read path=x", None, Some("call files read path=x")),
            ("search a b", None, Some("search a b")),
            ("search q=a", Some("files"), Some("call files search q=a")),
            ("-x q=a", Some("files"), Some("call files -- -x q=a")),
            ("--help", Some("files"), Some("call files --help")),
            ("call -- -x q=a", Some("files"), Some("call files -- -x q=a")),
            ("files -- -x q=a", None, Some("call files -- -x q=a")),
            ("other read", None, None),
        ] {
            assert_eq!(words(line, current).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn lines_that_make_no_sense_are_refused() {
        for line in [
            "use",
            "use a b",
            "exit now",
            "call 'x",
            "call s t a=@-",
            "call s t -",
            "nonsense",
            "tools --nope",
        ] {
            assert!(ReplCommand::parse(line, None, &[]).is_err(), "{line}");
        }
        assert!(matches!(ReplCommand::parse("  ", None, &[]), Ok(ReplCommand::Empty)));
        assert!(matches!(ReplCommand::parse("help call", None, &[]), Ok(ReplCommand::Text(_))));
        assert!(
            matches!(ReplCommand::parse("use files ", None, &[]), Ok(ReplCommand::Use(name)) if name == "files")
        );
    }
}
