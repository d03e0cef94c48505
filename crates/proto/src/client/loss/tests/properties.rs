//! Properties of the verdict that hold for any text.

use proptest::prelude::*;

use super::signatures::signatures;
use super::*;
use crate::client::loss::Verdict::{Answer, Login, Lost};

/// Selects a signature for which `wanted` returns `true`.
fn signature(wanted: fn(&Case, &str) -> bool) -> impl Strategy<Value = (Case, String, Verdict)> {
    let all: Vec<_> = signatures()
        .into_iter()
        .map(|(_, case, verdict)| (String::from_utf8_lossy(&case.body).into_owned(), case, verdict))
        .filter(|(text, case, _)| wanted(case, text))
        .map(|(text, case, verdict)| (case, text, verdict))
        .collect();
    proptest::sample::select(all)
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_judged(body: Vec<u8>, status in 100u16..600, session: bool, data in "\\PC*") {
        let mut case = post(status, &body);
        case.session = session;
        let verdict = case.judge();
        let as_text = post(status, &data).judge();
        if !session {
            prop_assert_eq!(verdict, if status == 401 { Login } else { Answer });
        }
        if (200..300).contains(&status) || status == 429 {
            prop_assert!(!matches!(verdict, Lost) && !matches!(as_text, Lost));
        }
    }

    /// Words of the grammar in any order cause no panic, take bounded time, and mean no loss
    /// without a session.
    #[test]
    fn arbitrary_clauses_are_judged(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "session", "not", "found", "expired", "no", "valid", "initialize", "initialized", "browser", ":", ",",
                "{", "}", "[", "]", "(", "<p>", "<session>", "\\", "\\u00", "\"", "'", "&", "Mcp-Session-Id", "is", "timed", "out",
                "required", "before", "token", "7f3", "failed", "to", "find", "会话", "不存在", "</script", "<style>", "complete",
            ]),
            0..60,
        ),
        glue in proptest::sample::select(vec!["", " ", "\n", "_"]),
    ) {
        let text = words.join(glue);
        prop_assert_eq!(post(400, &text).without_session().judge(), Answer);
        prop_assert_ne!(post(200, &text).judge(), Lost);
        post(400, &text).judge();
    }

    #[test]
    fn the_case_of_letters_does_not_matter(
        // Names of members are case-sensitive, so only texts are changed that are no JSON-RPC error.
        (case, text, verdict) in signature(|case, _| find_error(&case.body).is_none()),
        upper: bool,
        flips: u64,
    ) {
        let whole = if upper { text.to_uppercase() } else { text.to_lowercase() };
        prop_assert_eq!(post(case.status, &whole).judge(), verdict, "{}", whole);
        if !text.contains('\\') {
            let mixed: String = text
                .chars()
                .enumerate()
                .map(|(at, c)| if flips >> (at % 64) & 1 == 1 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
                .collect();
            prop_assert_eq!(post(case.status, &mixed).judge(), verdict, "{}", mixed);
        }
    }

    #[test]
    fn white_space_does_not_matter(
        (case, text, verdict) in signature(|_, text| !text.contains("data:")),
        space in "[ \t\r]{1,4}\n?",
        around in "[ \n]{0,3}",
    ) {
        // Inside a JSON string a newline would have to be escaped.
        let space = if text.starts_with('{') { space.replace(['\n', '\r', '\t'], " ") } else { space };
        let spaced = format!("{around}{}{around}", text.replace(' ', &space));
        prop_assert!(post(case.status, &spaced).judge() == verdict, "{:?}", spaced);
    }

    #[test]
    fn framing_does_not_matter(
        (case, text, verdict) in signature(|_, text| !text.contains('\n')),
        how in 0usize..5,
    ) {
        let quoted = serde_json::to_string(&text).unwrap();
        let twice = serde_json::to_string(&format!("{{\"error\":{quoted}}}")).unwrap();
        let framed = match how {
            0 => format!("event: message\ndata: {text}\n\n"),
            1 => format!(": hello\r\nid: 3\r\ndata: {text}\r\n"),
            2 => format!("{{\"error\":{quoted}}}"),
            3 => format!("{{\"error\":{twice},\"status\":400}}"),
            _ => format!("<!DOCTYPE html><html><body><h1>Error</h1><pre>{text}</pre></body></html>"),
        };
        let judged = post(case.status, &framed).judge();
        // A message inside of something else may be about our request, so a 404 alone proves nothing.
        if how >= 2 && text.contains("jsonrpc") && verdict == Lost {
            prop_assert!(matches!(judged, Verdict::Suspect(_)), "{:?}: {}", judged, framed);
        } else {
            prop_assert!(judged == verdict, "{:?}: {}", judged, framed);
        }
    }
}

/// The grammar looks at every pair of words, so the length of a clause must be bounded.
#[test]
fn no_clause_is_long() {
    for piece in ["session not ", "no session_", "[a] expired "] {
        let clauses = text::split_clauses(piece.repeat(10_000).as_bytes(), |_| false);
        assert!(clauses.iter().all(|clause| (1..=64).contains(&clause.len())), "{piece}");
        assert!(clauses.iter().map(Vec::len).sum::<usize>() <= 4096, "{piece}");
    }
}
