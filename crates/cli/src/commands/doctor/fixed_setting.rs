//! Decides whether a setting is at fault that fixes the transport or the era: the server is connected to without it.

use std::time::Duration;

use bowline::config::{Protocol, Transport};
use bowline::{Client, Peer, Server};
use tokio::time::timeout;

use super::check::{Blame, Finding};
use super::connection;
use super::server::open_client;
use super::subject::Subject;
use crate::exit::Exit;
use crate::settings::Settings;

/// A setting that fixes what is otherwise found out from the server.
#[derive(Clone, Copy)]
enum FixedSetting {
    Transport,
    Protocol,
}

/// How long a connection without the setting may take, whatever the entry allows.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns the finding for a connection that failed, if the server can be connected to without a setting.
///
/// Dropping the future closes what was opened, in the background.
pub(super) async fn find_fault(
    failure: &Finding,
    settings: &Settings,
    subject: &Subject<'_>,
) -> Option<Finding> {
    for setting in [FixedSetting::Transport, FixedSetting::Protocol] {
        if let Some(spoken) = setting.connect_without(settings, subject).await {
            return Some(setting.finding(&spoken, failure, subject));
        }
    }
    None
}

impl FixedSetting {
    /// Connects without the setting. Returns what the server speaks, if that proves the setting wrong.
    async fn connect_without(self, settings: &Settings, subject: &Subject<'_>) -> Option<String> {
        let server = self.changed_server(subject.server)?;
        let limit = server.timeouts.connect.min(TRIAL_TIMEOUT);
        let client = open_client(server.with_connect_timeout(limit), settings, subject).ok()?;
        let ready = client.ready().await;
        let spoken = ready.ok().and_then(|peer| self.spoken_instead(&client, &peer, subject.server));
        // What is still open after that is closed in the background.
        let _ = timeout(connection::CLOSE_TIMEOUT, client.close()).await;
        spoken
    }

    /// Returns the server with the other transport, or with an era that is found out. `None` if the setting fixes
    /// nothing.
    fn changed_server(self, server: &Server) -> Option<Server> {
        let mut changed = server.clone();
        match (self, &server.transport) {
            (Self::Transport, Transport::Sse(http)) => changed.transport = Transport::Http(http.clone()),
            (Self::Transport, Transport::Http(http)) if !http.fallback => {
                changed.transport = Transport::Sse(http.clone());
            }
            (Self::Protocol, _) if server.protocol != Protocol::Auto => changed.protocol = Protocol::Auto,
            _ => return None,
        }
        Some(changed)
    }

    /// Returns what the server speaks if it is not what was fixed: a second attempt may also succeed by chance.
    fn spoken_instead(self, client: &Client, peer: &Peer, server: &Server) -> Option<String> {
        match self {
            Self::Transport if client.transport() == "sse" => Some("HTTP+SSE".to_owned()),
            Self::Transport => Some("Streamable HTTP".to_owned()),
            Self::Protocol => {
                let era = connection::era_name(peer);
                let spoken = format!("the {era} protocol, revision {}", peer.revision.as_str());
                (era != server.protocol.as_str()).then_some(spoken)
            }
        }
    }

    fn finding(self, spoken: &str, failure: &Finding, subject: &Subject<'_>) -> Finding {
        let (key, keys, option, value) = match self {
            Self::Transport => {
                let value = subject.server.transport.as_str();
                ("transport", "`transport` (or `type`)", "--transport", value)
            }
            Self::Protocol => ("protocol", "`protocol`", "--protocol", subject.server.protocol.as_str()),
        };
        let typed = subject.options.iter().find(|(name, _)| *name == option);
        let (setting, text, command) = match typed {
            Some((_, typed)) => (
                format!("the option is `{option} {typed}`"),
                format!("leave out `{option}`"),
                subject.doctor_command_without(option),
            ),
            None => (
                format!("its entry has `{key} = \"{value}\"`"),
                format!("remove {keys} from its entry"),
                subject.edit_command(),
            ),
        };
        Finding::failed(Blame::You, Exit::Connection, format!("the server speaks {spoken}, but {setting}"))
            .fix(text)
            .run(command)
            .details([format!("with this setting: {}", failure.seen)])
            .details(failure.details.clone())
    }
}
