//! [`RunnableParts`] are shown whatever they look like: whoever is asked about a command has to see which package,
//! script or program it runs.

use std::ops::Range;

use super::launchers::{Follow, Launcher, OptionKind, program_kind};
use super::tokens::merge;
use super::{SecretPart, is_secret_name};

/// Finds the launcher that a word names.
type LauncherFinder = fn(&str) -> Option<&'static Launcher>;

/// The parts of the words of a command line that name what is run: the package of `npx`, the script of `node`, the
/// program of `env`.
pub(super) struct RunnableParts {
    /// The parts of each word, in order and apart from each other.
    ranges: Vec<Vec<Range<usize>>>,
}

/// Finds the parts. A file of somebody else may have a command in which each word could be run by many others.
struct RunnableFinder {
    /// The parts of each word, in any order.
    ranges: Vec<Vec<Range<usize>>>,
    /// How many words may still be looked at. Eight bytes of code count as one.
    steps: usize,
}

const MAX_STEPS: usize = 100_000;

/// A word of a command line, or of code inside a word.
#[derive(Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    /// The word that it is a part of, and where it begins there.
    word: usize,
    begin: usize,
}

impl RunnableParts {
    /// Finds them in a command and its arguments.
    pub(super) fn find(words: &[String]) -> Self {
        let mut found = RunnableFinder { ranges: vec![Vec::new(); words.len()], steps: MAX_STEPS };
        let pieces: Vec<_> =
            words.iter().enumerate().map(|(word, text)| Piece { text, word, begin: 0 }).collect();
        found.mark_command(&pieces, Launcher::of);
        // A program that starts another one often has it after two hyphens.
        for (at, _) in pieces.iter().enumerate().filter(|(_, piece)| piece.text == "--") {
            found.follow(&pieces[at + 1..], Launcher::of);
        }
        found.find_runners(&pieces);
        for piece in pieces.iter().filter(|piece| piece.text.contains(char::is_whitespace)) {
            for command in split_code(*piece) {
                found.find_runners(&command);
            }
        }
        Self { ranges: found.ranges.into_iter().map(merge).collect() }
    }

    /// Leaves out the first words.
    pub(super) fn skip(mut self, count: usize) -> Self {
        self.ranges.drain(..count.min(self.ranges.len()));
        self
    }

    /// Removes the secrets of a word that are in such a part.
    pub(super) fn retain_hidden(&self, word: usize, secrets: &mut Vec<SecretPart>) {
        let parts = self.ranges.get(word).map(Vec::as_slice).unwrap_or_default();
        secrets.retain(|secret| {
            let before = parts.partition_point(|part| part.start < secret.range.end);
            parts[..before].last().is_none_or(|part| part.end <= secret.range.start)
        });
    }

    /// Returns the texts of the parts.
    pub(super) fn texts<'a>(&'a self, words: &'a [String]) -> impl Iterator<Item = &'a str> {
        let of_word = |(word, ranges): (&'a String, &'a Vec<Range<usize>>)| {
            ranges.iter().map(move |range| &word[range.clone()])
        };
        words.iter().zip(&self.ranges).flat_map(of_word)
    }
}

impl RunnableFinder {
    /// Marks the program of a command, and what that program runs.
    fn mark_command(&mut self, pieces: &[Piece<'_>], find_launcher: LauncherFinder) {
        let begin = pieces.iter().take_while(|piece| is_assignment(piece.text)).count();
        if let Some(program) = pieces.get(begin) {
            self.mark(*program);
            self.follow(&pieces[begin..], find_launcher);
        }
    }

    /// Marks what a program runs, and what that runs in turn.
    fn follow(&mut self, mut pieces: &[Piece<'_>], mut find_launcher: LauncherFinder) {
        while let Some((program, args)) = pieces.split_first()
            && let Some(launcher) = find_launcher(program.text)
            && let Some(rest) = self.mark_target(launcher, program.text, args)
        {
            let is_cmd = program_kind(program.text) == "cmd";
            find_launcher = if is_cmd { Launcher::of_command } else { Launcher::of };
            pieces = rest;
        }
    }

    /// Marks the packages of runners that stand anywhere, as in `proxy --stdio 'npx -y package'`.
    fn find_runners(&mut self, pieces: &[Piece<'_>]) {
        for (at, piece) in pieces.iter().enumerate() {
            let args = &pieces[at + 1..];
            let Some(launcher) = Launcher::of(piece.text) else { continue };
            let is_verb = |next: &Piece<'_>| launcher.verbs.contains(&next.text);
            if launcher.is_package_runner && (launcher.verbs.is_empty() || args.first().is_some_and(is_verb))
            {
                self.mark_target(launcher, piece.text, args);
            }
        }
    }

    /// Marks what a launcher runs with these arguments. Returns the words that may begin with another program.
    fn mark_target<'p, 'a>(
        &mut self,
        launcher: &Launcher,
        program: &str,
        args: &'p [Piece<'a>],
    ) -> Option<&'p [Piece<'a>]> {
        let is_cmd = program_kind(program) == "cmd";
        let mut is_code = false;
        let mut is_marked = false;
        let mut follows_unknown = false;
        let mut at = 0;
        while let Some(piece) = args.get(at) {
            self.steps = self.steps.checked_sub(1)?;
            let text = piece.text;
            at += 1;
            if (text.starts_with('-') && text.len() > 1) || (is_cmd && text.starts_with('/')) {
                let (option, assigned) = match text.split_once('=') {
                    Some((option, _)) => (option, Some(option.len() + 1)),
                    None => (text, None),
                };
                match (launcher.option_kind(option), assigned) {
                    (OptionKind::Runnable | OptionKind::Last, Some(begin)) => {
                        self.mark(Piece { text: &text[begin..], begin: piece.begin + begin, ..*piece });
                    }
                    (kind @ (OptionKind::Runnable | OptionKind::Last), None) => {
                        self.mark(*args.get(at)?);
                        is_marked = true;
                        at += 1;
                        if kind == OptionKind::Last {
                            return None;
                        }
                    }
                    (OptionKind::Code, _) => is_code = true,
                    (OptionKind::Program, _) => return None,
                    (OptionKind::Value, None) => at += 1,
                    // What is run is probably known already.
                    (OptionKind::Unknown, None) if is_marked && is_secret_name(option) => at += 1,
                    (OptionKind::Unknown, None) => follows_unknown = true,
                    (OptionKind::Switch, _) | (OptionKind::Value | OptionKind::Unknown, Some(_)) => {}
                }
                continue;
            }
            let is_number = || text.starts_with(|c: char| c.is_ascii_digit());
            if launcher.is_wrapper() && (is_assignment(text) || is_number()) {
                continue;
            }
            let runs_code = launcher.is_wrapper() || launcher.is_shell();
            if is_code || (runs_code && text.contains(char::is_whitespace)) {
                self.steps = self.steps.checked_sub(text.len() / 8)?;
                for command in split_code(*piece) {
                    self.mark_command(&command, Launcher::of_command);
                }
                // The option is another one of other runners.
                if launcher.is_package_runner {
                    is_code = false;
                    continue;
                }
                return Some(&args[at..]);
            }
            self.mark(*piece);
            is_marked = true;
            // It may be the value of the option before it.
            let is_value = std::mem::take(&mut follows_unknown);
            if is_value || launcher.verbs.contains(&text) {
                continue;
            }
            return match launcher.follow {
                Follow::Target => Some(&args[at - 1..]),
                Follow::Rest => Some(&args[at..]),
                Follow::Nothing => None,
            };
        }
        None
    }

    /// Marks a piece. Who logs in to the host of a URL, and with which parameters, is not what is run.
    fn mark(&mut self, piece: Piece<'_>) {
        let Piece { text, word, begin } = piece;
        let mut mark = |range: Range<usize>| self.ranges[word].push(begin + range.start..begin + range.end);
        let Some(authority) = text.find("://").map(|at| at + 3) else { return mark(0..text.len()) };
        let path = text[authority..].find(['/', '?', '#']).map_or(text.len(), |at| authority + at);
        let host = text[authority..path].rfind('@').map_or(authority, |at| authority + at + 1);
        let query = text[path..].find('?').map_or(text.len(), |at| path + at);
        mark(0..authority);
        mark(host..query);
    }
}

/// Returns the identifiers in a text, as a shell or another language reads them.
pub(super) fn find_identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_apart_from_names).filter(|name| !name.is_empty())
}

/// Returns the variables whose values a text takes, as shells write them.
pub(super) fn find_taken_variables(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut begin: usize = 0;
    for part in text.split_inclusive(is_apart_from_names) {
        let name = part.trim_end_matches(is_apart_from_names);
        let before = text.as_bytes()[begin.saturating_sub(4)..begin].to_ascii_lowercase();
        if ["$", "${", "${!", "%", "!", "env:"].iter().any(|sign| before.ends_with(sign.as_bytes())) {
            names.push(name);
        }
        begin += part.len();
    }
    names
}

fn is_apart_from_names(c: char) -> bool {
    !c.is_ascii_alphanumeric() && c != '_'
}

/// Splits code of a shell into commands, and each into words without quotation marks around them. What is quoted is
/// split as well, since it may be code in turn.
fn split_code(code: Piece<'_>) -> Vec<Vec<Piece<'_>>> {
    let mut commands = vec![Vec::new()];
    let is_end = |c: char| c.is_whitespace() || ENDS_COMMAND.contains(&c);
    let mut begin = 0;
    for part in code.text.split_inclusive(is_end) {
        let word = part.trim_end_matches(is_end);
        let text = word.trim_matches(['"', '\'']);
        if !text.is_empty() {
            let quotes = word.len() - word.trim_start_matches(['"', '\'']).len();
            let piece = Piece { text, word: code.word, begin: code.begin + begin + quotes };
            commands.last_mut().expect("there is one").push(piece);
        }
        if part.ends_with(ENDS_COMMAND) {
            commands.push(Vec::new());
        }
        begin += part.len();
    }
    commands
}

const ENDS_COMMAND: [char; 8] = [';', '&', '|', '(', ')', '`', '\n', '\r'];

/// Whether a word sets a variable for the program after it.
fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
