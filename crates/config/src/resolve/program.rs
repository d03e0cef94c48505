//! Owns how programs that print headers or tokens are resolved.

use std::time::Duration;

use url::Url;

use super::transport::StdioKeys;
use super::{Resolver, places};
use crate::auth::{HeadersCommand, Program, TokenSource};
use crate::check::{self, InvalidValue};
use crate::problem::ProblemKind;
use crate::raw::{RawHeadersCommand, RawMap, RawTokenSource};
use crate::report::{Finding, LocatedValue};
use crate::secret::Secret;

/// The server that a headers command is run for.
pub(super) struct ServerRef<'a> {
    pub(super) name: &'a str,
    pub(super) url: Option<&'a Url>,
}

impl Resolver<'_, '_> {
    /// Resolves `headers_command`; `None` if a reported problem leaves no usable one.
    pub(super) fn resolve_headers_command(
        &mut self,
        table: LocatedValue<RawHeadersCommand>,
        server: ServerRef<'_>,
    ) -> Option<HeadersCommand> {
        let LocatedValue { value: raw, place } = table;
        let RawHeadersCommand { command, args, env, cwd, timeout, ttl, garbled, of_host } = raw;
        if command.is_none() && !garbled.contains(&"command") {
            self.report_missing(&place, "needs `command`", "the program that prints the headers");
        }
        let mut words = command?;
        if let Some(args) = args {
            if words.value.len() > 1 {
                let finding = Finding::new(ProblemKind::Conflict, "`command` has arguments already")
                    .hint("keep them in one place");
                self.report.error(&args.place, finding);
            }
            words.value.extend(args.value);
        }
        let mut program = if of_host {
            // The host passes the line to a shell as it is written, and so do we: nothing is filled
            // in.
            let mut words = words.value.into_iter().map(|word| word.value);
            Program::new(words.next()?, words)
        } else {
            self.resolve_program(words, env, cwd)?
        };
        if let (true, Some(url)) = (of_host, server.url) {
            let told =
                [("CLAUDE_CODE_MCP_SERVER_NAME", server.name), ("CLAUDE_CODE_MCP_SERVER_URL", url.as_str())];
            program.env.extend(told.map(|(name, value)| (name.to_owned(), Secret::new(value))));
        }
        let or = |given: Option<LocatedValue<Duration>>, default| given.map_or(default, |it| it.value);
        let default = HeadersCommand::new(program);
        Some(HeadersCommand {
            timeout: or(timeout, default.timeout),
            ttl: or(ttl, default.ttl),
            program: default.program,
        })
    }

    /// Resolves where a token comes from; `None` if a reported problem leaves no usable source.
    pub(super) fn resolve_token_source(
        &mut self,
        table: LocatedValue<RawTokenSource>,
    ) -> Option<TokenSource> {
        let LocatedValue { value: raw, place } = table;
        let RawTokenSource { value, file, command, env, cwd, garbled } = raw;
        let garbled = ["value", "file", "command"].iter().any(|key| garbled.contains(key));
        if command.is_none() && !garbled {
            for place in places![env, cwd] {
                let finding = Finding::new(ProblemKind::Conflict, "belongs to a `command`");
                self.report.error(place, finding);
            }
        }
        match (value, file, command) {
            (Some(value), None, None) => {
                self.resolve_text(value, check::credential).map(|it| TokenSource::Value(Secret::new(it)))
            }
            (None, Some(file), None) => self.resolve_path(Some(file)).map(TokenSource::File),
            (None, None, Some(command)) => self.resolve_program(command, env, cwd).map(TokenSource::Command),
            (None, None, None) => {
                if !garbled {
                    self.report_missing(
                        &place,
                        "needs `value`, `file` or `command`",
                        "set one of them: it says where the token comes from",
                    );
                }
                None
            }
            _ => {
                let finding =
                    Finding::new(ProblemKind::Conflict, "has more than one of `value`, `file` and `command`")
                        .hint("the token comes from one place");
                self.report.error(&place, finding);
                None
            }
        }
    }

    /// Builds a program from a list of its name and arguments.
    fn resolve_program(
        &mut self,
        words: LocatedValue<Vec<LocatedValue<String>>>,
        env: Option<LocatedValue<RawMap>>,
        cwd: Option<LocatedValue<String>>,
    ) -> Option<Program> {
        let LocatedValue { value: words, place } = words;
        let mut words = words.into_iter();
        let Some(command) = words.next() else {
            self.refuse([&place], &InvalidValue::EmptyCommand);
            return None;
        };
        let args = Some(LocatedValue::new(words.collect(), place));
        self.resolve_stdio(command, StdioKeys { args, env, cwd })
    }
}
