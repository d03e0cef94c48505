//! What a server's words say of the session: a small grammar instead of a list of sentences.
//!
//! A clause speaks of a loss when it joins a *subject* (session, its id, the transport) to a *state*: an
//! adjective such as `expired` that is not denied, or a denied good one, as in `not found` and `no valid`. A
//! second rule reads the wordings of a missing handshake. Where something else stands between subject and
//! state, or in front of the subject (`browser session`), the clause may speak of another thing, and it is only a
//! hint. Ids and numbers are no words and part nothing.

use super::lexicon::{BOILERPLATE, Class, PHRASES, classify, is_demand, is_known, is_message};
use super::text::{self, Clause, Word};

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// That the session is gone.
    pub(super) gone: Gone,
    /// That there was no handshake.
    pub(super) handshake: bool,
    /// Something about credentials.
    pub(super) login: bool,
    /// Nothing: it is empty, or names its status and no more.
    pub(super) nothing: bool,
}

/// How clearly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gone {
    No,
    Hint,
    Plainly,
}

/// Reads all `texts` of one answer.
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

    /// Whether it may be what the clause is about, instead of the session.
    fn is_stranger(&self) -> bool {
        matches!(self.class(), Class::Other | Class::Login | Class::Init | Class::Initialized | Class::Find)
            && !self.quoted
    }

    /// Whether a session of this kind is somebody else's: `browser session`, `user session`.
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

/// "Please log in": the words alone mean nothing.
fn says_log_in(words: &[Word]) -> bool {
    words.windows(2).any(|pair| {
        matches!(
            (&*pair[0].text, &*pair[1].text),
            ("log" | "sign" | "logged" | "signed", "in") | ("api", "key")
        )
    })
}

// === a session, and its state ===

/// A state in a clause: words `start..end`.
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
    /// `not found`: said of what stands before it.
    Denied,
    /// `no valid`, `could not find`: said of what comes after it.
    Lacking,
    /// `no worker found for`, `no browser`: that may be where the session was.
    LackingOther,
}

fn read_session(words: &[Word]) -> Gone {
    let has = |class| words.iter().any(|word| word.is(class));
    let says = |text| words.iter().any(|word| word.text == text);
    // "Too many sessions" is no loss; "exceeded the maximum idle time" is.
    let full = has(Class::Many) && !has(Class::Age);
    // Nor is "no session available".
    if full || (says("available") && says("no") && !says("longer")) {
        return Gone::No;
    }
    let states: Vec<State> = (0..words.len()).filter_map(|at| state_at(words, at)).collect();
    let subjects = (0..words.len()).filter(|at| words[*at].is_subject() || is_event_stream(words, *at));
    subjects.map(|at| lacks(words, at).max(best(words, &states, at))).max().unwrap_or(Gone::No)
}

/// `SSE connection`: with HTTP+SSE the session ends with it.
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

/// `no session`, `without session id`. Not `no session required`.
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

/// `invalid session configuration`
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
        // "timed" needs its "out"; "bad" is most often that of "bad request".
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
                // `could not be established` tells of a session that never was.
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

/// `has not yet expired`, `is not required`, `no session required`.
fn is_denied(words: &[Word], at: usize) -> bool {
    let before = words[..at].iter().rposition(|word| !word.is(Class::Link) && !word.is_subject());
    before.is_some_and(|before| {
        let between = &words[before + 1..at];
        let conjunction = between.iter().any(|word| matches!(word.text.as_str(), "or" | "and" | "longer"));
        // Only a `no` reaches over its noun, and nothing over a colon.
        let over_noun = between.iter().any(Word::is_subject) && words[before].text != "no";
        let joined = words[before + 1..=at].iter().all(|word| word.joined);
        let denies = matches!(
            words[before].text.as_str(),
            "no" | "not" | "never" | "non" | "isnt" | "wasnt" | "hasnt" | "havent" | "arent"
        );
        denies && joined && !conjunction && !over_noun
    })
}

/// `session … expired`
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

/// `expired … session`
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
                // `could not be initialized` tells of a failure.
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

/// Whether the words around say that the handshake has to come first.
fn asked_for(words: &[Word], at: usize) -> bool {
    let is_request = words.get(at + 1).is_some_and(|next| is_message(&next.text));
    let near =
        words[..at].iter().rev().take(4).take_while(|word| !word.is_stranger() || is_demand(&word.text));
    let demanded = near.clone().any(|word| is_demand(&word.text));
    // `not an initialize request`; a failure to initialize is something else.
    let denied = near.clone().any(|word| matches!(word.text.as_str(), "not" | "non" | "isnt" | "wasnt"));
    let follows = words[at + 1..]
        .iter()
        .take(4)
        .any(|word| matches!(word.text.as_str(), "first" | "required" | "needed" | "expected"));
    demanded || follows || (denied && is_request)
}

/// `Database not initialized` is another's affair.
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

/// `must initialize the database` is another's affair too.
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

/// A phrase book, not a grammar: these languages are rare here, and their phrases few.
fn read_other_languages(words: &[Word]) -> Gone {
    let all: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let text = all.join(" ");
    let says = |(subjects, states): &(&[&str], &[&str])| {
        subjects.iter().any(|word| text.contains(word)) && states.iter().any(|word| text.contains(word))
    };
    if PHRASES.iter().any(says) { Gone::Plainly } else { Gone::No }
}
