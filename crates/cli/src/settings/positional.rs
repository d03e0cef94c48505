//! Parses the positional arguments of a verb: SERVER comes first, unless a command after `--`
//! replaces it.

use crate::failure::{Failure, Outcome};

/// The positional arguments of one verb, taken from the left.
pub(crate) struct PositionalArgs {
    verb: &'static str,
    usage: &'static str,
    server: Option<String>,
    rest: std::vec::IntoIter<String>,
}

impl PositionalArgs {
    /// Takes SERVER, unless a command is given. `usage` is what follows it in the usage line.
    pub(crate) fn new(
        verb: &'static str,
        usage: &'static str,
        words: Vec<String>,
        command: &[String],
    ) -> Outcome<Self> {
        let mut words = Self { verb, usage, server: None, rest: words.into_iter() };
        if command.is_empty() {
            words.server =
                Some(words.take_required("SERVER", "a configured name or a URL, or end with `-- COMMAND`")?);
        } else if words.rest.as_slice().first().is_some_and(|word| word.contains("://"))
            && !usage.starts_with("URI")
        {
            return Err(words.usage_failure("both a URL and a command are given: which is the server?"));
        }
        Ok(words)
    }

    /// Returns SERVER, if it was given.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// Takes the next word, which is required.
    pub(crate) fn take_required(&mut self, name: &str, what: &str) -> Outcome<String> {
        match self.rest.next() {
            Some(word) if !word.is_empty() => Ok(word),
            _ => Err(self.usage_failure(&format!("{name} is missing: {what}"))),
        }
    }

    /// Takes the next word, if there is one.
    pub(crate) fn next(&mut self) -> Option<String> {
        self.rest.next()
    }

    /// Removes a word from those that remain, and returns whether it was there.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let before = self.rest.len();
        let rest: Vec<String> = self.rest.by_ref().filter(|other| other != word).collect();
        let found = rest.len() < before;
        self.rest = rest.into_iter();
        found
    }

    /// Returns the remaining words, each of which must be `key=value`.
    pub(crate) fn into_pairs(self) -> Outcome<Vec<String>> {
        let stray = self.rest.as_slice().iter().find(|word| !word.contains('='));
        if let Some(stray) = stray {
            let why = if self.server.is_none() {
                "SERVER is left out when a command is given after `--`"
            } else {
                "arguments are written key=value; quote values with spaces"
            };
            return Err(self.usage_failure(&format!("`{stray}` is not key=value: {why}")));
        }
        Ok(self.rest.collect())
    }

    /// Returns SERVER, and fails if any word remains. `is_configured` says whether there is a server of a name.
    pub(crate) fn finish(self, is_configured: impl Fn(&str) -> bool) -> Outcome<Option<String>> {
        let Some(stray) = self.rest.as_slice().first() else { return Ok(self.server) };
        let why = match &self.server {
            None => "SERVER is left out when a command is given after `--`".to_owned(),
            Some(server) if server.contains("://") => "it is one word too many after the URL".to_owned(),
            Some(server) if is_configured(server) => {
                format!("it is one word too many after the configured server `{server}`")
            }
            Some(server) => format!("to start a server, write `-- {server} {stray} …`"),
        };
        Err(self.usage_failure(&format!("unexpected `{stray}`: {why}")))
    }

    /// Builds a usage failure with the usage line as its hint.
    pub(crate) fn usage_failure(&self, message: &str) -> Failure {
        let Self { verb, usage: form, .. } = self;
        let spaced = if form.is_empty() { String::new() } else { format!(" {form}") };
        let hint =
            format!("write `bowline {verb} SERVER{spaced}`, or `bowline {verb}{spaced} -- COMMAND [ARG]...`");
        Failure::usage_hint(message, hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &str, command: &[&str]) -> Outcome<PositionalArgs> {
        let words = words.split_whitespace().map(String::from).collect();
        let command: Vec<String> = command.iter().map(ToString::to_string).collect();
        PositionalArgs::new("call", "TOOL [KEY=VALUE]...", words, &command)
    }

    #[test]
    fn a_command_stands_in_for_the_server() {
        let mut by_name = words("files search q=knots", &[]).ok().unwrap();
        assert_eq!(by_name.server(), Some("files"));
        assert_eq!(by_name.take_required("TOOL", "").ok().unwrap(), "search");
        assert_eq!(by_name.into_pairs().ok().unwrap(), ["q=knots"]);

        let mut by_command = words("search q=knots", &["srv"]).ok().unwrap();
        assert_eq!(by_command.server(), None);
        assert_eq!(by_command.take_required("TOOL", "").ok().unwrap(), "search");
        assert_eq!(by_command.into_pairs().ok().unwrap(), ["q=knots"]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(words("", &[]).is_err());
        assert!(words("http://h/mcp search", &["srv"]).is_err());
        assert!(words("files", &[]).ok().unwrap().take_required("TOOL", "").is_err());
        assert!(words("files a b", &[]).ok().unwrap().into_pairs().is_err());
        assert!(words("files a", &[]).ok().unwrap().finish(|_| false).is_err());
        assert!(words("files", &["srv"]).ok().unwrap().finish(|_| false).is_err());
    }
}
