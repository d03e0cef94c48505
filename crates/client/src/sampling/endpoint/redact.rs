//! Redacts secrets from the messages of an endpoint.

use bowline_config::Secret;
use bowline_transport::REDACTED;
use url::Url;

/// The secrets to redact.
pub(super) struct Redactor {
    secrets: Vec<Secret>,
}

/// Minimum number of consecutive characters of a secret that are redacted; fewer may be
/// coincidence.
const MIN_SECRET_RUN: usize = 6;
/// Maximum number of characters of a message that are processed.
const MAX_INPUT_CHARS: usize = 4096;

impl Redactor {
    pub(super) fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        Self { secrets: secrets.into_iter().filter(|secret| !secret.expose().is_empty()).collect() }
    }

    /// Adds the path segments and query values of a URL, which may be keys or accounts. Parts that
    /// are shorter than [`MIN_SECRET_RUN`] are taken for words.
    pub(super) fn with_url(mut self, url: &Url) -> Self {
        let segments = url.path_segments().into_iter().flatten().map(str::to_owned);
        let written = url.query().into_iter().flat_map(|query| query.split(['&', '='])).map(str::to_owned);
        let meant = url.query_pairs().map(|(_, value)| value.into_owned());
        let parts =
            segments.chain(written).chain(meant).filter(|part| part.chars().count() >= MIN_SECRET_RUN);
        self.secrets.extend(parts.map(Secret::new));
        self
    }

    /// Returns `text` on one line, without secrets or parts of them, cut to `max_chars` characters.
    pub(super) fn redact(&self, text: &str, max_chars: usize) -> String {
        let letters: Vec<char> = text.chars().take(MAX_INPUT_CHARS).collect();
        let mut covered = vec![false; letters.len()];
        for secret in &self.secrets {
            let secret: Vec<char> = secret.expose().chars().collect();
            let run = MIN_SECRET_RUN.min(secret.len());
            for at in 0..letters.len().saturating_sub(run - 1) {
                let piece = &letters[at..at + run];
                if secret.windows(run).any(|window| window == piece) {
                    covered[at..at + run].fill(true);
                }
            }
        }
        redact_masked(&letters, &mut covered);
        let mut shown = String::new();
        let mut inside = false;
        for (letter, covered) in letters.into_iter().zip(covered) {
            match (covered, inside) {
                (true, false) => shown.push_str(REDACTED),
                (true, true) => {}
                (false, _) => shown.push(if letter.is_control() { ' ' } else { letter }),
            }
            inside = covered;
        }
        let shown = shown.trim();
        match shown.char_indices().nth(max_chars) {
            Some((at, _)) => format!("{}…", &shown[..at]),
            None => shown.to_owned(),
        }
    }
}

/// Redacts words with asterisks: keys that someone else has masked, but never completely.
fn redact_masked(letters: &[char], covered: &mut [bool]) {
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
        let redactor = Redactor::new(["sk-live-0123456789", "abc", ""].map(Secret::from));
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
            assert_eq!(redactor.redact(said, 100), shown);
        }
        // Cut after redaction; otherwise half a key would remain.
        assert_eq!(redactor.redact("key sk-live-0123456789", 8), "key [red…");
        assert_eq!(Redactor::new([]).redact(&"x".repeat(10_000), 5), "xxxxx…");
    }
    #[test]
    fn an_address_holds_secrets_too() {
        let url = "https://gateway.example/v1/account-4711/x?token=a%2Fb-c-d-e-f&v=1".parse().unwrap();
        let redactor = Redactor::new([]).with_url(&url);
        for (said, shown) in [
            ("no credit left for account-4711", "no credit left for [redacted]"),
            ("token a/b-c-d-e-f is not known", "token [redacted] is not known"),
            ("token a%2Fb-c-d-e-f is not known", "token [redacted] is not known"),
            ("v1 of the API has 1 error", "v1 of the API has 1 error"),
        ] {
            assert_eq!(redactor.redact(said, 100), shown);
        }
    }
}
