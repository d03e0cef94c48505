//! Tests of the session: its actions and its status after each event, one rule per test.

mod announce;
mod fallback;
mod limits;
mod reconnect;
mod record;
mod resume;
mod session_loss;

use super::*;
use crate::wire::{Json, RpcError};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A session with a virtual clock, whose actions are returned as text.
struct Rig {
    session: Session,
    now: Instant,
}

impl Rig {
    fn new(settings: Settings) -> Self {
        Self { session: Session::new(settings), now: Instant::now() }
    }

    fn http() -> Self {
        Self::new(Settings {
            transport: TransportKind::Http,
            era_choice: EraChoice::Legacy,
            ..Settings::default()
        })
    }

    /// A session over HTTP whose driver can obtain a login.
    fn authorizing() -> Self {
        let choice = EraChoice::Legacy;
        Self::new(Settings {
            transport: TransportKind::Http,
            era_choice: choice,
            can_authorize: true,
            ..Settings::default()
        })
    }

    fn pipe() -> Self {
        Self::new(Settings { era_choice: EraChoice::Legacy, ..Settings::default() })
    }

    /// Connects, and completes the legacy handshake.
    fn ready(mut self) -> Self {
        self.command(Command::Connect);
        self.complete_handshake();
        self
    }

    fn complete_handshake(&mut self) {
        assert_eq!(self.event(Event::Opened { session: false }), ["send initialize"]);
        assert_eq!(self.event(initialized()), ["send initialized"]);
        assert_eq!(self.event(Event::Reply(Reply::Accepted)), ["restore"]);
        let actions = self.event(Event::Restored);
        assert_eq!(actions[0], "ready", "{actions:?}");
        assert!(self.is_ready());
    }

    fn command(&mut self, command: Command) -> Vec<String> {
        self.session.handle_command(self.now, command);
        self.actions()
    }

    /// Sends an event of the current link.
    fn event(&mut self, event: Event) -> Vec<String> {
        self.event_of(self.session.attempt(), event)
    }

    /// Sends an event of the link of `attempt`.
    fn event_of(&mut self, attempt: Attempt, event: Event) -> Vec<String> {
        self.session.handle_event(self.now, attempt, event);
        self.actions()
    }

    /// Advances the clock by `time`, and handles the timeout if it is due.
    fn pass(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.session.handle_timeout(self.now);
        self.actions()
    }

    /// Advances the clock to the next timeout.
    fn run_timer(&mut self) -> Vec<String> {
        self.pass(self.wait())
    }

    /// The time until the next timeout.
    fn wait(&self) -> Duration {
        self.session.poll_timeout().expect("a timer").saturating_duration_since(self.now)
    }

    fn is_ready(&self) -> bool {
        matches!(self.session.status(), Status::Ready(_))
    }

    fn cause(&self) -> Cause {
        match self.session.status() {
            Status::BackingOff { cause, .. } | Status::NeedsLogin(cause) | Status::Failed(cause) => {
                cause.cause
            }
            status => panic!("nothing failed: {status:?}"),
        }
    }

    fn actions(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Some(action) = self.session.poll_action() {
            said.push(match action {
                Action::Open(_, TransportKind::Pipe) => "open pipe".into(),
                Action::Open(_, TransportKind::Http) => "open http".into(),
                Action::Open(_, TransportKind::EventStream) => "open event stream".into(),
                Action::Send(_, NegotiationMessage::Discover(_)) => "send discover".into(),
                Action::Send(_, NegotiationMessage::Initialize(_)) => "send initialize".into(),
                Action::Send(_, NegotiationMessage::Initialized(_)) => "send initialized".into(),
                Action::Send(_, NegotiationMessage::Resume(_)) => "send resume".into(),
                Action::Restore(..) => "restore".into(),
                Action::Ready(..) => "ready".into(),
                Action::Close(..) => "close".into(),
                Action::Authorize(..) => "authorize".into(),
                Action::Record(Some(finding)) => {
                    format!("record {} {:?}", finding.revision, finding.transport)
                }
                Action::Record(None) => "forget record".into(),
                Action::Announce(Announcement::Connected) => "connected".into(),
                Action::Announce(Announcement::Disconnected(_)) => "disconnected".into(),
                Action::Announce(Announcement::SessionLost(_)) => "session lost".into(),
                Action::Announce(Announcement::Recovered { outage }) => format!("recovered after {outage:?}"),
                Action::Announce(Announcement::NeedsLogin(_)) => "needs login".into(),
                Action::Announce(Announcement::Failed(_)) => "failed".into(),
            });
        }
        said
    }
}

fn link_lost(cause: Cause) -> Event {
    Event::LinkLost(Fault::new(cause))
}

fn refused() -> Event {
    Event::LinkLost(Fault::before_sending(Cause::Refused))
}

fn session_lost(proven: bool) -> Event {
    Event::SessionLost { fault: Fault::before_sending(Cause::SessionLost), proven }
}

fn status(code: u16, retry_after: Option<Duration>) -> Fault {
    Fault::new(Cause::Status { code, retry_after })
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn initialized() -> Event {
    Event::Reply(Reply::Result(json(
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#,
    )))
}

fn error(status: Option<u16>, code: i64, message: &str) -> Event {
    let error = RpcError { code, message: message.into(), data: None };
    Event::Reply(Reply::Error { status, error, stray: false })
}

const NOTHING: [&str; 0] = [];
