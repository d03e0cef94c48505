//! [`SessionRecord`]: what the commands that have used a process have told it, and what it has told them. It decides
//! what of a session the next command is given, and whether there can be a next one. Pure.

use std::collections::{HashMap, HashSet};

use bowline::types::method;
use bowline::{Id, Json, RpcError};
use bowline_proto::wire::Message;

/// The session of one process, over all commands that use it one after the other.
#[derive(Debug, Default)]
pub(super) struct SessionRecord {
    handshake: Handshake,
    /// Requests of the command that are not answered.
    requests: HashMap<u64, RequestKind>,
    /// Requests of the server that are not answered.
    questions: HashSet<Id>,
    /// Those of them that ask for roots.
    roots_questions: HashSet<Id>,
    /// The roots of the command that uses it, as a hash.
    roots: String,
    /// The roots that the server was told.
    told_roots: Option<String>,
    log_level: LogLevelSetter,
    /// Whether something is left that the next command must not find.
    is_spent: bool,
    /// Whether a command has sent it anything.
    was_used: bool,
    /// Whether the command that uses it has sent it anything.
    is_in_use: bool,
    /// The error with which the server refused to be asked for modern revisions.
    discover_refusal: Option<RpcError>,
}

/// How far the handshake of a legacy session is.
#[derive(Debug, Default)]
enum Handshake {
    /// There was none. A modern server needs none.
    #[default]
    None,
    /// `initialize` was answered.
    Answered(InitializeIdentity, Json),
    /// The server was told so.
    Done(InitializeIdentity, Json),
}

/// What a server learns of a client when its session begins: revision, capabilities, name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InitializeIdentity([Option<Json>; 3]);

#[derive(Debug)]
enum RequestKind {
    Initialize(InitializeIdentity),
    Discover,
    /// A subscription. It has no response if it is canceled, and what the server still sends of it has an id that the
    /// next command does not know.
    Subscription,
    Other,
}

/// Who has set the level of log messages, which a server has one of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LogLevelSetter {
    #[default]
    Nobody,
    /// The command that uses it.
    ThisCommand,
    /// A command before it, whose messages nobody wants any more.
    EarlierCommand,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    Forward,
    Drop,
}

impl InitializeIdentity {
    /// Reads the params of `initialize`. What else they hold, such as a trace, does not matter.
    pub(super) fn of(params: Option<&Json>) -> Self {
        let member = |name: &str| params.and_then(|params| params.member(name)).map(|value| value.detached());
        Self(["protocolVersion", "capabilities", "clientInfo"].map(member))
    }
}

impl SessionRecord {
    /// A command with these roots uses it from now on.
    pub(super) fn begin_command(&mut self, roots: &str) {
        roots.clone_into(&mut self.roots);
    }

    /// The command does not use it any more.
    pub(super) fn end_command(&mut self) {
        self.is_in_use = false;
        if self.log_level == LogLevelSetter::ThisCommand {
            self.log_level = LogLevelSetter::EarlierCommand;
        }
    }

    /// Something is left that the next command must not find.
    pub(super) fn spend(&mut self) {
        self.is_spent = true;
    }

    /// Whether another command can use it: nothing is open, and nothing is left that was meant for one command.
    pub(super) fn is_reusable(&self) -> bool {
        let is_whole = matches!(self.handshake, Handshake::None | Handshake::Done(..));
        is_whole && !self.is_spent && self.requests.is_empty() && self.questions.is_empty()
    }

    /// The result of `initialize`, if a command with this identity and these roots can go on with the session.
    pub(super) fn initialize_result(&self, identity: &InitializeIdentity, roots: &str) -> Option<&Json> {
        match &self.handshake {
            Handshake::Done(known, result) if known == identity => {
                self.told_roots.as_deref().is_none_or(|told| told == roots).then_some(result)
            }
            _ => None,
        }
    }

    /// Whether the process has no session, so that any command can begin one, or use it without.
    pub(super) fn has_no_session(&self) -> bool {
        matches!(self.handshake, Handshake::None)
    }

    /// Whether a command has sent it anything.
    pub(super) fn was_used(&self) -> bool {
        self.was_used
    }

    /// Whether the command that uses it has sent it anything.
    pub(super) fn is_in_use(&self) -> bool {
        self.is_in_use
    }

    /// The error with which the server refused to be asked for modern revisions, if it has begun a session then.
    pub(super) fn discover_refusal(&self) -> Option<&RpcError> {
        self.discover_refusal.as_ref().filter(|_| !self.has_no_session())
    }

    /// Takes a message of the command.
    pub(super) fn command_message(&mut self, message: &Message) -> Passage {
        match message {
            Message::Request { id, method, params } => {
                let kind = match &**method {
                    method::INITIALIZE => RequestKind::Initialize(InitializeIdentity::of(params.as_ref())),
                    method::DISCOVER => RequestKind::Discover,
                    method::LISTEN => RequestKind::Subscription,
                    _ => RequestKind::Other,
                };
                match &**method {
                    method::SET_LEVEL => self.log_level = LogLevelSetter::ThisCommand,
                    method::RESOURCES_SUBSCRIBE => self.is_spent = true,
                    _ => {}
                }
                match id.as_request_number() {
                    Some(number) if self.requests.len() < MAX_OPEN => {
                        self.requests.insert(number, kind);
                    }
                    _ => self.is_spent = true,
                }
            }
            Message::Notification { method, .. } if **method == *method::INITIALIZED => {
                self.handshake = match std::mem::take(&mut self.handshake) {
                    Handshake::Answered(identity, result) => Handshake::Done(identity, result),
                    // The server was told by the first command.
                    Handshake::Done(identity, result) => {
                        self.handshake = Handshake::Done(identity, result);
                        return Passage::Drop;
                    }
                    Handshake::None => Handshake::None,
                };
            }
            Message::Notification { method, .. } if **method == *method::ROOTS_CHANGED => {
                self.is_spent = true;
            }
            Message::Notification { method, params } if **method == *method::CANCELLED => {
                let id = params.as_ref().and_then(|params| params.member("requestId"));
                if let Some(number) = id.and_then(|id| id.decode::<u64>().ok())
                    && matches!(self.requests.get(&number), Some(RequestKind::Subscription))
                {
                    self.requests.remove(&number);
                }
            }
            Message::Notification { .. } => {}
            Message::Result { id, .. } | Message::Error { id: Some(id), .. } => {
                self.questions.remove(id);
                if self.roots_questions.remove(id) {
                    self.told_roots = Some(self.roots.clone());
                }
            }
            Message::Error { id: None, .. } => {}
        }
        (self.was_used, self.is_in_use) = (true, true);
        Passage::Forward
    }

    /// Takes a message of the server, while a command uses it.
    pub(super) fn server_message(&mut self, message: &Message) -> Passage {
        match message {
            Message::Result { id, result } => match self.take_request(id) {
                Some(RequestKind::Initialize(identity)) => {
                    self.handshake = Handshake::Answered(identity, result.detached());
                }
                Some(RequestKind::Discover | RequestKind::Subscription | RequestKind::Other) | None => {}
            },
            Message::Error { id: Some(id), error } => {
                if let Some(RequestKind::Discover) = self.take_request(id) {
                    let data = error.data.as_ref().map(Json::detached);
                    self.discover_refusal = Some(RpcError { data, ..error.clone() });
                }
            }
            Message::Error { id: None, .. } => {}
            Message::Request { id, method, .. } => {
                if self.questions.len() >= MAX_OPEN {
                    self.is_spent = true;
                    return Passage::Forward;
                }
                self.questions.insert(id.clone());
                if **method == *method::ROOTS_LIST {
                    self.roots_questions.insert(id.clone());
                }
            }
            Message::Notification { method, .. } => {
                if **method == *method::LOG && self.log_level == LogLevelSetter::EarlierCommand {
                    return Passage::Drop;
                }
            }
        }
        Passage::Forward
    }

    fn take_request(&mut self, id: &Id) -> Option<RequestKind> {
        self.requests.remove(&id.as_request_number()?)
    }
}

/// How many requests of one side may be open. With more, the process is not used again.
const MAX_OPEN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        bowline_proto::wire::parse_one(&text.to_owned().into()).unwrap()
    }

    impl SessionRecord {
        #[track_caller]
        fn command(&mut self, text: &str) -> Passage {
            self.command_message(&message(text))
        }

        #[track_caller]
        fn server(&mut self, text: &str) -> Passage {
            self.server_message(&message(text))
        }

        fn initialized() -> Self {
            let mut record = Self::default();
            record.command(INITIALIZE);
            record.server(r#"{"id":7,"result":{"protocolVersion":"2025-11-25"},"jsonrpc":"2.0"}"#);
            assert!(!record.is_reusable(), "the server was not told");
            assert_eq!(record.command(INITIALIZED), Passage::Forward);
            record
        }
    }

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25",
        "capabilities":{},"clientInfo":{"name":"a"}}}"#;
    const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

    fn identity(params: &str) -> InitializeIdentity {
        InitializeIdentity::of(Some(&Json::parse(params.to_owned()).unwrap()))
    }

    #[test]
    fn the_same_client_goes_on_with_the_session() {
        let mut record = SessionRecord::initialized();
        record.end_command();
        assert!(record.is_reusable() && record.was_used() && !record.has_no_session());
        let same =
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a"},"_meta":{"a":1}}"#;
        let result = record.initialize_result(&identity(same), "").unwrap();
        assert_eq!(result.as_str(), r#"{"protocolVersion":"2025-11-25"}"#);
        let other =
            r#"{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"a"}}"#;
        assert_eq!(record.initialize_result(&identity(other), ""), None);
        record.begin_command("");
        assert_eq!(record.command(INITIALIZED), Passage::Drop, "the server was told by the first command");
    }

    #[test]
    fn a_process_with_something_open_is_not_used_again() {
        let mut record = SessionRecord::initialized();
        record.command(r#"{"jsonrpc":"2.0","id":8,"method":"tools/call"}"#);
        assert!(!record.is_reusable());
        record.server(r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#);
        record.server(r#"{"jsonrpc":"2.0","id":"8","result":{}}"#);
        assert!(!record.is_reusable());
        record.command(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert!(record.is_reusable());
        record.command(r#"{"jsonrpc":"2.0","id":9,"method":"resources/subscribe"}"#);
        record.server(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
        assert!(!record.is_reusable(), "updates would reach the next command");
    }

    #[test]
    fn a_canceled_subscription_is_over_and_a_canceled_call_is_not() {
        let mut record = SessionRecord::default();
        record.command(r#"{"jsonrpc":"2.0","id":8,"method":"subscriptions/listen"}"#);
        assert!(!record.is_reusable());
        record.command(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}"#);
        assert!(record.is_reusable());
        record.command(r#"{"jsonrpc":"2.0","id":9,"method":"tools/call"}"#);
        record.command(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#);
        assert!(!record.is_reusable(), "its server may still be at it");
    }

    #[test]
    fn a_server_that_knows_the_roots_of_one_command_is_not_used_with_others() {
        let mut record = SessionRecord::initialized();
        record.begin_command("a");
        let same =
            identity(r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a"}}"#);
        assert!(record.initialize_result(&same, "b").is_some(), "it knows of none");
        record.server(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
        record.command(r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#);
        assert!(record.initialize_result(&same, "b").is_none());
        assert!(record.initialize_result(&same, "a").is_some());
    }

    #[test]
    fn log_messages_that_an_earlier_command_wanted_are_dropped() {
        let mut record = SessionRecord::initialized();
        let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        assert_eq!(record.server(log), Passage::Forward, "a server may log by itself");
        record.command(r#"{"jsonrpc":"2.0","id":8,"method":"logging/setLevel"}"#);
        record.server(r#"{"jsonrpc":"2.0","id":8,"result":{}}"#);
        assert_eq!(record.server(log), Passage::Forward);
        record.end_command();
        assert!(record.is_reusable());
        assert_eq!(record.server(log), Passage::Drop);
        record.command(r#"{"jsonrpc":"2.0","id":9,"method":"logging/setLevel"}"#);
        assert_eq!(record.server(log), Passage::Forward);
    }

    #[test]
    fn the_refusal_of_modern_revisions_is_remembered() {
        let mut record = SessionRecord::default();
        record.command(r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#);
        record.server(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#);
        assert!(record.has_no_session() && record.is_reusable() && record.discover_refusal().is_none());
        record.command(INITIALIZE);
        record.server(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        assert_eq!(record.discover_refusal().unwrap().code, -32601);
    }
}
