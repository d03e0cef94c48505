//! A small grammar that reads what a server's text says about the session, instead of a list of
//! sentences.
//!
//! A clause reports a loss when it joins a *subject* (session, its id, the transport) to a *state*:
//! an adjective such as `expired` that is not negated, or a negated good one, as in `not found` and
//! `no valid`. A second rule reads the wordings of a missing handshake. If an unrelated word stands
//! between subject and state, or in front of the subject (`browser session`), the clause may mean
//! something else and is only a hint. Ids and numbers are not words and separate nothing.

use super::lexicon::{BOILERPLATE, Class, PHRASES, classify, is_demand, is_known, is_message};
use super::text::{self, Clause, Word};

/// What the grammar reads in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// How clearly it says that the session is lost.
    pub(super) gone: Gone,
    /// Whether it says that there was no handshake.
    pub(super) handshake: bool,
    /// Whether it mentions credentials.
    pub(super) login: bool,
    /// Whether it is empty or only names the status.
    pub(super) nothing: bool,
}

/// How clearly a text says that the session is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gone {
    No,
    Hint,
    Plainly,
}

/// Reads all `texts` of one reply.
pub(super) fn read(texts: &[&[u8]]) -> Said {
    let clauses: Vec<Clause> = texts.iter().flat_map(|text| text::clauses(text, is_known)).collect();
    let words = || clauses.iter().flatten();
    Said {
        gone: clauses.iter().map(|clause| read_clause(clause)).max().unwrap_or(Gone::No),
        handshake: clauses.iter().any(|clause| read_handshake(clause) == Gone::Plainly),
        login: words().any(|word| word.class() == Class::Login) || clauses.iter().any(|c| says_log_in(c)),
        nothing: words().all(|word| BOILERPLATE.contains(&word.text.as_str())),
    }
}

impl Word {
    fn class(&self) -> Class {
        classify(&self.text)
    }

    fn is(&self, class: Class) -> bool {
        self.class() == class
    }

    fn is_subject(&self) -> bool {
        matches!(self.class(), Class::Session | Class::Transport)
    }

    /// Whether the clause may be about this word instead of the session.
    fn is_stranger(&self) -> bool {
        matches!(self.class(), Class::Other | Class::Login | Class::Init | Class::Initialized | Class::Find)
            && !self.quoted
    }

    /// Whether it qualifies a session that is not ours: `browser session`, `user session`.
    fn makes_foreign(&self) -> bool {
        let status = matches!(
            self.text.as_str(),
            "request" | "unauthorized" | "forbidden" | "conflict" | "gone" | "entity" | "found"
        );
        self.is_stranger() && !status && !self.is(Class::Find)
    }
}

fn read_clause(words: &[Word]) -> Gone {
    read_session(words).max(read_handshake(words)).max(read_other_languages(words))
}

/// Whether the clause mentions a login by two words that mean nothing alone, as in `log in`.
fn says_log_in(words: &[Word]) -> bool {
    words.windows(2).any(|pair| {
        matches!(
            (&*pair[0].text, &*pair[1].text),
            ("log" | "sign" | "logged" | "signed", "in") | ("api", "key")
        )
    })
}

// === a session, and its state ===

/// A state in a clause: the words `start..end`.
struct State {
    start: usize,
    end: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `expired`
    Gone,
    /// `invalid`
    Faulty,
    /// `null`
    Null,
    /// `not found`, which applies to the words before it.
    Denied,
    /// `no valid` or `could not find`, which apply to the words after it.
    Lacking,
    /// `no worker found for` or `no browser`, which may be where the session was.
    LackingOther,
}

fn read_session(words: &[Word]) -> Gone {
    let has = |class| words.iter().any(|word| word.is(class));
    let says = |text| words.iter().any(|word| word.text == text);
    // "Too many sessions" is no loss; "exceeded the maximum idle time" is.
    let full = has(Class::Many) && !has(Class::Age);
    // "No session available" is no loss either.
    if full || (says("available") && says("no") && !says("longer")) {
        return Gone::No;
    }
    let states: Vec<State> = (0..words.len()).filter_map(|at| state_at(words, at)).collect();
    let subjects = (0..words.len()).filter(|at| words[*at].is_subject() || is_event_stream(words, *at));
    subjects.map(|at| lacks(words, at).max(best(words, &states, at))).max().unwrap_or(Gone::No)
}

/// Whether the word is part of `SSE connection`: with HTTP+SSE the session ends with its stream.
fn is_event_stream(words: &[Word], at: usize) -> bool {
    words[at].joined && words[at].text == "connection" && words[at - 1].text == "sse"
}

fn best(words: &[Word], states: &[State], subject: usize) -> Gone {
    let said = states.iter().map(|state| {
        let gone = if state.start > subject {
            said_after(words, state, subject)
        } else if state.end <= subject {
            said_before(words, state, subject)
        } else {
            // `no session found`
            Gone::Plainly
        };
        let vague = matches!(state.kind, Kind::Null | Kind::LackingOther)
            || matches!(words[subject].text.as_str(), "sessions" | "connection")
            || (words[subject].is(Class::Transport) && state.kind == Kind::Faulty);
        if vague { gone.min(Gone::Hint) } else { gone }
    });
    let gone = said.max().unwrap_or(Gone::No);
    if is_foreign(words, subject) { gone.min(Gone::Hint) } else { gone }
}

fn is_foreign(words: &[Word], subject: usize) -> bool {
    words[subject].joined && words[subject - 1].makes_foreign()
}

/// Reads `no session` and `without session id`, but not `no session required`.
fn lacks(words: &[Word], subject: usize) -> Gone {
    let before = words[..subject].iter().rposition(|word| !word.is(Class::Link));
    let is_no = before.is_some_and(|at| matches!(words[at].text.as_str(), "no" | "without"));
    let needless = words[subject..].iter().any(|word| matches!(word.text.as_str(), "required" | "needed"));
    if !is_no || needless || words[subject].text == "sessions" {
        Gone::No
    } else if modifies(words, subject) {
        Gone::Hint
    } else {
        Gone::Plainly
    }
}

/// Whether the subject only qualifies the next noun, as in `invalid session configuration`.
fn modifies(words: &[Word], subject: usize) -> bool {
    let mut after = words[subject + 1..].iter();
    let next = after.find(|word| !matches!(word.text.as_str(), "id" | "ids" | "identifier"));
    next.is_some_and(|next| next.joined && next.is(Class::Other))
}

fn state_at(words: &[Word], at: usize) -> Option<State> {
    let word = &words[at];
    let next = words.get(at + 1);
    let state = |end, kind| Some(State { start: at, end, kind });
    match word.class() {
        // "timed" needs an "out"; "bad" is most often part of "bad request".
        Class::Gone if word.text == "timed" && next.is_none_or(|next| next.text != "out") => None,
        Class::Faulty if word.text == "bad" && next.is_none_or(|next| !next.is_subject()) => None,
        Class::Gone if !is_denied(words, at) => state(at + 1, Kind::Gone),
        Class::Faulty if !is_denied(words, at) => state(at + 1, Kind::Faulty),
        Class::Null => state(at + 1, Kind::Null),
        Class::Not => {
            let skipped = |word: &&Word| {
                word.quoted
                    || word.is_subject()
                    || matches!(word.class(), Class::Link | Class::Of | Class::Not)
            };
            let target = at + 1 + words[at + 1..].iter().take_while(skipped).count();
            let lacking = matches!(word.text.as_str(), "no" | "non" | "without");
            match words.get(target)?.class() {
                // `could not be established` means a session that never existed.
                Class::Good if words[target].text == "established" && is_failure(words, at) => None,
                Class::Good if matches!(word.text.as_str(), "failed" | "unable") => None,
                Class::Good if lacking => state(target + 1, Kind::Lacking),
                Class::Good => state(target + 1, Kind::Denied),
                Class::Find => state(target + 1, Kind::Lacking),
                // `no worker found`, `no browser session`
                Class::Other if lacking => match words.get(target + 1) {
                    Some(next) if next.is(Class::Good) => state(target + 2, Kind::LackingOther),
                    Some(next) if next.is_subject() => state(target + 1, Kind::LackingOther),
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether the state is negated, as in `has not yet expired`, `is not required`, `no session
/// required`.
fn is_denied(words: &[Word], at: usize) -> bool {
    let before = words[..at].iter().rposition(|word| !word.is(Class::Link) && !word.is_subject());
    before.is_some_and(|before| {
        let between = &words[before + 1..at];
        let conjunction = between.iter().any(|word| matches!(word.text.as_str(), "or" | "and" | "longer"));
        // Only `no` negates across its noun, and nothing negates across a colon.
        let over_noun = between.iter().any(Word::is_subject) && words[before].text != "no";
        let joined = words[before + 1..=at].iter().all(|word| word.joined);
        let denies = matches!(
            words[before].text.as_str(),
            "no" | "not" | "never" | "non" | "isnt" | "wasnt" | "hasnt" | "havent" | "arent"
        );
        denies && joined && !conjunction && !over_noun
    })
}

/// Reads a state after its subject: `session … expired`.
fn said_after(words: &[Word], state: &State, subject: usize) -> Gone {
    // `session user mismatch`
    let whose = words[state.start].text.starts_with("mismatch");
    let between = words[subject + 1..state.start].iter();
    let strangers = between
        .filter(|word| word.is_stranger() && !(whose && matches!(&*word.text, "user" | "owner")))
        .count();
    // `session has invalid format`
    let of_another = state.kind == Kind::Faulty
        && words.get(state.end).is_some_and(|next| next.joined && next.is_stranger());
    match strangers {
        0 if of_another => Gone::Hint,
        0 => Gone::Plainly,
        1..=3 => Gone::Hint,
        _ => Gone::No,
    }
}

/// Reads a state before its subject: `expired … session`.
fn said_before(words: &[Word], state: &State, subject: usize) -> Gone {
    let between = &words[state.end..subject];
    let adjacent = words[state.end..=subject].iter().all(|word| word.joined && !word.is(Class::Of));
    // `Resource not found: session://`, `tool was not found for session`, `connection closed: session`
    let before = words[..state.start].iter().rposition(|word| !word.is(Class::Link));
    let of_another = before.is_some_and(|before| {
        words[before + 1..=state.start].iter().all(|word| word.joined)
            && (words[before].is_stranger() || words[before].is(Class::Part))
    });
    if of_another && !adjacent && state.kind != Kind::Lacking {
        return if state.kind == Kind::Denied { Gone::No } else { Gone::Hint };
    }
    let strangers = between.iter().filter(|word| word.is_stranger()).count();
    let noun = between.iter().position(Word::is_stranger);
    let attached = noun.is_some_and(|noun| between[..=noun].iter().all(|word| word.joined));
    match strangers {
        0 if modifies(words, subject) => Gone::Hint,
        0 => Gone::Plainly,
        // `no active browser session`
        1 if words[subject].joined && between.last().is_some_and(Word::is_stranger) => Gone::Hint,
        // `unknown tool: session_list`
        _ if attached => Gone::No,
        1..=3 => Gone::Hint,
        _ => Gone::No,
    }
}

// === a handshake that did not happen ===

fn read_handshake(words: &[Word]) -> Gone {
    (0..words.len()).map(|at| handshake_at(words, at)).max().unwrap_or(Gone::No)
}

fn handshake_at(words: &[Word], at: usize) -> Gone {
    let word = &words[at];
    match word.class() {
        Class::Initialized => {
            let before = words[..at].iter().rposition(|word| !word.is(Class::Link));
            match before {
                // `could not be initialized` reports a failure.
                Some(not) if words[not].is(Class::Not) && !is_failure(words, not) => {
                    of_the_server(words, not)
                }
                // `until initialized`, `must be initialized first`
                Some(_) | None if asked_for(words, at) => of_the_server(words, at),
                _ => Gone::No,
            }
        }
        Class::Init if asked_for(words, at) => about_nothing_else(words, at),
        Class::Init => {
            let after = &words[at + 1..];
            let not = after.iter().position(|word| word.is(Class::Not)).unwrap_or(after.len());
            let undone = after[not..].iter().take(3).any(|word| word.text.starts_with("complete"))
                || after.iter().any(|word| word.text == "incomplete");
            if undone { of_the_server(words, at) } else { Gone::No }
        }
        Class::Other if word.text.starts_with("uninitiali") => of_the_server(words, at),
        _ => Gone::No,
    }
}

fn is_failure(words: &[Word], not: usize) -> bool {
    let could = not.checked_sub(1).is_some_and(|at| matches!(words[at].text.as_str(), "could" | "can"));
    could || matches!(words[not].text.as_str(), "failed" | "unable" | "cannot" | "cant" | "couldnt")
}

/// Whether the surrounding words say that the handshake has to come first.
fn asked_for(words: &[Word], at: usize) -> bool {
    let is_request = words.get(at + 1).is_some_and(|next| is_message(&next.text));
    let near =
        words[..at].iter().rev().take(4).take_while(|word| !word.is_stranger() || is_demand(&word.text));
    let demanded = near.clone().any(|word| is_demand(&word.text));
    // `not an initialize request`. A failure to initialize is something else.
    let denied = near.clone().any(|word| matches!(word.text.as_str(), "not" | "non" | "isnt" | "wasnt"));
    let follows = words[at + 1..]
        .iter()
        .take(4)
        .any(|word| matches!(word.text.as_str(), "first" | "required" | "needed" | "expected"));
    demanded || follows || (denied && is_request)
}

/// Judges what was not initialized: `Database not initialized` is only a hint.
fn of_the_server(words: &[Word], at: usize) -> Gone {
    let subject = words[..at].iter().rposition(|word| !word.is(Class::Link));
    let own = subject.is_none_or(|subject| {
        let word = &words[subject];
        let last = words.get(subject + 1).is_none_or(|next| !next.joined);
        last || word.is_subject()
            || word.is(Class::Not)
            || is_demand(&word.text)
            || matches!(word.text.as_str(), "connection" | "protocol" | "request" | "before")
    });
    if own { Gone::Plainly } else { Gone::Hint }
}

/// Judges what has to be initialized: `must initialize the database` is only a hint.
fn about_nothing_else(words: &[Word], at: usize) -> Gone {
    let next = words[at + 1..].iter().find(|word| !matches!(word.class(), Class::Link | Class::Of));
    let own = next.is_none_or(|word| {
        !word.joined
            || !word.is_stranger()
            || is_message(&word.text)
            || matches!(
                word.text.as_str(),
                "first" | "again" | "before" | "connection" | "new" | "called" | "sent"
            )
    });
    if own { Gone::Plainly } else { Gone::Hint }
}

// === other languages ===

/// Looks up phrases of other languages. They are rare here and their phrases few, so a list is
/// enough.
fn read_other_languages(words: &[Word]) -> Gone {
    let all: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let text = all.join(" ");
    let says = |(subjects, states): &(&[&str], &[&str])| {
        subjects.iter().any(|word| text.contains(word)) && states.iter().any(|word| text.contains(word))
    };
    if PHRASES.iter().any(says) { Gone::Plainly } else { Gone::No }
}
