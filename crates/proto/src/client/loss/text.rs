//! Splits the bytes of a refusal into clauses of words: character sets, escapes, HTML, identifiers.
//!
//! Nothing here knows what a word means. A body may be plain text, JSON, JSON inside a JSON string,
//! an event stream or an HTML page, cut anywhere. All of them are words between marks, so none is
//! parsed.

/// A word, in lower case and without accents.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) text: String,
    /// Whether only space, `-`, `_` or a change of case separates it from the word before.
    pub(super) joined: bool,
    /// Whether it is alone in quotes or brackets, as an id would be.
    pub(super) quoted: bool,
}

/// Consecutive words with no full stop, comma, brace or tag between them.
pub(super) type Clause = Vec<Word>;

/// Splits the beginning of a text into clauses. Words for which `known` returns `true` are not
/// split at their capitals.
pub(super) fn split_clauses(bytes: &[u8], known: fn(&str) -> bool) -> Vec<Clause> {
    let plain: Vec<char> = strip_tags(&unescape(&decode(&bytes[..bytes.len().min(MAX_TEXT_BYTES)])))
        .chars()
        .map(strip_accent)
        .collect();
    Splitter { chars: &plain, at: 0, known, clauses: Vec::new(), clause: Vec::new(), gap: Gap::Mark }.run()
}

/// Maximum number of bytes that are read. A server mentions the session at the beginning.
const MAX_TEXT_BYTES: usize = 4096;

/// Decodes UTF-8 that may be cut at its end, else UTF-16 of ASCII letters, else Latin-1.
fn decode(bytes: &[u8]) -> String {
    if bytes.contains(&0) {
        let letters = bytes.iter().filter(|byte| byte.is_ascii() && **byte != 0);
        return letters.map(|byte| char::from(*byte)).collect();
    }
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned()
        }
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Resolves the escapes of JSON, at any depth of strings within strings.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        rest = rest[at..].trim_start_matches('\\');
        let code = rest.strip_prefix('u').and_then(|rest| rest.get(..4));
        if let Some(code) = code.and_then(|code| u32::from_str_radix(code, 16).ok()) {
            plain.push(char::from_u32(code).unwrap_or(' '));
            rest = &rest[5..];
        } else if rest.starts_with(['n', 'r', 't', 'b', 'f']) {
            plain.push(' ');
            rest = &rest[1..];
        }
    }
    plain.push_str(rest);
    plain
}

/// Removes the tags and entities of HTML. A block tag ends a clause. An unknown tag is kept, since
/// it may be a placeholder, as in `session <id>`.
fn strip_tags(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '&']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(entity) = rest.strip_prefix('&') {
            let end = entity.find(|c: char| !c.is_ascii_alphanumeric() && c != '#').unwrap_or(entity.len());
            let ends = entity[end..].starts_with(';');
            plain.push(' ');
            rest = if ends { &entity[end + 1..] } else { entity };
            continue;
        }
        let inner = rest[1..].trim_start_matches('/');
        let end = inner.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(inner.len());
        let name = inner[..end].to_ascii_lowercase();
        let opens = rest.as_bytes().get(1) != Some(&b'/');
        match name.as_str() {
            // Not text for a reader. If the closing tag was cut off, nothing follows it.
            "script" | "style" if opens => {
                let close = format!("</{name}");
                rest = rest.to_ascii_lowercase().find(&close).map_or("", |end| &rest[end..]);
            }
            "b" | "i" | "em" | "strong" | "code" | "span" | "a" | "tt" | "u" | "small" => {
                plain.push(' ');
                rest = skip_tag(rest);
            }
            "" if !rest.starts_with("<!") => {
                plain.push(CLAUSE_BREAK);
                rest = &rest[1..];
            }
            _ if is_block(&name) || rest.starts_with("<!") => {
                plain.push(CLAUSE_BREAK);
                rest = skip_tag(rest);
            }
            _ => {
                plain.push('<');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn skip_tag(text: &str) -> &str {
    text.find('>').map_or("", |end| &text[end + 1..])
}

fn is_block(name: &str) -> bool {
    const BLOCKS: &str = " html head title meta link body script style div section main header footer center p \
                          pre br hr h1 h2 h3 h4 h5 h6 ul ol li table tr td th img svg form button ";
    BLOCKS.split(' ').any(|block| block == name)
}

/// Marks the end of a clause. It does not occur in text.
const CLAUSE_BREAK: char = '\u{1}';

fn strip_accent(letter: char) -> char {
    let plain = match letter {
        'à'..='å' | 'À'..='Å' => 'a',
        'è'..='ë' | 'È'..='Ë' => 'e',
        'ì'..='ï' | 'Ì'..='Ï' => 'i',
        'ò'..='ö' | 'Ò'..='Ö' => 'o',
        'ù'..='ü' | 'Ù'..='Ü' => 'u',
        'ç' | 'Ç' => 'c',
        'ñ' | 'Ñ' => 'n',
        '’' => return '\'',
        '“' | '”' | '«' | '»' => return '"',
        other => return other,
    };
    if letter.is_uppercase() { plain.to_ascii_uppercase() } else { plain }
}

/// What separates the last word from the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    Joint,
    Mark,
}

struct Splitter<'a> {
    chars: &'a [char],
    at: usize,
    known: fn(&str) -> bool,
    clauses: Vec<Clause>,
    clause: Clause,
    gap: Gap,
}

impl Splitter<'_> {
    fn run(mut self) -> Vec<Clause> {
        while let Some(&letter) = self.chars.get(self.at) {
            if letter.is_alphanumeric() {
                self.read_word();
                continue;
            }
            let next = self.chars.get(self.at + 1).copied().unwrap_or(CLAUSE_BREAK);
            match letter {
                CLAUSE_BREAK | ',' | ';' | '!' | '?' | '。' | '，' | '、' | '！' => self.end_clause(),
                // `a.b` is a name; `a. B` ends a sentence.
                '.' if !next.is_alphanumeric() => self.end_clause(),
                '\n' if next == '\n' => self.end_clause(),
                // A brace belongs to JSON, unless it encloses only an id.
                '{' | '[' if self.find_closing(self.at).is_none() => self.end_clause(),
                '}' | ']' if !self.ends_quote() => self.end_clause(),
                '-' | '_' => {}
                space if space.is_whitespace() => {}
                _ => self.gap = Gap::Mark,
            }
            self.at += 1;
        }
        self.end_clause();
        self.clauses
    }

    fn end_clause(&mut self) {
        if !self.clause.is_empty() {
            self.clauses.push(std::mem::take(&mut self.clause));
        }
        self.gap = Gap::Mark;
    }

    /// Reads one run of letters and digits, and splits it into words.
    fn read_word(&mut self) {
        let start = self.at;
        let quoted = start > 0 && self.find_closing(start - 1).is_some();
        let ascii = self.chars[start].is_ascii();
        let mut run = String::new();
        while let Some(&letter) = self.chars.get(self.at) {
            let next = self.chars.get(self.at + 1);
            // The apostrophe of `isn't` is part of the word.
            if letter == '\'' && !quoted && next.is_some_and(|next| next.is_alphabetic()) {
                self.at += 1;
                continue;
            }
            // In scripts without spaces, an id ends where the script changes.
            if !letter.is_alphanumeric() || letter.is_ascii() != ascii {
                break;
            }
            run.push(letter);
            self.at += 1;
        }
        let whole = run.to_lowercase();
        // A run with a digit is an id, a code or a number. So is a part of a UUID without digits.
        let dashed = [start.checked_sub(1), Some(self.at)].into_iter().flatten();
        let hex = run.len() >= 4 && run.chars().all(|letter| letter.is_ascii_hexdigit());
        let in_id =
            hex && !(self.known)(&whole) && dashed.into_iter().any(|at| self.chars.get(at) == Some(&'-'));
        if in_id || run.chars().any(|letter| letter.is_ascii_digit()) {
            self.gap = Gap::Mark;
            return;
        }
        if (self.known)(&whole) {
            self.push(whole, quoted);
        } else {
            for part in split_at_capitals(&run) {
                self.push(part.to_lowercase(), quoted);
            }
        }
    }

    fn push(&mut self, text: String, quoted: bool) {
        if self.clause.len() == MAX_CLAUSE_WORDS {
            self.end_clause();
        }
        let joined = self.gap == Gap::Joint && !self.clause.is_empty();
        self.clause.push(Word { text, joined, quoted });
        self.gap = Gap::Joint;
    }

    /// Whether the closing mark at the current position ends a quote that [`Self::find_closing`]
    /// finds.
    fn ends_quote(&self) -> bool {
        let from = self.at.saturating_sub(MAX_QUOTE_LEN + 1);
        (from..self.at).rev().any(|open| self.find_closing(open) == Some(self.at))
    }

    /// The position where the quote or bracket at `open` closes, if it encloses one run without
    /// space.
    fn find_closing(&self, open: usize) -> Option<usize> {
        let close = match self.chars[open] {
            '"' => '"',
            '\'' => '\'',
            '`' => '`',
            '(' => ')',
            '[' => ']',
            '{' => '}',
            '<' => '>',
            _ => return None,
        };
        let inner = self.chars[open + 1..].iter().take(MAX_QUOTE_LEN);
        let length = inner.take_while(|c| c.is_ascii_alphanumeric() || "-_.:=+/".contains(**c)).count();
        let end = open + 1 + length;
        (length > 0 && self.chars.get(end) == Some(&close)).then_some(end)
    }
}

const MAX_QUOTE_LEN: usize = 128;

/// Maximum number of words in a clause. It bounds the grammar, which may compare all pairs of
/// words.
const MAX_CLAUSE_WORDS: usize = 64;

/// Splits names such as `sessionId`, `SessionNotFound` and `MCPSession` into words.
fn split_at_capitals(run: &str) -> Vec<String> {
    let letters: Vec<char> = run.chars().collect();
    let mut parts = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let after_small = at > 0 && letters[at - 1].is_lowercase();
        let before_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let begins = at > 0 && letter.is_uppercase() && (after_small || before_small);
        if begins {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(*letter);
        }
    }
    parts
}
