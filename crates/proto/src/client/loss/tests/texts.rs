//! Tests of splitting bytes into clauses of words.

use crate::client::loss::text;

/// Formats the clauses of a text: `/` separates clauses, ` | ` words that are not joined, and a
/// quoted word is in quotes.
fn show_clauses(bytes: impl AsRef<[u8]>) -> String {
    let known = |word: &str| matches!(word, "oauth" | "face");
    let show = |clause: &text::Clause| -> String {
        let word = |(at, word): (usize, &text::Word)| {
            let gap = match (at, word.joined) {
                (0, _) => "",
                (_, true) => " ",
                (_, false) => " | ",
            };
            let quote = if word.quoted { "\"" } else { "" };
            format!("{gap}{quote}{}{quote}", word.text)
        };
        clause.iter().enumerate().map(word).collect()
    };
    text::split_clauses(bytes.as_ref(), known).iter().map(show).collect::<Vec<_>>().join(" / ")
}

#[track_caller]
fn check(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        assert_eq!(show_clauses(text), *expected, "{text}");
    }
}

#[test]
fn character_sets_are_told_apart() {
    assert_eq!(show_clauses(b"g\0o\0n\0e\0"), "gone");
    assert_eq!(show_clauses(b"\xff\xfeg\0o\0n\0e\0"), "gone");
    // UTF-8 that is cut at its end is still UTF-8.
    assert_eq!(show_clauses("会话不存在。".as_bytes().split_last().unwrap().1), "会话不存在");
    assert_eq!(show_clauses(b"expir\xe9e"), "expiree");
}

#[test]
fn only_the_beginning_is_looked_at() {
    let long = format!("{}session", "a ".repeat(2_046));
    assert_eq!(show_clauses(long).split(' ').next_back(), Some("sess"));
}

#[test]
fn escapes_of_json_are_taken_out() {
    check(&[
        (r"not\nfound\tby\rany\bone\fhere", "not found by any one here"),
        (r"not\\nfound", "not found"),
        (r"\u0067one", "gone"),
        (r"\\\u0067one", "gone"),
        (r"a\ud83db", "a b"),
        (r"a\uzzzz", "auzzzz"),
        (r"a\u", "au"),
        (r"a\/b", "a | b"),
        (r#"say \"gone\" now"#, r#"say | "gone" | now"#),
    ]);
}

#[test]
fn tags_are_taken_out() {
    check(&[
        ("a<b>b</b>c", "a b c"),
        ("a<i class=\"gone\">b</i>c", "a b c"),
        ("<p>a</p>b", "a / b"),
        ("a<br/>b<hr>c", "a / b / c"),
        ("<H1>a</H1>b", "a / b"),
        ("a<p", "a"),
        ("a<!-- gone -->b", "a / b"),
        ("<!DOCTYPE html>a", "a"),
        ("a<!doctype gone", "a"),
        // Unknown tags: an id, or a sign.
        ("session <id> gone", "session | \"id\" | gone"),
        ("session <some id> gone", "session | some id | gone"),
        ("a < b", "a / b"),
        ("a </> b", "a / b"),
        ("a<", "a"),
    ]);
}

#[test]
fn scripts_and_styles_are_left_out() {
    check(&[
        ("a<script>gone()</script>b", "a / b"),
        ("a<SCRIPT>gone()</SCRIPT>b", "a / b"),
        ("a<style>.gone{}</style >b", "a / b"),
        ("a<script>gone()", "a"),
        ("a</script>b", "a / b"),
    ]);
}

#[test]
fn entities_are_spaces() {
    check(&[
        ("not&nbsp;found", "not found"),
        ("not&#160;found", "not found"),
        ("not&#xA0;found", "not found"),
        ("you&me", "you me"),
        ("you & me", "you me"),
        ("you&me;", "you"),
        ("you&", "you"),
    ]);
}

#[test]
fn accents_are_taken_off() {
    check(&[
        ("àáâãäå èéêë ìíîï òóôõö ùúûü çñ", "aaaaaa eeee iiii ooooo uuuu cn"),
        ("ÀÁÂÃÄÅ ÈÉÊË ÌÍÎÏ ÒÓÔÕÖ ÙÚÛÜ ÇÑ", "aaaaaa eeee iiii ooooo uuuu cn"),
        // A capital stays one.
        ("laÉtat", "la etat"),
        ("isn’t", "isnt"),
        ("“gone”", "\"gone\""),
        ("«gone»", "\"gone\""),
    ]);
}

#[test]
fn clauses_end_at_marks_of_sentences() {
    check(&[
        ("a, b; c! d? e. f", "a / b / c / d / e / f"),
        ("会话。不，在、吗！", "会话 / 不 / 在 / 吗"),
        ("a.b", "a | b"),
        ("a.", "a"),
        ("a\nb", "a b"),
        ("a\n\nb", "a / b"),
        ("a: b", "a | b"),
        ("a-b_c", "a b c"),
        ("a=b", "a | b"),
        ("", ""),
        (", ,", ""),
    ]);
}

#[test]
fn braces_end_clauses_unless_they_hold_an_id() {
    check(&[
        ("{a b} c", "a b / c"),
        ("[a b] c", "a b / c"),
        ("a {b c", "a / b c"),
        ("a {b} c", "a | \"b\" | c"),
        ("a [b] c", "a | \"b\" | c"),
        ("a [x1] c", "a | c"),
        ("a [] c", "a / c"),
        ("a ] c", "a / c"),
    ]);
    // The length of an id is bounded.
    for (length, expected) in [(128, "a | c"), (129, "a / c")] {
        assert_eq!(show_clauses(format!("a [{}] c", "1".repeat(length))), expected, "{length}");
    }
}

#[test]
fn words_in_quotes_are_quoted() {
    check(&[
        ("\"a\" 'b' `c` (d) <e>", "\"a\" | \"b\" | \"c\" | \"d\" | \"e\""),
        ("\"a b\"", "a b"),
        ("\"a", "a"),
        ("a\"", "a"),
        ("(a]", "a"),
        ("\"a-b_c.d:e=f+g/h\"", "\"a\" b c | d | e | f | g | h"),
        ("isn't", "isnt"),
        ("a' b", "a | b"),
        ("'a'b", "\"a\" | b"),
    ]);
}

#[test]
fn ids_and_numbers_are_no_words() {
    check(&[
        ("a 12 b", "a | b"),
        ("a x1 b", "a | b"),
        ("a-1b", "a"),
        ("a deadbeef-cafe b", "a | b"),
        ("a cafe-beef b", "a | b"),
        // With three letters, no dash, another letter, or a known word, it is not part of an id.
        ("a bad-luck b", "a bad luck b"),
        ("a cafe b", "a cafe b"),
        ("a wage-cafe b", "a wage | b"),
        ("a face-off b", "a face off b"),
        ("会话abc已过期", "会话 abc 已过期"),
        ("会话abc123已过期", "会话 | 已过期"),
    ]);
}

#[test]
fn names_are_taken_apart_by_their_capitals() {
    check(&[
        ("sessionId", "session id"),
        ("SessionNotFound", "session not found"),
        ("MCPSession", "mcp session"),
        ("SESSION", "session"),
        ("aB", "a b"),
        ("OAuth", "oauth"),
    ]);
}
