//! Completes a line of the prompt, from what the connected servers offer now.

use std::time::Duration;

use bowline::Client;
use tokio::time::timeout;

use super::Repl;
use super::command::{OWN_COMMANDS, SEARCH, SERVER_VERBS, to_verb};
use crate::commands::list::{prompt_record, resource_record, template_record, tool_record};
use crate::shell::command_line::split_words;
use crate::shell::names::{NameKind, NameRecord, bounded_records, server_candidates};
use crate::shell::{self, Candidate, NameSource, PromptValueQuery};
use crate::suggested_command::shell_quote;

/// How long a person waits for candidates.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(2);
/// Most candidates for one word.
const MAX_CANDIDATES: usize = 500;

/// Returns the lines that `line`, which ends at the cursor, can be completed to.
pub(super) async fn complete(repl: &Repl<'_>, line: &str) -> Vec<String> {
    let split = split_words(line);
    let Some((typed, before)) = split.words.split_last() else { return Vec::new() };
    let source = LiveNames(repl);
    let found = timeout(COMPLETION_TIMEOUT, find_candidates(repl, before, typed, &source)).await;
    let found = found.unwrap_or_default().into_iter().filter(|one| one.value.starts_with(typed));
    let begin = &line[..split.last_word_at];
    let whole = |one: Candidate| {
        // A value or the rest of a path is still to come.
        let end = if one.value.ends_with(['=', '/']) { "" } else { " " };
        format!("{begin}{}{end}", shell_quote(&one.value))
    };
    found.take(MAX_CANDIDATES).map(whole).collect()
}

async fn find_candidates(
    repl: &Repl<'_>,
    before: &[String],
    typed: &str,
    source: &LiveNames<'_>,
) -> Vec<Candidate> {
    let search = repl.current.is_none().then_some(SEARCH);
    let commands = || {
        let all = OWN_COMMANDS.into_iter().chain(SERVER_VERBS).chain(search);
        all.map(|word| Candidate::new(word.to_owned()))
    };
    match before {
        [] => {
            let mut found: Vec<Candidate> = commands().collect();
            match &repl.current {
                Some(server) => {
                    let tools = source.names(&server.word, NameKind::Tools).await;
                    found.extend(tools.into_iter().map(|tool| Candidate::new(tool.name)));
                }
                None => found.extend(source.servers()),
            }
            found
        }
        [word] if word == "use" => source.servers(),
        [word] if word == "help" => commands().collect(),
        [word, ..] if OWN_COMMANDS.contains(&word.as_str()) => Vec::new(),
        [first, rest @ ..] => {
            let servers = source.servers();
            let names: Vec<&str> = servers.iter().map(|server| server.value.as_str()).collect();
            match to_verb(first, rest, repl.current.as_ref(), &names) {
                Some(words) => shell::candidates(&words, typed, source).await,
                None => Vec::new(),
            }
        }
    }
}

/// What the servers of the prompt offer.
struct LiveNames<'a>(&'a Repl<'a>);

impl LiveNames<'_> {
    /// Returns the client of a server. One that is not connected is not connected to for a Tab.
    fn client(&self, word: &str) -> Option<Client> {
        let repl = self.0;
        let name = match repl.kept.named_server(word) {
            Some(server) => server.name.as_str(),
            None => word,
        };
        repl.kept.clients().into_iter().find(|(server, _)| server.name == name).map(|(_, client)| client)
    }
}

impl NameSource for LiveNames<'_> {
    fn servers(&self) -> Vec<Candidate> {
        server_candidates(self.0.settings)
    }

    async fn names(&self, server: &str, kind: NameKind) -> Vec<NameRecord> {
        let Some(client) = self.client(server) else { return Vec::new() };
        // Without an answer there is nothing to offer, and the command itself reports why.
        match kind {
            NameKind::Tools => {
                let tools = client.list_tools().await.unwrap_or_default();
                bounded_records(tools.iter().map(tool_record))
            }
            NameKind::Prompts => {
                let prompts = client.list_prompts().await.unwrap_or_default();
                bounded_records(prompts.iter().map(prompt_record))
            }
            NameKind::Resources => {
                let resources = client.list_resources().await.unwrap_or_default();
                bounded_records(resources.iter().map(resource_record))
            }
            NameKind::Templates => {
                let templates = client.list_resource_templates().await.unwrap_or_default();
                bounded_records(templates.iter().map(template_record))
            }
        }
    }

    async fn prompt_values(&self, server: &str, query: PromptValueQuery<'_>) -> Vec<String> {
        match self.client(server) {
            Some(client) => query.fetch(&client).await,
            None => Vec::new(),
        }
    }
}
