//! Determines what the word at the cursor is, and completes what the grammar alone can answer.

use bowline_hosts::Host;
use clap::{Arg, ArgAction, Command};

use super::Candidate;

/// What the word at the cursor can be.
#[derive(Debug, PartialEq)]
pub(super) enum CursorContext<'a> {
    /// One of these candidates.
    Fixed(Vec<Candidate>),
    /// A word that depends on the configuration or on a server.
    Word(WordKind<'a>),
    /// Anything, such as a file.
    Unknown,
}

/// A positional argument after the verb.
#[derive(Debug, PartialEq)]
pub(super) enum WordKind<'a> {
    Server,
    Tool {
        server: &'a str,
    },
    Prompt {
        server: &'a str,
    },
    Resource {
        server: &'a str,
    },
    Template {
        server: &'a str,
    },
    /// `key=`, perhaps with a value.
    ArgumentName {
        server: &'a str,
        of: ArgumentOwner,
        name: &'a str,
        given: Vec<(&'a str, &'a str)>,
    },
    /// The bare name of a prompt argument.
    Argument {
        server: &'a str,
        name: &'a str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentOwner {
    Tool,
    Prompt,
}

/// Determines what `typed` is after the words `before` it.
pub(super) fn locate_cursor<'a>(root: &Command, before: &'a [String], typed: &str) -> CursorContext<'a> {
    let mut verb: Option<&Command> = None;
    let mut inner: Option<&Command> = None;
    let mut words: Vec<&str> = Vec::new();
    let mut wanting: Option<&Arg> = None;
    for (at, word) in before.iter().enumerate() {
        if wanting.take().is_some() {
            continue;
        }
        if word == "--" {
            return verb.map_or(CursorContext::Unknown, |verb| {
                locate_after_separator(verb, words, &before[at + 1..])
            });
        }
        if word.starts_with('-') && word.len() > 1 {
            wanting = find_option(root, inner.or(verb), word)
                .filter(|option| takes_value(option) && !word.contains('='));
        } else if verb.is_none() {
            verb = root.find_subcommand(word);
            if verb.is_none() {
                return CursorContext::Unknown;
            }
        } else if let Some(below) =
            verb.filter(|_| words.is_empty()).and_then(|verb| verb.find_subcommand(word))
        {
            inner = Some(below);
        } else {
            words.push(word);
        }
    }
    if let Some(option) = wanting {
        return possible_values(option, "");
    }
    if let (Some((flag, _)), true) = (typed.split_once('='), typed.starts_with("--")) {
        return find_option(root, inner.or(verb), flag)
            .map_or(CursorContext::Unknown, |option| possible_values(option, &format!("{flag}=")));
    }
    if typed.starts_with('-') {
        return CursorContext::Fixed(list_options(root, inner.or(verb)));
    }
    let Some(verb) = verb else { return CursorContext::Fixed(list_verbs(root)) };
    if inner.is_none() && words.is_empty() && verb.has_subcommands() {
        return CursorContext::Fixed(list_verbs(verb));
    }
    classify_word(inner.unwrap_or(verb), &words)
}

/// Determines what comes after `--`, of which these are the words before the cursor: a name that begins with `-`, or
/// arguments of what is called so. A command is anything.
fn locate_after_separator<'a>(
    verb: &Command,
    mut words: Vec<&'a str>,
    rest: &'a [String],
) -> CursorContext<'a> {
    let takes_name = matches!(verb.get_name(), "call" | "tools" | "prompt") && words.len() == 1;
    let is_name = rest.first().is_none_or(|word| word.starts_with('-'));
    if !takes_name || !is_name || rest.iter().skip(1).any(|word| word == "--") {
        return CursorContext::Unknown;
    }
    words.extend(rest.iter().map(String::as_str));
    classify_word(verb, &words)
}

fn classify_word<'a>(verb: &Command, words: &[&'a str]) -> CursorContext<'a> {
    let place = match (verb.get_name(), words) {
        ("status" | "watch" | "logout" | "export" | "remove" | "enable" | "disable", _) => WordKind::Server,
        (
            "tools" | "resources" | "templates" | "prompts" | "ping" | "info" | "logs" | "connect" | "call"
            | "read" | "prompt" | "complete" | "tasks" | "login" | "repl" | "doctor",
            [],
        ) => WordKind::Server,
        ("call" | "tools", [server]) => WordKind::Tool { server },
        ("prompt", [server]) => WordKind::Prompt { server },
        ("read", [server]) => WordKind::Resource { server },
        ("call", [server, name, given @ ..]) => {
            WordKind::ArgumentName { server, of: ArgumentOwner::Tool, name, given: split_pairs(given) }
        }
        ("prompt", [server, name, given @ ..]) => {
            WordKind::ArgumentName { server, of: ArgumentOwner::Prompt, name, given: split_pairs(given) }
        }
        // `bowline auth import` takes a file.
        ("import", _) if verb.get_arguments().any(|argument| argument.get_id() == "sources") => {
            let candidate = |host: Host| Candidate { value: host.id().into(), about: host.name().to_owned() };
            return CursorContext::Fixed(Host::ALL.map(candidate).into());
        }
        ("complete", [_]) => {
            let kinds =
                ["prompt", "resource"].map(|kind| Candidate { value: kind.into(), about: String::new() });
            return CursorContext::Fixed(kinds.into());
        }
        ("complete", [server, "prompt"]) => WordKind::Prompt { server },
        ("complete", [server, "resource"]) => WordKind::Template { server },
        ("complete", [server, "prompt", name]) => WordKind::Argument { server, name },
        _ => {
            // The last one may take any number of words.
            let repeated =
                || verb.get_positionals().last().filter(|it| matches!(it.get_action(), ArgAction::Append));
            let positional = verb.get_positionals().nth(words.len()).or_else(repeated);
            return positional.map_or(CursorContext::Unknown, |positional| possible_values(positional, ""));
        }
    };
    CursorContext::Word(place)
}

fn split_pairs<'a>(words: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    words.iter().filter_map(|word| word.split_once('=')).collect()
}

fn takes_value(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Finds the option, of the verb or global.
fn find_option<'a>(root: &'a Command, verb: Option<&'a Command>, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or_default();
    let is = |option: &&Arg| match name.strip_prefix("--") {
        Some(long) => option.get_long() == Some(long),
        // In a group of short options, only the last may take a value.
        None => option.get_short() == name.chars().next_back(),
    };
    verb.into_iter().chain([root]).flat_map(Command::get_arguments).find(is)
}

fn list_options(root: &Command, verb: Option<&Command>) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    let global = root.get_arguments().filter(|option| verb.is_none() || option.is_global_set());
    for option in verb.into_iter().flat_map(Command::get_arguments).chain(global) {
        let Some(long) = option.get_long().filter(|_| !option.is_hide_set()) else { continue };
        let about = option.get_help().map(ToString::to_string).unwrap_or_default();
        all.push(Candidate { value: format!("--{long}"), about });
    }
    all.push(Candidate { value: "--help".into(), about: "Print help".into() });
    all
}

fn list_verbs(command: &Command) -> Vec<Candidate> {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let about = |verb: &Command| verb.get_about().map(ToString::to_string).unwrap_or_default();
    shown.map(|verb| Candidate { value: verb.get_name().to_owned(), about: about(verb) }).collect()
}

fn possible_values<'a>(option: &Arg, prefix: &str) -> CursorContext<'a> {
    let values = option.get_possible_values();
    if values.is_empty() {
        return CursorContext::Unknown;
    }
    let about =
        |value: &clap::builder::PossibleValue| value.get_help().map(ToString::to_string).unwrap_or_default();
    let all = values
        .iter()
        .map(|value| Candidate { value: format!("{prefix}{}", value.get_name()), about: about(value) });
    CursorContext::Fixed(all.collect())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    fn at<T>(line: &str, look: impl FnOnce(CursorContext<'_>) -> T) -> T {
        let words = super::super::command_line::split_words(line).words;
        let (typed, before) = words.split_last().unwrap();
        look(locate_cursor(&Cli::command(), before, typed))
    }

    fn fixed(line: &str) -> Vec<String> {
        at(line, |place| match place {
            CursorContext::Fixed(found) => found.into_iter().map(|one| one.value).collect(),
            other => panic!("{line}: {other:?}"),
        })
    }

    #[test]
    fn grammar_offers_verbs_options_and_values() {
        let verbs = fixed("");
        assert!(verbs.contains(&"call".into()) && !verbs.contains(&"__complete".into()), "{verbs:?}");
        let flags = fixed("call --");
        assert!(
            ["--timeout", "--json", "--save"].iter().all(|flag| flags.contains(&(*flag).into())),
            "{flags:?}"
        );
        assert_eq!(fixed("call --protocol "), ["auto", "legacy", "modern"]);
        assert_eq!(fixed("call --protocol="), ["--protocol=auto", "--protocol=legacy", "--protocol=modern"]);
        assert_eq!(fixed("config "), ["check", "schema", "path"]);
        assert_eq!(fixed("auth "), ["export", "import", "document"]);
        assert_eq!(fixed("complete s "), ["prompt", "resource"]);
        for line in ["install ", "install zed ", "uninstall "] {
            assert!(fixed(line).contains(&"claude-code".into()), "{line}");
        }
        assert_eq!(fixed("import "), Host::ALL.map(Host::id));
        assert!(fixed("completions ").contains(&"fish".into()));
    }

    #[test]
    fn words_after_the_verb() {
        let is = |line: &str, word: WordKind<'_>| {
            at(line, |place| assert_eq!(place, CursorContext::Word(word), "{line}"));
        };
        is("tools ", WordKind::Server);
        is("status a b ", WordKind::Server);
        is("logout a ", WordKind::Server);
        is("auth export -o file a ", WordKind::Server);
        // Options and their values are not positional.
        is("-v call --timeout 5s -q ", WordKind::Server);
        is("call s --save dir ", WordKind::Tool { server: "s" });
        let given = vec![("a", "1")];
        is(
            "call s t a=1 ",
            WordKind::ArgumentName { server: "s", of: ArgumentOwner::Tool, name: "t", given },
        );
        let given = vec![("a", "1")];
        is(
            "call s -- -x a=1 ",
            WordKind::ArgumentName { server: "s", of: ArgumentOwner::Tool, name: "-x", given },
        );
        is("tools s -- -", WordKind::Tool { server: "s" });
        is("prompt s ", WordKind::Prompt { server: "s" });
        is("read s ", WordKind::Resource { server: "s" });
        is("complete s prompt p ", WordKind::Argument { server: "s", name: "p" });
    }

    #[test]
    fn unknown_positions_offer_nothing() {
        for line in [
            "call -- ",
            "call s t -- ",
            "call s -- npx ",
            "call s -- -x -- ",
            "info s -- ",
            "call --file ",
            "info s ",
            "login s ",
            "auth import ",
            "nonsense ",
            "call --save=",
        ] {
            at(line, |place| assert_eq!(place, CursorContext::Unknown, "{line}"));
        }
    }
}
