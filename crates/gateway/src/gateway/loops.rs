//! [`GatewayId`]: whether a host has reached this gateway through itself, and what servers are told so that one behind
//! them can find out.

use bowline::RpcError;
use bowline::Server;
use bowline::config::Transport;
use bowline_proto::via::{Via, loop_error};

/// The names of this gateway among those that a host has passed.
#[derive(Debug)]
pub(super) struct GatewayId {
    /// Differs for each gateway of each process.
    instance: String,
    /// What all processes with this configuration have in common. Only processes are told: on another machine, the
    /// same configuration may lead elsewhere.
    fingerprint: Option<String>,
}

/// How a host is connected to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostPosition {
    /// Over HTTP, from wherever.
    Network,
    /// On stdin and stdout of this process, which it may have started.
    Pipe,
}

impl GatewayId {
    pub(super) fn new(fingerprint: Option<String>) -> Self {
        Self { instance: format!("{:032x}", fastrand::u128(..)), fingerprint }
    }

    /// Refuses a host that has passed this gateway already, or too many others.
    pub(super) fn check(&self, via: &Via, position: HostPosition) -> Result<(), RpcError> {
        let is_copy = || {
            let fingerprint = self.fingerprint.as_deref().filter(|_| position == HostPosition::Pipe);
            fingerprint.is_some_and(|fingerprint| via.contains(fingerprint))
        };
        if via.contains(&self.instance) || is_copy() {
            tracing::warn!("a host was refused: it has reached this gateway through itself");
            return Err(loop_error(
                "a loop: this gateway is among its own servers, directly or through others",
            ));
        }
        if via.is_full() {
            tracing::warn!("a host was refused: it comes through too many gateways");
            return Err(loop_error("a loop: the host comes through too many gateways"));
        }
        Ok(())
    }

    /// What a server is told of the gateways between it and a host that has passed those of `via`.
    pub(super) fn extend(&self, via: &Via, server: &Server) -> Via {
        let via = via.with(&self.instance);
        match (&server.transport, &self.fingerprint) {
            (Transport::Stdio(_), Some(fingerprint)) => via.with(fingerprint),
            _ => via,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_finds_itself_and_its_copies_and_lets_others_pass() {
        let (gateway, other) = (GatewayId::new(Some("f".into())), GatewayId::new(Some("f".into())));
        let http = Server::http("s", "http://h/").build().unwrap();
        let stdio = Server::stdio("s", "x").build().unwrap();
        let (over_http, to_process) =
            (gateway.extend(&Via::default(), &http), gateway.extend(&Via::default(), &stdio));
        for position in [HostPosition::Network, HostPosition::Pipe] {
            gateway.check(&Via::default(), position).unwrap();
            other.check(&over_http, position).unwrap();
            for via in [&over_http, &to_process, &other.extend(&over_http, &http)] {
                gateway.check(via, position).unwrap_err();
            }
        }
        other.check(&to_process, HostPosition::Network).unwrap();
        other.check(&to_process, HostPosition::Pipe).unwrap_err();
        let mut long = Via::default();
        while !long.is_full() {
            gateway.check(&long, HostPosition::Network).unwrap();
            long = GatewayId::new(None).extend(&long, &http);
        }
        gateway.check(&long, HostPosition::Network).unwrap_err();
    }
}
