//! Decides whether a pasted input can belong to this login. If not, the person may try again; if
//! so, it counts like the browser's redirect, even if it is an error.

use bowline_config::Secret;
use url::Url;

use crate::authorization_response::{self, CallbackOutcome, ExpectedResponse};
use crate::error::AuthError;

/// The meaning of a pasted input.
#[derive(Debug)]
pub(crate) enum PastedInput {
    /// A code to exchange.
    Code {
        code: Secret,
        /// Whether only the person says that it belongs to this login.
        bare: bool,
    },
    /// Not usable, for this reason; the person may try again.
    Rejected(String),
    /// The error response to this login, which ends it.
    Failed(AuthError),
}

/// The shortest input that counts as a code. Codes must not be guessable, so they are longer (RFC
/// 6749 §10.10); a shorter one can be pasted with its address.
const MIN_CODE_LENGTH: usize = 16;

pub(crate) fn parse(text: &str, expected: &ExpectedResponse, redirect: &Url) -> PastedInput {
    let whole = || whole_address_hint(redirect);
    let bare = authorization_response::is_bare_code(text);
    if bare && expected.iss_required {
        return PastedInput::Rejected(format!("a code alone does not identify its issuer: {}", whole()));
    }
    if bare && !is_code(text) {
        return PastedInput::Rejected(format!("that is not a code: {}", whole()));
    }
    // Such as the address of the login page, which contains our `state`.
    let elsewhere = text.contains("://") && !text.contains(redirect.as_str());
    match authorization_response::parse(text, expected) {
        Ok(CallbackOutcome::Code(code)) => PastedInput::Code { code, bare },
        Ok(CallbackOutcome::NotThisLogin) | Err(_) if elsewhere => {
            let what = format!("that is another URL: the expected one begins with {redirect}");
            PastedInput::Rejected(what)
        }
        Ok(CallbackOutcome::NotThisLogin) => {
            PastedInput::Rejected(format!("that is not the response to this login: {}", whole()))
        }
        Err(error) => PastedInput::Failed(error),
    }
}

/// Whether text without a query can be a code, as opposed to words.
pub(super) fn is_code(text: &str) -> bool {
    let text = text.trim();
    let length = text.chars().filter(|c| !c.is_whitespace()).count();
    length >= MIN_CODE_LENGTH && text.chars().all(|c| c.is_ascii_graphic() || matches!(c, '\r' | '\n'))
}

/// Tells the person what to paste instead.
pub(super) fn whole_address_hint(redirect: &Url) -> String {
    format!("paste the whole URL that you were redirected to, which begins with {redirect}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pasted(text: &str, iss_required: bool) -> PastedInput {
        let expected = ExpectedResponse {
            issuer: "https://as.example".to_owned(),
            state: Secret::new("s-1"),
            iss_required,
        };
        parse(text, &expected, &"http://127.0.0.1:7/callback".parse().unwrap())
    }

    fn wrong(text: &str) -> String {
        match pasted(text, false) {
            PastedInput::Rejected(why) => why,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_is_no_code_is_not_taken_for_one() {
        for text in
            ["hello", "y", "I have logged in, what now?", "what do you mean by that", "ääääääääääääääääää"]
        {
            assert!(matches!(pasted(text, false), PastedInput::Rejected(_)), "{text}");
        }
        assert!(wrong("hello").starts_with("that is not a code"));
        let code = "4/0AX4XfWh-abcdefghijkl";
        assert!(matches!(pasted(&format!(" {code}\n"), false), PastedInput::Code { bare: true, .. }));
        assert!(matches!(pasted(code, true), PastedInput::Rejected(why) if why.contains("its issuer")));
    }

    // AF-03
    #[test]
    fn what_is_of_another_login_can_be_tried_again() {
        assert!(
            wrong("http://127.0.0.1:7/callback?code=c&state=s-2").contains("not the response to this login")
        );
        let page =
            "https://as.example/authorize?state=s-1&redirect_uri=http%3A%2F%2F127.0.0.1%3A7%2Fcallback";
        assert!(wrong(page).contains("another URL"));
        assert!(matches!(pasted(page, true), PastedInput::Rejected(why) if why.contains("another URL")));
        assert!(!wrong("").is_empty());
    }

    // AF-05, AF-06
    #[test]
    fn what_is_of_this_login_counts() {
        let at = "http://127.0.0.1:7/callback";
        assert!(matches!(
            pasted(&format!("{at}?code=c&state=s-1"), false),
            PastedInput::Code { bare: false, .. }
        ));
        for query in ["error=access_denied&state=s-1", "code=c&state=s-1&iss=https%3A%2F%2Fevil.example"] {
            assert!(matches!(pasted(&format!("{at}?{query}"), false), PastedInput::Failed(_)), "{query}");
        }
    }
}
