//! Owns whether what a person pasted can be of this login. What cannot be costs them nothing but another try; what is
//! ours, an error included, counts as if a browser had brought it.

use bowline_config::Secret;
use url::Url;

use crate::error::AuthError;
use crate::response::{self, Brought, Pending};

/// What a person pasted.
#[derive(Debug)]
pub(crate) enum Pasted {
    /// A code that may be spent.
    Code {
        code: Secret,
        /// Whether nothing but the person says that it is of this login.
        bare: bool,
    },
    /// Something else, and why it cannot be meant.
    Wrong(String),
    /// An answer of this login, which ends it.
    Over(AuthError),
}

/// The shortest that is taken for a code. A good one cannot be guessed, so it is longer (RFC 6749 §10.10); whoever
/// has a shorter one can bring the address that it is in.
const SHORTEST_CODE: usize = 16;

pub(crate) fn read(text: &str, expected: &Pending, redirect: &Url) -> Pasted {
    let whole = || whole(redirect);
    let bare = response::is_bare(text);
    if bare && expected.iss_required {
        return Pasted::Wrong(format!("a code alone does not say who gave it: {}", whole()));
    }
    if bare && !is_code(text) {
        return Pasted::Wrong(format!("that is no code: {}", whole()));
    }
    // Such as that of the login page, which has our `state` in it.
    let elsewhere = text.contains("://") && !text.contains(redirect.as_str());
    match response::read(text, expected) {
        Ok(Brought::Code(code)) => Pasted::Code { code, bare },
        Ok(Brought::NotOurs) | Err(_) if elsewhere => {
            let what = format!("that is another address: the one that is meant begins with {redirect}");
            Pasted::Wrong(what)
        }
        Ok(Brought::NotOurs) => {
            Pasted::Wrong(format!("that is not what this login was answered with: {}", whole()))
        }
        Err(error) => Pasted::Over(error),
    }
}

/// Whether text without a query can be a code. What a person types in words is none.
pub(super) fn is_code(text: &str) -> bool {
    let text = text.trim();
    let length = text.chars().filter(|c| !c.is_whitespace()).count();
    length >= SHORTEST_CODE && text.chars().all(|c| c.is_ascii_graphic() || matches!(c, '\r' | '\n'))
}

/// What to bring instead.
pub(super) fn whole(redirect: &Url) -> String {
    format!("bring the whole address that you were sent to, which begins with {redirect}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pasted(text: &str, iss_required: bool) -> Pasted {
        let expected =
            Pending { issuer: "https://as.example".to_owned(), state: Secret::new("s-1"), iss_required };
        read(text, &expected, &"http://127.0.0.1:7/callback".parse().unwrap())
    }

    fn wrong(text: &str) -> String {
        match pasted(text, false) {
            Pasted::Wrong(why) => why,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_is_no_code_is_not_taken_for_one() {
        for text in
            ["hello", "y", "I have logged in, what now?", "what do you mean by that", "ääääääääääääääääää"]
        {
            assert!(matches!(pasted(text, false), Pasted::Wrong(_)), "{text}");
        }
        assert!(wrong("hello").starts_with("that is no code"));
        let code = "4/0AX4XfWh-abcdefghijkl";
        assert!(matches!(pasted(&format!(" {code}\n"), false), Pasted::Code { bare: true, .. }));
        assert!(matches!(pasted(code, true), Pasted::Wrong(why) if why.contains("who gave it")));
    }

    // AF-03
    #[test]
    fn what_is_of_another_login_can_be_tried_again() {
        assert!(wrong("http://127.0.0.1:7/callback?code=c&state=s-2").contains("not what this login"));
        let page =
            "https://as.example/authorize?state=s-1&redirect_uri=http%3A%2F%2F127.0.0.1%3A7%2Fcallback";
        assert!(wrong(page).contains("another address"));
        assert!(matches!(pasted(page, true), Pasted::Wrong(why) if why.contains("another address")));
        assert!(!wrong("").is_empty());
    }

    // AF-05, AF-06
    #[test]
    fn what_is_of_this_login_counts() {
        let at = "http://127.0.0.1:7/callback";
        assert!(matches!(pasted(&format!("{at}?code=c&state=s-1"), false), Pasted::Code { bare: false, .. }));
        for query in ["error=access_denied&state=s-1", "code=c&state=s-1&iss=https%3A%2F%2Fevil.example"] {
            assert!(matches!(pasted(&format!("{at}?{query}"), false), Pasted::Over(_)), "{query}");
        }
    }
}
