//! Owns the rule that no secret leaves in somebody else's words: what an endpoint says is shown only where it does
//! not repeat what it was sent.

use bowline_config::Secret;
use url::Url;

/// What must not be shown.
pub(super) struct Veil {
    secrets: Vec<Secret>,
}

/// So many characters of a secret in a row are part of it; fewer are a coincidence.
const RUN: usize = 6;
/// No sentence is longer before it is cut.
const LONGEST: usize = 4096;
const COVER: &str = "[redacted]";

impl Veil {
    pub(super) fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        Self { secrets: secrets.into_iter().filter(|secret| !secret.expose().is_empty()).collect() }
    }

    /// The same, and what may be a key or an account in the address: its path and the values of its query. Parts
    /// that are shorter than a key are words.
    pub(super) fn and_url(mut self, url: &Url) -> Self {
        let segments = url.path_segments().into_iter().flatten().map(str::to_owned);
        let written = url.query().into_iter().flat_map(|query| query.split(['&', '='])).map(str::to_owned);
        let meant = url.query_pairs().map(|(_, value)| value.into_owned());
        let parts = segments.chain(written).chain(meant).filter(|part| part.chars().count() >= RUN);
        self.secrets.extend(parts.map(Secret::new));
        self
    }

    /// `text` on one line, without any secret or part of one, cut to `most` characters.
    pub(super) fn over(&self, text: &str, most: usize) -> String {
        let letters: Vec<char> = text.chars().take(LONGEST).collect();
        let mut covered = vec![false; letters.len()];
        for secret in &self.secrets {
            let secret: Vec<char> = secret.expose().chars().collect();
            let run = RUN.min(secret.len());
            for at in 0..letters.len().saturating_sub(run - 1) {
                let piece = &letters[at..at + run];
                if secret.windows(run).any(|window| window == piece) {
                    covered[at..at + run].fill(true);
                }
            }
        }
        cover_masked(&letters, &mut covered);
        let mut shown = String::new();
        let mut inside = false;
        for (letter, covered) in letters.into_iter().zip(covered) {
            match (covered, inside) {
                (true, false) => shown.push_str(COVER),
                (true, true) => {}
                (false, _) => shown.push(if letter.is_control() { ' ' } else { letter }),
            }
            inside = covered;
        }
        let shown = shown.trim();
        match shown.char_indices().nth(most) {
            Some((at, _)) => format!("{}…", &shown[..at]),
            None => shown.to_owned(),
        }
    }
}

/// A word with stars in it is a key that somebody else has covered, and never all of it.
fn cover_masked(letters: &[char], covered: &mut [bool]) {
    let mut start = 0;
    for word in letters.split(|letter| letter.is_whitespace()) {
        if word.windows(2).any(|pair| pair == ['*', '*']) {
            covered[start..start + word.len()].fill(true);
        }
        start += word.len() + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_parts_of_them_are_covered() {
        let veil = Veil::new(["sk-live-0123456789", "abc", ""].map(Secret::from));
        for (said, shown) in [
            ("bad key sk-live-0123456789!", "bad key [redacted]!"),
            ("sk-live-0123456789sk-live-0123456789", "[redacted]"),
            (
                "begins with sk-live-01 and ends with 456789",
                "begins with [redacted] and ends with [redacted]",
            ),
            ("an abc in it", "an [redacted] in it"),
            ("the model is 12345 years old", "the model is 12345 years old"),
            ("Incorrect key: sk-li******6789 (see a*b)", "Incorrect key: [redacted] (see a*b)"),
            ("two\nlines\t\u{1b}[31m", "two lines  [31m"),
            ("", ""),
        ] {
            assert_eq!(veil.over(said, 100), shown);
        }
        // Cut after it was covered: half a key would be left otherwise.
        assert_eq!(veil.over("key sk-live-0123456789", 8), "key [red…");
        assert_eq!(Veil::new([]).over(&"x".repeat(10_000), 5), "xxxxx…");
    }
    #[test]
    fn an_address_holds_secrets_too() {
        let url = "https://gateway.example/v1/account-4711/x?token=a%2Fb-c-d-e-f&v=1".parse().unwrap();
        let veil = Veil::new([]).and_url(&url);
        for (said, shown) in [
            ("no credit left for account-4711", "no credit left for [redacted]"),
            ("token a/b-c-d-e-f is not known", "token [redacted] is not known"),
            ("token a%2Fb-c-d-e-f is not known", "token [redacted] is not known"),
            ("v1 of the API has 1 error", "v1 of the API has 1 error"),
        ] {
            assert_eq!(veil.over(said, 100), shown);
        }
    }
}
