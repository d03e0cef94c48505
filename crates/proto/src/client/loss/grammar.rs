//! A small grammar that reads what a server's text says about the session, instead of a list of
//! sentences.
//!
//! A clause reports a loss when it joins a *subject* (session, its id, the transport) to a *state*:
//! an adjective such as `expired` that is not negated, or a negated good one, as in `not found` and
//! `no valid`. A second rule reads the wordings of a missing handshake. If an unrelated word stands
//! between subject and state, or in front of the subject (`browser session`), the clause may mean
//! something else and is only a hint. Ids and numbers are not words and separate nothing.

use super::lexicon::{BOILERPLATE, Class, PHRASES, classify, is_demand, is_known, is_message_noun};
use super::text::{self, Clause, Word};

/// What the grammar reads in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextReading {
    /// How clearly it says that the session is lost.
    pub(super) session_loss: LossClarity,
    /// Whether it says that there was no handshake.
    pub(super) missing_handshake: bool,
    /// Whether it mentions credentials.
    pub(super) mentions_credentials: bool,
    /// Whether it is empty or only names the status.
    pub(super) is_boilerplate: bool,
}

/// How clearly a text says that the session is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LossClarity {
    None,
    Hint,
    Plain,
}

/// Reads all `texts` of one reply.
pub(super) fn read_texts(texts: &[&[u8]]) -> TextReading {
    let clauses: Vec<Clause> = texts.iter().flat_map(|text| text::split_clauses(text, is_known)).collect();
    let words = || clauses.iter().flatten();
    TextReading {
        session_loss: clauses.iter().map(|clause| read_clause(clause)).max().unwrap_or(LossClarity::None),
        missing_handshake: clauses.iter().any(|clause| read_handshake(clause) == LossClarity::Plain),
        mentions_credentials: words().any(|word| word.class() == Class::Login)
            || clauses.iter().any(|c| mentions_login(c)),
        is_boilerplate: words().all(|word| BOILERPLATE.contains(&word.text.as_str())),
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
    fn is_unrelated(&self) -> bool {
        matches!(
            self.class(),
            Class::Other | Class::Login | Class::Handshake | Class::Initialized | Class::Lookup
        ) && !self.quoted
    }

    /// Whether it qualifies a session that is not ours: `browser session`, `user session`.
    fn qualifies_foreign_session(&self) -> bool {
        let status = matches!(
            self.text.as_str(),
            "request" | "unauthorized" | "forbidden" | "conflict" | "gone" | "entity" | "found"
        );
        self.is_unrelated() && !status && !self.is(Class::Lookup)
    }
}

fn read_clause(words: &[Word]) -> LossClarity {
    read_session(words).max(read_handshake(words)).max(read_other_languages(words))
}

/// Whether the clause mentions a login by two words that mean nothing alone, as in `log in`.
fn mentions_login(words: &[Word]) -> bool {
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
    kind: StateKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StateKind {
    /// `expired`
    Ended,
    /// `invalid`
    Invalid,
    /// `null`
    Null,
    /// `not found`, which applies to the words before it.
    Negated,
    /// `no valid` or `could not find`, which apply to the words after it.
    Missing,
    /// `no worker found for` or `no browser`, which may be where the session was.
    MissingOther,
}

fn read_session(words: &[Word]) -> LossClarity {
    let has = |class| words.iter().any(|word| word.is(class));
    let says = |text| words.iter().any(|word| word.text == text);
    // "Too many sessions" is no loss; "exceeded the maximum idle time" is.
    let full = has(Class::Quantity) && !has(Class::Lifetime);
    // "No session available" is no loss either.
    if full || (says("available") && says("no") && !says("longer")) {
        return LossClarity::None;
    }
    let states: Vec<State> = (0..words.len()).filter_map(|at| state_at(words, at)).collect();
    let subjects = (0..words.len()).filter(|at| words[*at].is_subject() || is_event_stream(words, *at));
    subjects
        .map(|at| read_absence(words, at).max(judge_subject(words, &states, at)))
        .max()
        .unwrap_or(LossClarity::None)
}

/// Whether the word is part of `SSE connection`: with HTTP+SSE the session ends with its stream.
fn is_event_stream(words: &[Word], at: usize) -> bool {
    words[at].joined && words[at].text == "connection" && words[at - 1].text == "sse"
}

fn judge_subject(words: &[Word], states: &[State], subject: usize) -> LossClarity {
    let said = states.iter().map(|state| {
        let gone = if state.start > subject {
            read_state_after(words, state, subject)
        } else if state.end <= subject {
            read_state_before(words, state, subject)
        } else {
            // `no session found`
            LossClarity::Plain
        };
        let vague = matches!(state.kind, StateKind::Null | StateKind::MissingOther)
            || matches!(words[subject].text.as_str(), "sessions" | "connection")
            || (words[subject].is(Class::Transport) && state.kind == StateKind::Invalid);
        if vague { gone.min(LossClarity::Hint) } else { gone }
    });
    let gone = said.max().unwrap_or(LossClarity::None);
    if is_foreign(words, subject) { gone.min(LossClarity::Hint) } else { gone }
}

fn is_foreign(words: &[Word], subject: usize) -> bool {
    words[subject].joined && words[subject - 1].qualifies_foreign_session()
}

/// Reads `no session` and `without session id`, but not `no session required`.
fn read_absence(words: &[Word], subject: usize) -> LossClarity {
    let before = words[..subject].iter().rposition(|word| !word.is(Class::Filler));
    let is_no = before.is_some_and(|at| matches!(words[at].text.as_str(), "no" | "without"));
    let needless = words[subject..].iter().any(|word| matches!(word.text.as_str(), "required" | "needed"));
    if !is_no || needless || words[subject].text == "sessions" {
        LossClarity::None
    } else if is_modifier(words, subject) {
        LossClarity::Hint
    } else {
        LossClarity::Plain
    }
}

/// Whether the subject only qualifies the next noun, as in `invalid session configuration`.
fn is_modifier(words: &[Word], subject: usize) -> bool {
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
        Class::Ended if word.text == "timed" && next.is_none_or(|next| next.text != "out") => None,
        Class::Invalid if word.text == "bad" && next.is_none_or(|next| !next.is_subject()) => None,
        Class::Ended if !is_negated(words, at) => state(at + 1, StateKind::Ended),
        Class::Invalid if !is_negated(words, at) => state(at + 1, StateKind::Invalid),
        Class::Null => state(at + 1, StateKind::Null),
        Class::Negation => {
            let skipped = |word: &&Word| {
                word.quoted
                    || word.is_subject()
                    || matches!(word.class(), Class::Filler | Class::Preposition | Class::Negation)
            };
            let target = at + 1 + words[at + 1..].iter().take_while(skipped).count();
            let lacking = matches!(word.text.as_str(), "no" | "non" | "without");
            match words.get(target)?.class() {
                // `could not be established` means a session that never existed.
                Class::Valid if words[target].text == "established" && is_failure(words, at) => None,
                Class::Valid if matches!(word.text.as_str(), "failed" | "unable") => None,
                Class::Valid if lacking => state(target + 1, StateKind::Missing),
                Class::Valid => state(target + 1, StateKind::Negated),
                Class::Lookup => state(target + 1, StateKind::Missing),
                // `no worker found`, `no browser session`
                Class::Other if lacking => match words.get(target + 1) {
                    Some(next) if next.is(Class::Valid) => state(target + 2, StateKind::MissingOther),
                    Some(next) if next.is_subject() => state(target + 1, StateKind::MissingOther),
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
fn is_negated(words: &[Word], at: usize) -> bool {
    let before = words[..at].iter().rposition(|word| !word.is(Class::Filler) && !word.is_subject());
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
fn read_state_after(words: &[Word], state: &State, subject: usize) -> LossClarity {
    // `session user mismatch`
    let whose = words[state.start].text.starts_with("mismatch");
    let between = words[subject + 1..state.start].iter();
    let strangers = between
        .filter(|word| word.is_unrelated() && !(whose && matches!(&*word.text, "user" | "owner")))
        .count();
    // `session has invalid format`
    let of_another = state.kind == StateKind::Invalid
        && words.get(state.end).is_some_and(|next| next.joined && next.is_unrelated());
    match strangers {
        0 if of_another => LossClarity::Hint,
        0 => LossClarity::Plain,
        1..=3 => LossClarity::Hint,
        _ => LossClarity::None,
    }
}

/// Reads a state before its subject: `expired … session`.
fn read_state_before(words: &[Word], state: &State, subject: usize) -> LossClarity {
    let between = &words[state.end..subject];
    let adjacent = words[state.end..=subject].iter().all(|word| word.joined && !word.is(Class::Preposition));
    // `Resource not found: session://`, `tool was not found for session`, `connection closed: session`
    let before = words[..state.start].iter().rposition(|word| !word.is(Class::Filler));
    let of_another = before.is_some_and(|before| {
        words[before + 1..=state.start].iter().all(|word| word.joined)
            && (words[before].is_unrelated() || words[before].is(Class::Attribute))
    });
    if of_another && !adjacent && state.kind != StateKind::Missing {
        return if state.kind == StateKind::Negated { LossClarity::None } else { LossClarity::Hint };
    }
    let strangers = between.iter().filter(|word| word.is_unrelated()).count();
    let noun = between.iter().position(Word::is_unrelated);
    let attached = noun.is_some_and(|noun| between[..=noun].iter().all(|word| word.joined));
    match strangers {
        0 if is_modifier(words, subject) => LossClarity::Hint,
        0 => LossClarity::Plain,
        // `no active browser session`
        1 if words[subject].joined && between.last().is_some_and(Word::is_unrelated) => LossClarity::Hint,
        // `unknown tool: session_list`
        _ if attached => LossClarity::None,
        1..=3 => LossClarity::Hint,
        _ => LossClarity::None,
    }
}

// === a handshake that did not happen ===

fn read_handshake(words: &[Word]) -> LossClarity {
    (0..words.len()).map(|at| handshake_at(words, at)).max().unwrap_or(LossClarity::None)
}

fn handshake_at(words: &[Word], at: usize) -> LossClarity {
    let word = &words[at];
    match word.class() {
        Class::Initialized => {
            let before = words[..at].iter().rposition(|word| !word.is(Class::Filler));
            match before {
                // `could not be initialized` reports a failure.
                Some(not) if words[not].is(Class::Negation) && !is_failure(words, not) => {
                    judge_uninitialized_subject(words, not)
                }
                // `until initialized`, `must be initialized first`
                Some(_) | None if is_demanded(words, at) => judge_uninitialized_subject(words, at),
                _ => LossClarity::None,
            }
        }
        Class::Handshake if is_demanded(words, at) => judge_initialize_object(words, at),
        Class::Handshake => {
            let after = &words[at + 1..];
            let not = after.iter().position(|word| word.is(Class::Negation)).unwrap_or(after.len());
            let undone = after[not..].iter().take(3).any(|word| word.text.starts_with("complete"))
                || after.iter().any(|word| word.text == "incomplete");
            if undone { judge_uninitialized_subject(words, at) } else { LossClarity::None }
        }
        Class::Other if word.text.starts_with("uninitiali") => judge_uninitialized_subject(words, at),
        _ => LossClarity::None,
    }
}

fn is_failure(words: &[Word], not: usize) -> bool {
    let could = not.checked_sub(1).is_some_and(|at| matches!(words[at].text.as_str(), "could" | "can"));
    could || matches!(words[not].text.as_str(), "failed" | "unable" | "cannot" | "cant" | "couldnt")
}

/// Whether the surrounding words say that the handshake has to come first.
fn is_demanded(words: &[Word], at: usize) -> bool {
    let is_request = words.get(at + 1).is_some_and(|next| is_message_noun(&next.text));
    let near =
        words[..at].iter().rev().take(4).take_while(|word| !word.is_unrelated() || is_demand(&word.text));
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
fn judge_uninitialized_subject(words: &[Word], at: usize) -> LossClarity {
    let subject = words[..at].iter().rposition(|word| !word.is(Class::Filler));
    let own = subject.is_none_or(|subject| {
        let word = &words[subject];
        let last = words.get(subject + 1).is_none_or(|next| !next.joined);
        last || word.is_subject()
            || word.is(Class::Negation)
            || is_demand(&word.text)
            || matches!(word.text.as_str(), "connection" | "protocol" | "request" | "before")
    });
    if own { LossClarity::Plain } else { LossClarity::Hint }
}

/// Judges what has to be initialized: `must initialize the database` is only a hint.
fn judge_initialize_object(words: &[Word], at: usize) -> LossClarity {
    let next =
        words[at + 1..].iter().find(|word| !matches!(word.class(), Class::Filler | Class::Preposition));
    let own = next.is_none_or(|word| {
        !word.joined
            || !word.is_unrelated()
            || is_message_noun(&word.text)
            || matches!(
                word.text.as_str(),
                "first" | "again" | "before" | "connection" | "new" | "called" | "sent"
            )
    });
    if own { LossClarity::Plain } else { LossClarity::Hint }
}

// === other languages ===

/// Looks up phrases of other languages. They are rare here and their phrases few, so a list is
/// enough.
fn read_other_languages(words: &[Word]) -> LossClarity {
    let all: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let text = all.join(" ");
    let says = |(subjects, states): &(&[&str], &[&str])| {
        subjects.iter().any(|word| text.contains(word)) && states.iter().any(|word| text.contains(word))
    };
    if PHRASES.iter().any(says) { LossClarity::Plain } else { LossClarity::None }
}
