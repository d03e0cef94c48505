//! What is recorded of a session over HTTP, so that another process can go on with it: the state that
//! the host has set, and its requests that may have effects, until they have a response.
//!
//! A request is recorded before it is sent to a server, and its response before it is sent to the
//! host. So whatever process serves the host next knows of each request whether it may have been
//! executed, and what its response was.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::event_streams::{RestoredStream, StreamId};
use crate::wire::{Id, Json, Message, ParseResult, method, object, parse, parse_from_host};

/// What a host has set in its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The params of its `initialize`.
    pub initialize: Json,
    /// The revision that was agreed on, once it was.
    #[serde(default)]
    pub revision: Option<String>,
    /// The params of its latest `logging/setLevel`.
    #[serde(default)]
    pub log_level: Option<Json>,
    /// The resources that it is subscribed to, with the params of its subscription.
    #[serde(default)]
    pub subscriptions: BTreeMap<String, Json>,
    /// The ids of the tasks that it has created, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// The view of the servers that the session has. `None` shows everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// The view whose token the host has, or the user whom its access token was issued to. `None` is
    /// the general token, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// One entry of the journal of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalEntry {
    /// A POST has a request that may have effects.
    Open {
        /// The stream of the POST.
        stream: StreamId,
        /// The body of the POST.
        body: Bytes,
    },
    /// A request of the POST has this response.
    Response {
        /// The stream of the POST.
        stream: StreamId,
        /// The response.
        data: Bytes,
    },
    /// The requests of the POST have ended, with or without responses.
    Closed {
        /// The stream of the POST.
        stream: StreamId,
    },
}

/// A POST that the journal knows of.
#[derive(Debug)]
pub struct RecordedPost {
    /// Its stream.
    pub stream: RestoredStream,
    /// Its requests that have no response.
    pub open: Vec<ParseResult>,
}

/// Most subscriptions that are recorded.
const MAX_SUBSCRIPTIONS: usize = 1_000;
/// Most tasks that are recorded.
const MAX_TASKS: usize = 100;

impl SessionRecord {
    /// The record of a session that begins with these params.
    pub fn new(initialize: Json) -> Self {
        Self {
            initialize,
            revision: None,
            log_level: None,
            subscriptions: BTreeMap::new(),
            tasks: Vec::new(),
            view: None,
            principal: None,
        }
    }

    /// Takes note of a request. Returns whether the record has changed.
    pub fn note_request(&mut self, asked: &str, params: Option<&Json>) -> bool {
        let Some(params) = params else { return false };
        let uri = || params.member("uri")?.decode::<String>().ok();
        match asked {
            method::SET_LEVEL => self.log_level.replace(params.clone()).as_ref() != Some(params),
            method::RESOURCES_SUBSCRIBE => match uri() {
                Some(uri) if self.subscriptions.len() < MAX_SUBSCRIPTIONS => {
                    self.subscriptions.insert(uri, params.clone()).is_none()
                }
                _ => false,
            },
            method::RESOURCES_UNSUBSCRIBE => {
                uri().is_some_and(|uri| self.subscriptions.remove(&uri).is_some())
            }
            _ => false,
        }
    }

    /// Takes note of a task of the host. The oldest make room.
    pub fn note_task(&mut self, id: &str) {
        self.tasks.push(id.to_owned());
        if self.tasks.len() > MAX_TASKS {
            self.tasks.remove(0);
        }
    }

    /// The messages that bring a new session into the recorded state. Their responses are for nobody.
    pub fn messages(&self) -> Vec<ParseResult> {
        let request = |number: usize, asked: &str, params: &Json| {
            let id = Id::from_string(&format!("bowline-restored-{number}"));
            Ok(Message::Request { id, method: asked.into(), params: Some(params.clone()) })
        };
        let initialized = Message::Notification { method: method::INITIALIZED.into(), params: None };
        let mut messages = vec![request(0, method::INITIALIZE, &self.initialize), Ok(initialized)];
        if let Some(level) = &self.log_level {
            messages.push(request(1, method::SET_LEVEL, level));
        }
        for (at, params) in self.subscriptions.values().enumerate() {
            messages.push(request(at + 2, method::RESOURCES_SUBSCRIBE, params));
        }
        let first = messages.len();
        for (at, id) in self.tasks.iter().enumerate() {
            // Whoever serves the session next knows the task by that, and whose it is.
            let params = object::Edit::new().set_str("taskId", id).apply(None).expect("a new object is one");
            messages.push(request(first + at, method::TASKS_GET, &params));
        }
        messages
    }
}

impl JournalEntry {
    /// Encodes the entry: a letter, the number of the stream, a space, and the bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (letter, stream, bytes) = match self {
            Self::Open { stream, body } => ('o', stream, &body[..]),
            Self::Response { stream, data } => ('r', stream, &data[..]),
            Self::Closed { stream } => ('c', stream, &[][..]),
        };
        let mut encoded = format!("{letter}{} ", stream.to_u64()).into_bytes();
        encoded.extend_from_slice(bytes);
        encoded
    }

    /// Decodes an entry. `None` if it is none.
    pub fn decode(encoded: &[u8]) -> Option<Self> {
        let space = encoded.iter().position(|byte| *byte == b' ')?;
        let (letter, number) = std::str::from_utf8(&encoded[..space]).ok()?.split_at_checked(1)?;
        let stream = StreamId::from_u64(number.parse().ok()?);
        let bytes = || Bytes::copy_from_slice(&encoded[space + 1..]);
        match letter {
            "o" => Some(Self::Open { stream, body: bytes() }),
            "r" => Some(Self::Response { stream, data: bytes() }),
            "c" => Some(Self::Closed { stream }),
            _ => None,
        }
    }
}

/// The requests of a POST without their params: enough to answer them, and too little to execute them.
/// Messages that are no requests are left out.
pub fn without_params(body: &Bytes) -> Bytes {
    let mut requests = Vec::new();
    parse_from_host(body, |message| {
        if let Ok(Message::Request { id, method, .. }) = message {
            requests.push(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{}}}"#, object::quote(&method)));
        }
    });
    match &requests[..] {
        [request] => request.clone().into(),
        requests => format!("[{}]", requests.join(",")).into(),
    }
}

/// The POSTs that the host may still resume, in the order of their streams. A response is enough: the store may
/// have dropped the request, which is older.
pub fn recorded_posts(entries: impl IntoIterator<Item = JournalEntry>) -> Vec<RecordedPost> {
    let mut posts: BTreeMap<StreamId, (Bytes, Vec<Bytes>)> = BTreeMap::new();
    for entry in entries {
        match entry {
            // A POST that is open for long is recorded again, after responses to some of its requests.
            JournalEntry::Open { stream, body } => posts.entry(stream).or_default().0 = body,
            JournalEntry::Response { stream, data } => posts.entry(stream).or_default().1.push(data),
            JournalEntry::Closed { stream } => drop(posts.remove(&stream)),
        }
    }
    posts.into_iter().map(|(stream, (body, responses))| RecordedPost::new(stream, &body, responses)).collect()
}

impl RecordedPost {
    fn new(stream: StreamId, body: &Bytes, responses: Vec<Bytes>) -> Self {
        let mut answered: Vec<Id> = Vec::new();
        for response in &responses {
            parse(response, |message| {
                if let Ok(Message::Result { id, .. } | Message::Error { id: Some(id), .. }) = message {
                    answered.push(id);
                }
            });
        }
        let mut open = Vec::new();
        parse_from_host(body, |message| {
            if matches!(&message, Ok(Message::Request { id, .. }) if !answered.contains(id)) {
                open.push(message);
            }
        });
        Self { stream: RestoredStream { stream, unanswered: open.len(), responses }, open }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(number: u64) -> StreamId {
        StreamId::from_u64(number)
    }

    fn open(number: u64, body: &'static str) -> JournalEntry {
        JournalEntry::Open { stream: stream(number), body: Bytes::from_static(body.as_bytes()) }
    }

    fn response(number: u64, data: &'static str) -> JournalEntry {
        JournalEntry::Response { stream: stream(number), data: Bytes::from_static(data.as_bytes()) }
    }

    #[test]
    fn entries_are_decoded_as_they_were_encoded() {
        for entry in [open(3, "{ }"), response(u64::MAX, ""), JournalEntry::Closed { stream: stream(0) }] {
            assert_eq!(JournalEntry::decode(&entry.encode()), Some(entry));
        }
        for bad in ["", "o", "o3", "x3 ", "o-1 ", "é1 ", " "] {
            assert_eq!(JournalEntry::decode(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_post_is_open_until_it_has_its_responses() {
        let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}"#;
        let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":"1","method":"b"}]"#;
        let done = r#"{"jsonrpc":"2.0","id":"1","result":{}}"#;
        let posts = recorded_posts([
            open(1, call),
            open(2, batch),
            open(3, call),
            response(2, done),
            response(9, done),
            JournalEntry::Closed { stream: stream(3) },
        ]);
        let [first, second, third] = &posts[..] else { panic!("{posts:?}") };
        assert_eq!((first.stream.stream, first.stream.unanswered), (stream(1), 1));
        assert!(
            matches!(&first.open[..], [Ok(Message::Request { method, .. })] if **method == *"tools/call")
        );
        assert_eq!((second.stream.unanswered, second.stream.responses.len()), (1, 1));
        assert!(matches!(&second.open[..], [Ok(Message::Request { method, .. })] if **method == *"a"));
        assert_eq!((third.stream.stream, third.stream.unanswered, third.open.len()), (stream(9), 0, 0));
        assert_eq!(third.stream.responses, [done]);
        // What is refused when it comes is not executed by the process that restores the session.
        let ambiguous = r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"name":"a","name":"b"}}"#;
        assert!(recorded_posts([open(1, ambiguous)])[0].open.is_empty());
        // A message that cannot be used has no response that anybody waits for.
        assert!(recorded_posts([open(1, "garbage")])[0].open.is_empty());
    }

    #[test]
    fn responses_stay_when_their_post_is_recorded_again() {
        let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]"#;
        let done = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let posts = recorded_posts([open(2, batch), response(2, done), open(2, batch)]);
        assert_eq!(
            (posts[0].stream.unanswered, &posts[0].stream.responses[..]),
            (1, &[Bytes::from(done)][..])
        );
        assert!(matches!(&posts[0].open[..], [Ok(Message::Request { id: Id::Int(2), .. })]));
    }

    #[test]
    fn a_large_post_is_recorded_without_its_params() {
        let call = r#"{"jsonrpc":"2.0","id":"a\"b","method":"tools/call","params":{"x":"large"}}"#;
        let stub = r#"{"jsonrpc":"2.0","id":"a\"b","method":"tools/call"}"#;
        assert_eq!(without_params(&Bytes::from(call)), stub);
        let batch = format!(r#"[{call},{{"jsonrpc":"2.0","method":"n"}},{call}]"#);
        assert_eq!(without_params(&batch.into()), format!("[{stub},{stub}]"));
        let posts = recorded_posts([JournalEntry::Open { stream: stream(1), body: stub.into() }]);
        assert!(matches!(&posts[0].open[..], [Ok(Message::Request { params: None, .. })]));
    }

    #[test]
    fn a_record_knows_its_view_and_an_old_one_has_none() {
        let mut record = SessionRecord::new(Json::empty_object());
        let old: SessionRecord = serde_json::from_str(r#"{"initialize":{}}"#).unwrap();
        assert_eq!(old, record);
        record.view = Some("review".to_owned());
        record.principal = Some("other".to_owned());
        let encoded = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<SessionRecord>(&encoded).unwrap(), record);
    }

    #[test]
    fn a_record_brings_a_session_into_its_state() {
        let json = |text: &str| Json::try_from(text).unwrap();
        let mut record = SessionRecord::new(json(r#"{"protocolVersion":"2025-11-25"}"#));
        let a = json(r#"{"uri":"x://a"}"#);
        assert!(record.note_request("resources/subscribe", Some(&a)));
        assert!(!record.note_request("resources/subscribe", Some(&a)), "it is subscribed to already");
        assert!(record.note_request("resources/subscribe", Some(&json(r#"{"uri":"x://b"}"#))));
        assert!(record.note_request("resources/unsubscribe", Some(&a)));
        assert!(!record.note_request("resources/unsubscribe", Some(&a)));
        assert!(record.note_request("logging/setLevel", Some(&json(r#"{"level":"error"}"#))));
        assert!(!record.note_request("logging/setLevel", Some(&json(r#"{"level":"error"}"#))));
        assert!(!record.note_request("tools/call", Some(&a)) && !record.note_request("ping", None));
        let encoded = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<SessionRecord>(&encoded).unwrap(), record);
        let is_new = |name: &str| encoded.contains(name);
        assert!(!["view", "principal", "tasks"].into_iter().any(is_new), "as before: {encoded}");
        for number in 0..=MAX_TASKS {
            record.note_task(&number.to_string());
        }
        let tasks = record.messages().split_off(4);
        assert_eq!(tasks.len(), MAX_TASKS);
        assert!(matches!(
            &tasks[0],
            Ok(Message::Request { method, params: Some(params), .. })
                if **method == *"tasks/get" && params.as_str() == r#"{"taskId":"1"}"#
        ));
        record.tasks.clear();
        let methods: Vec<_> = record
            .messages()
            .into_iter()
            .map(|message| match message.unwrap() {
                Message::Request { method, params, .. } => (method, params.map(|params| params.to_string())),
                Message::Notification { method, .. } => (method, None),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            methods,
            [
                ("initialize".into(), Some(r#"{"protocolVersion":"2025-11-25"}"#.into())),
                ("notifications/initialized".into(), None),
                ("logging/setLevel".into(), Some(r#"{"level":"error"}"#.into())),
                ("resources/subscribe".into(), Some(r#"{"uri":"x://b"}"#.into())),
            ]
        );
    }
}
