//! How a server is reached, and the session settings that follow from it.

use std::time::Duration;

use bowline_config::TransportSettings as _;
use bowline_config::{Program, Protocol, Server, Timeouts, Transport};
use bowline_proto::client::negotiation::EraChoice;
use bowline_proto::client::session::{Settings, TransportKind};
use bowline_proto::fault::{Cause, Fault};
use bowline_proto::via::{VIA_HEADER, VIA_VARIABLE, Via};
use bowline_transport::http::{HttpLink, Limits};
use bowline_transport::pipe::{PipeReader, PipeWriter};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::random::random_u64;

/// How a link to the server is opened.
pub(crate) enum Target {
    Stdio(Program),
    Http(HttpLink),
    /// Byte streams of the host, which can be opened once.
    Io(Option<(PipeWriter, PipeReader)>),
}

/// The output and the input of a process that another program keeps.
pub(crate) type AttachedStreams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

pub(crate) fn session_settings(server: &Server, target: &Target) -> Settings {
    let Timeouts { connect, probe, .. } = server.timeouts;
    let (carrier, fallback) = match (&server.transport, target) {
        (Transport::Sse(_), _) => (TransportKind::EventStream, false),
        (Transport::Http(http), Target::Http(_)) => (TransportKind::Http, http.fallback),
        (_, Target::Http(_)) => (TransportKind::Http, false),
        (_, Target::Stdio(_) | Target::Io(_)) => (TransportKind::Pipe, false),
    };
    Settings {
        transport: carrier,
        fallback,
        era_choice: match server.protocol {
            Protocol::Legacy => EraChoice::Legacy,
            Protocol::Modern => EraChoice::Modern,
            // The server says what it speaks.
            _ => EraChoice::Auto,
        },
        connect_timeout: connect,
        probe_timeout: probe,
        // Starting a process costs more than finding a port closed.
        demand_floor: match carrier {
            TransportKind::Pipe => Duration::from_millis(250),
            TransportKind::Http | TransportKind::EventStream => Duration::from_millis(10),
        },
        single_link: matches!(target, Target::Io(_)),
        seed: random_u64(),
        ..Settings::default()
    }
}

impl Target {
    /// Decides how a server is reached by a host that has passed the gateways of `via`. These are not part of its
    /// configuration, by which its login and what is known of it are found.
    pub(crate) fn for_server(
        server: &Server,
        via: &Via,
        auth: Option<&crate::auth::Identity>,
    ) -> Result<Self, Fault> {
        let transport = if via.is_empty() { server.transport.clone() } else { with_via(server, via) };
        match &transport {
            Transport::Stdio(stdio) => Ok(Self::Stdio(stdio.clone())),
            Transport::Http(http) | Transport::Sse(http) => {
                let limits = Limits {
                    connect: server.timeouts.connect,
                    body: server.message_limit,
                    event: server.message_limit,
                };
                let link = HttpLink::new(http, limits)?;
                Ok(Self::Http(match auth {
                    Some(auth) => link.with_credentials(auth.credentials()),
                    None => link,
                }))
            }
            other => Err(Fault::before_sending(Cause::NotBuilt { feature: other.as_str() })),
        }
    }
}

/// How a server is reached if it is told of the gateways that its host has passed.
fn with_via(server: &Server, via: &Via) -> Transport {
    let told = match &server.transport {
        Transport::Stdio(_) => server.clone().with_env(VIA_VARIABLE, via.to_string()),
        _ => server.clone().with_header(VIA_HEADER, via.to_string()),
    };
    // Names and values are valid. A transport that has neither is not told.
    told.map_or_else(|_| server.transport.clone(), |told| told.transport)
}

/// Whether every request carries configured credentials.
pub(crate) fn has_credentials(server: &Server) -> bool {
    let proves = |name: &str| {
        let name = name.to_ascii_lowercase();
        name == "authorization" || name == "cookie" || name.contains("key") || name.contains("token")
    };
    server.transport.http().is_some_and(|http| {
        http.headers.iter().any(|(name, _)| proves(name)) || http.tls.client_cert.is_some()
    })
}
