//! Owns what the entries of a file mean once their keys are decoded, for the outline: hosts have several
//! spellings of a key, and the decoder is the only place that knows them all.

use std::collections::BTreeMap;

use super::ProgramOutline;
use crate::dialect;
use crate::raw::{RawAuth, RawHeadersCommand, RawHook, RawIdp, RawMap, RawServer, RawTokenSource};
use crate::report::{LocatedValue, Report};
use crate::source::Source;
use crate::tree;

/// What the decoded servers and hooks of a file start and send, by the dotted path of the table or key.
/// No placeholder is filled. An entry with a problem is included as far as it can be decoded.
#[derive(Default)]
pub(super) struct EntryMeanings {
    /// The programs that would be started.
    pub(super) programs: BTreeMap<String, ProgramOutline>,
    /// The headers that would be sent to a server or webhook: names and values.
    pub(super) headers: BTreeMap<String, Vec<(String, String)>>,
}

/// Where and with which variables a program is started.
struct ProgramContext {
    env: Option<LocatedValue<RawMap>>,
    cwd: Option<LocatedValue<String>>,
}

impl EntryMeanings {
    /// Decodes the entries of a file. What is wrong with them is not reported here.
    pub(super) fn read(source: &Source) -> Self {
        let mut report = Report::new(source);
        let mut meanings = Self::default();
        let Some(root) = tree::read(source, &mut report) else { return meanings };
        let file = dialect::read_document(source.format, root, &mut report);
        for hook in file.hooks.into_iter().flat_map(|hooks| hooks.value) {
            meanings.add_hook(dialect::decode_hook(hook, &mut report));
        }
        for mut entry in file.servers.into_iter().flat_map(|servers| servers.value) {
            let raw = dialect::decode_server(source.format, &mut entry, &mut report);
            meanings.add_server(&entry.place.key, raw);
        }
        meanings
    }

    fn add_server(&mut self, key: &str, raw: RawServer) {
        let RawServer { command, args, env, cwd, headers, headers_command, auth, hooks, .. } = raw;
        self.add_program(key, command, args, ProgramContext { env, cwd });
        self.add_headers(key, headers);
        if let Some(LocatedValue { value, place }) = headers_command {
            // The key of a table is that of the table itself.
            let RawHeadersCommand { command, args, env, cwd, timeout: _, ttl: _, of_host: _, garbled: _ } =
                value;
            let words = command.into_iter().flat_map(|words| words.value);
            self.add_program(&place.key, words, args, ProgramContext { env, cwd });
        }
        if let Some(LocatedValue { value: RawAuth { assertion, idp, .. }, .. }) = auth {
            self.add_token_source(assertion);
            if let Some(LocatedValue { value: RawIdp { id_token, .. }, .. }) = idp {
                self.add_token_source(id_token);
            }
        }
        for hook in hooks.into_iter().flat_map(|hooks| hooks.value) {
            self.add_hook(hook);
        }
    }

    fn add_hook(&mut self, hook: LocatedValue<RawHook>) {
        let LocatedValue { value, place } = hook;
        let RawHook { on: _, command, args, env, cwd, webhook: _, headers, timeout: _, garbled: _ } = value;
        self.add_program(&place.key, command, args, ProgramContext { env, cwd });
        self.add_headers(&place.key, headers);
    }

    fn add_token_source(&mut self, table: Option<LocatedValue<RawTokenSource>>) {
        let Some(LocatedValue { value, place }) = table else { return };
        let RawTokenSource { value: _, file: _, command, env, cwd, garbled: _ } = value;
        let words = command.into_iter().flat_map(|words| words.value);
        self.add_program(&place.key, words, None, ProgramContext { env, cwd });
    }

    /// Adds a program, if there is a command.
    fn add_program(
        &mut self,
        key: &str,
        command: impl IntoIterator<Item = LocatedValue<String>>,
        args: Option<LocatedValue<Vec<LocatedValue<String>>>>,
        context: ProgramContext,
    ) {
        let mut words: Vec<String> = command.into_iter().map(|word| word.value).collect();
        if words.is_empty() {
            return;
        }
        words.extend(args.into_iter().flat_map(|args| args.value).map(|word| word.value));
        let (env, cwd) = (list_pairs(context.env), context.cwd.map(|cwd| cwd.value));
        self.programs.insert(key.to_owned(), ProgramOutline { key: key.to_owned(), words, env, cwd });
    }

    fn add_headers(&mut self, key: &str, headers: Option<LocatedValue<RawMap>>) {
        if headers.is_some() {
            self.headers.insert(key.to_owned(), list_pairs(headers));
        }
    }
}

fn list_pairs(map: Option<LocatedValue<RawMap>>) -> Vec<(String, String)> {
    let all = map.into_iter().flat_map(|map| map.value);
    all.map(|(name, value)| (name.value, value.value)).collect()
}
