//! Argument completion (group CP): single requests, and suggestions while a person is typing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bowline_proto::revision::Revision;
use bowline_proto::wire::view::Completion;
use bowline_proto::wire::{Json, code, method};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Feature;
use crate::client::Client;
use crate::connection::CallOptions;
use crate::error::{ErrorKind, Result};

/// The prompt or template whose argument is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reference<'a> {
    /// A prompt, by name.
    Prompt(&'a str),
    /// A resource template, as the server wrote it.
    Resource(&'a str),
}

impl Client {
    /// Requests suggestions for `argument`, of which `value` has been typed so far. `context` holds
    /// the arguments that are already chosen; servers before 2025-06-18 do not receive it.
    ///
    /// A server that does not declare completions is not asked ([`ErrorKind::NotOffered`]). In
    /// 2024-11-05 no server could declare them: such a server is asked, and has no suggestions if
    /// it does not know the method. Dropping the future cancels it on the server.
    pub async fn complete(
        &self,
        reference: &Reference<'_>,
        argument: &str,
        value: &str,
        context: &BTreeMap<String, String>,
    ) -> Result<Completion> {
        self.complete_with(reference, argument, value, context, &CallOptions::new()).await
    }

    async fn complete_with(
        &self,
        reference: &Reference<'_>,
        argument: &str,
        value: &str,
        context: &BTreeMap<String, String>,
        options: &CallOptions,
    ) -> Result<Completion> {
        let method = method::COMPLETE;
        let live = self.live_link_for(method, options).await?;
        let revision = live.peer.revision;
        // CP-01
        if revision > Revision::V2024_11_05 {
            Feature::Completions.require(self.connection(), &live.peer, method)?;
        }
        // CP-02
        let context = (revision >= Revision::V2025_06_18).then_some(context);
        let params = params(reference, argument, value, context);
        match self.connection().request_on(&live, method, Some(&params), options).await {
            Ok(result) => {
                self.connection().server.decode_result(method, &result, Completion::decode(&result))
            }
            Err(error)
                if revision == Revision::V2024_11_05
                    && error.server_error().is_some_and(|error| error.code == code::METHOD_NOT_FOUND) =>
            {
                Ok(Completion::default())
            }
            Err(error) => Err(error),
        }
    }
}

fn params(
    reference: &Reference<'_>,
    argument: &str,
    value: &str,
    context: Option<&BTreeMap<String, String>>,
) -> Json {
    let reference = match reference {
        Reference::Prompt(name) => json!({ "type": "ref/prompt", "name": name }),
        Reference::Resource(uri) => json!({ "type": "ref/resource", "uri": uri }),
    };
    let mut params = json!({ "ref": reference, "argument": { "name": argument, "value": value } });
    if let Some(chosen) = context.filter(|chosen| !chosen.is_empty()) {
        params["context"] = json!({ "arguments": chosen });
    }
    Json::encode(&params).expect("strings are JSON")
}

/// Suggestions while a person is typing.
///
/// # Behavior
/// - A request is sent only after a pause in typing ([`Completer::pause`]).
/// - The latest request wins: an older one that is still open is canceled and returns `None`.
/// - Results are cached for a minute, so going back over typed text sends nothing.
/// - It never fails: without an answer there are no suggestions. A server that does not know the
///   method is not asked again.
// CP-03
#[derive(Debug)]
pub struct Completer {
    client: Client,
    pause: Duration,
    /// Number of the latest request.
    latest: watch::Sender<u64>,
    cache: Mutex<SuggestionCache>,
}

/// Cached results by request params, oldest first.
#[derive(Debug, Default)]
struct SuggestionCache {
    answers: VecDeque<(Json, Instant, Completion)>,
    /// Whether the server has no completion at all.
    unsupported: bool,
}

impl Completer {
    /// Creates a completer for the server of `client`.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            pause: DEFAULT_TYPING_PAUSE,
            latest: watch::Sender::new(0),
            cache: Mutex::default(),
        }
    }

    /// Sets the pause in typing after which the server is asked (default 150 ms).
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Returns the server's suggestions, or `None` if a later request has replaced this one.
    ///
    /// Dropping the future cancels the request if it was sent.
    pub async fn suggest(
        &self,
        reference: &Reference<'_>,
        argument: &str,
        value: &str,
        context: &BTreeMap<String, String>,
    ) -> Option<Completion> {
        let mut turn = 0;
        self.latest.send_modify(|latest| {
            *latest += 1;
            turn = *latest;
        });
        let key = params(reference, argument, value, Some(context));
        if let Some(known) = self.cache.lock().get(&key) {
            return Some(known);
        }
        let mut latest = self.latest.subscribe();
        let asked = async {
            tokio::time::sleep(self.pause).await;
            let options = CallOptions::new().idle_timeout(SUGGESTION_TIMEOUT).timeout(SUGGESTION_TIMEOUT);
            self.client.complete_with(reference, argument, value, context, &options).await
        };
        let answer = tokio::select! {
            biased;
            _ = latest.wait_for(|latest| *latest != turn) => return None,
            answer = asked => answer,
        };
        match answer {
            Ok(completion) => {
                self.cache.lock().insert(key, &completion);
                Some(completion)
            }
            Err(error) => {
                tracing::debug!(%error, "no suggestions");
                let unknown = error.server_error().is_some_and(|error| error.code == code::METHOD_NOT_FOUND);
                if unknown || matches!(error.kind(), ErrorKind::NotOffered(_)) {
                    self.cache.lock().unsupported = true;
                }
                Some(Completion::default())
            }
        }
    }
}

impl SuggestionCache {
    fn get(&self, key: &Json) -> Option<Completion> {
        if self.unsupported {
            return Some(Completion::default());
        }
        let (_, since, answer) = self.answers.iter().find(|(known, ..)| known == key)?;
        (since.elapsed() < CACHE_TTL).then(|| answer.clone())
    }

    fn insert(&mut self, key: Json, answer: &Completion) {
        let size = key.as_bytes().len() + answer.values.iter().map(|value| value.len()).sum::<usize>();
        if size > MAX_ANSWER_BYTES {
            return;
        }
        self.answers.retain(|(known, since, _)| *known != key && since.elapsed() < CACHE_TTL);
        if self.answers.len() == MAX_CACHED_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((key, Instant::now(), answer.clone()));
    }
}

/// Default pause in typing: it skips the letters of a word and is not noticeable.
const DEFAULT_TYPING_PAUSE: Duration = Duration::from_millis(150);

/// Timeout of a request; later suggestions are useless.
const SUGGESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a result is cached.
const CACHE_TTL: Duration = Duration::from_secs(60);

/// Maximum number of cached results, and maximum size of one: 8 MiB in all.
const MAX_CACHED_ANSWERS: usize = 128;
const MAX_ANSWER_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_testkit::with;

    fn key(value: &str) -> Json {
        params(&Reference::Prompt("p"), "a", value, None)
    }

    fn answer(value: &str) -> Completion {
        with!(Completion::default(), values: vec![value.into()])
    }

    /// CP-03: the cache is bounded in number, size and time.
    #[tokio::test(start_paused = true)]
    async fn cp_03_what_is_kept_is_bounded() {
        let mut kept = SuggestionCache::default();
        for n in 0..1_000 {
            kept.insert(key(&n.to_string()), &answer("x"));
        }
        assert_eq!(kept.answers.len(), MAX_CACHED_ANSWERS);
        assert_eq!(kept.get(&key("0")), None, "the oldest went first");
        assert_eq!(kept.get(&key("999")), Some(answer("x")));
        kept.insert(key("large"), &answer(&"x".repeat(MAX_ANSWER_BYTES)));
        assert_eq!(kept.get(&key("large")), None);
        tokio::time::advance(CACHE_TTL / 2).await;
        kept.insert(key("999"), &answer("y"));
        assert_eq!(kept.get(&key("999")), Some(answer("y")), "the newest counts");
        tokio::time::advance(CACHE_TTL / 2).await;
        assert_eq!(kept.get(&key("998")), None, "too old");
        assert_eq!(kept.get(&key("999")), Some(answer("y")));
    }
}
