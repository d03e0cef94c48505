//! [`ParamsCheck`]: finds members of the params of a host that some servers read in another way than they are read
//! here.
//!
//! Filters, views and retries decide by what the params say, and the server gets the params as the host wrote them. Of
//! two members with one name, some parsers read the first and others the last; some read a member whose name is
//! written in another case (`encoding/json` of Go). A host could so have one tool allowed and another one called.

use std::borrow::Cow;

use super::validate::Validator;
use super::{Defect, meta, method, scan};
use crate::via::VIA_META;

/// What was found in the params of one message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ParamsCheck {
    /// The first defect that counts for every method.
    defect: Option<Defect>,
    /// The first name in another case that is read for the methods that the protocol defines. The
    /// members of other methods may have any name.
    defect_of_defined_method: Option<Defect>,
}

/// An object whose members are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckedObject {
    Params,
    Meta,
    Ref,
}

impl ParamsCheck {
    /// The defect of the params of a request or notification with this method.
    pub(super) fn defect(self, method: &str) -> Option<Defect> {
        self.defect.or_else(|| self.defect_of_defined_method.filter(|_| method::is_defined(method)))
    }

    /// Validates the next value of a message, which is its params, and checks its members in the same
    /// pass. `None` if it is not valid JSON.
    pub(super) fn read(&mut self, text: &mut Validator<'_>) -> Option<()> {
        self.read_object(text, CheckedObject::Params, &mut Vec::with_capacity(TYPICAL_MEMBERS))
    }

    /// Reads one object, or any other value. `names` are those of the objects around it.
    fn read_object<'a>(
        &mut self,
        text: &mut Validator<'a>,
        object: CheckedObject,
        names: &mut Vec<Cow<'a, str>>,
    ) -> Option<()> {
        if text.peek() != Some(b'{') {
            return text.value().map(drop);
        }
        text.skip(b'{');
        if text.skip(b'}') {
            return Some(());
        }
        let first = names.len();
        loop {
            // Parsers that accept half a surrogate pair replace it, so two such names may be the same.
            let name = scan::unquote_lossy(text.name()?)?;
            match object.checked_member(&name) {
                Some(inner) => self.read_object(text, inner, names)?,
                None => drop(text.value()?),
            }
            if let Some(member) = object.find_miscased(&name) {
                self.note_miscased(object, member);
            }
            if names.len() - first < MAX_MEMBERS {
                names.push(name);
            } else {
                self.note(Defect::TooManyParams { object: object.path() });
            }
            if text.skip(b'}') {
                break;
            }
            if !text.skip(b',') {
                return None;
            }
        }
        let own = &mut names[first..];
        own.sort_unstable();
        if let Some(pair) = own.windows(2).find(|pair| pair[0] == pair[1]) {
            let member = object.members().iter().find(|member| **member == pair[0]);
            self.note(Defect::RepeatedParam { object: object.path(), member: member.copied() });
        }
        names.truncate(first);
        Some(())
    }

    fn note(&mut self, defect: Defect) {
        self.defect.get_or_insert(defect);
    }

    fn note_miscased(&mut self, object: CheckedObject, member: &'static str) {
        let defect = Defect::MiscasedParam { object: object.path(), member };
        // `_meta` is read, and passed on, whatever the method is.
        if object == CheckedObject::Meta || member == META {
            self.note(defect);
        } else {
            self.defect_of_defined_method.get_or_insert(defect);
        }
    }
}

impl CheckedObject {
    /// How a refusal names the object.
    fn path(self) -> &'static str {
        match self {
            Self::Params => "params",
            Self::Meta => "params._meta",
            Self::Ref => "params.ref",
        }
    }

    /// The members by which a message is routed, filtered or retried.
    fn members(self) -> &'static [&'static str] {
        match self {
            Self::Params => &PARAMS_MEMBERS,
            Self::Meta => &META_MEMBERS,
            Self::Ref => &["type", "name", "uri"],
        }
    }

    /// The member with this name, if its own members are checked.
    fn checked_member(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Params, META) => Some(Self::Meta),
            (Self::Params, REF) => Some(Self::Ref),
            _ => None,
        }
    }

    /// The member of which this is the name in another case.
    fn find_miscased(self, name: &str) -> Option<&'static str> {
        let mut members = self.members().iter().copied();
        members.find(|member| *member != name && is_same_but_for_case(name, member))
    }
}

/// Whether a name is that of a member, which is ASCII, for a parser that ignores case. Two characters outside of ASCII
/// are letters in another case, too: Go takes them for `s` and `k`.
fn is_same_but_for_case(name: &str, member: &str) -> bool {
    if name.is_ascii() {
        return name.eq_ignore_ascii_case(member);
    }
    let folded = name.chars().map(|character| match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    });
    folded.eq(member.chars().map(|character| character.to_ascii_lowercase()))
}

const META: &str = "_meta";
const REF: &str = "ref";

const PARAMS_MEMBERS: [&str; 14] = [
    "name",
    "arguments",
    META,
    "uri",
    REF,
    "cursor",
    "task",
    "taskId",
    "requestState",
    "inputResponses",
    "level",
    "notifications",
    "requestId",
    "progressToken",
];

const META_MEMBERS: [&str; 7] = [
    meta::PROTOCOL_VERSION,
    meta::CLIENT_CAPABILITIES,
    meta::CLIENT_INFO,
    meta::LOG_LEVEL,
    meta::PROGRESS_TOKEN,
    meta::RELATED_TASK,
    VIA_META,
];

/// Number of names for which room is reserved. Most params, with their `_meta`, have no more.
const TYPICAL_MEMBERS: usize = 8;

/// Maximum number of members of an object. No real one has as many, and the views ignore more.
const MAX_MEMBERS: usize = 10_000;

#[cfg(test)]
mod tests;
