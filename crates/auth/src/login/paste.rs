//! Decides whether a pasted input can belong to this login. If not, the person may try again; if
//! so, it counts like the browser's redirect, even if it is an error.

use bowline_config::Secret;
use url::Url;

use crate::error::AuthError;
use crate::response::{self, Brought, Pending};

/// The meaning of a pasted input.
#[derive(Debug)]
pub(crate) enum Pasted {
    /// A code to exchange.
    Code {
        code: Secret,
        /// Whether only the person says that it belongs to this login.
        bare: bool,
    },
    /// Not usable, for this reason; the person may try again.
    Wrong(String),
    /// The error response to this login, which ends it.
    Over(AuthError),
}

/// The shortest input that counts as a code. Codes must not be guessable, so they are longer (RFC
/// 6749 §10.10); a shorter one can be pasted with its address.
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
    // Such as the address of the login page, which contains our `state`.
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

/// Whether text without a query can be a code, as opposed to words.
pub(super) fn is_code(text: &str) -> bool {
    let text = text.trim();
    let length = text.chars().filter(|c| !c.is_whitespace()).count();
    length >= SHORTEST_CODE && text.chars().all(|c| c.is_ascii_graphic() || matches!(c, '\r' | '\n'))
}

/// Tells the person what to paste instead.
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
