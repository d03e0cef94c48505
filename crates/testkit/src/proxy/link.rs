//! One proxied connection: its rules, and the two directions of its bytes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

use crate::sync::pause;

/// The rules for the bytes of a connection. See [`FaultProxy`](crate::FaultProxy).
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyRules {
    /// The direction from client to server.
    pub request: FlowRules,
    /// The direction from server to client.
    pub reply: FlowRules,
    /// How a connection ends that is cut. The default is FIN.
    pub ending: ConnectionEnd,
}

/// The rules for the bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowRules {
    /// How long each piece waits before it is forwarded. The default is zero.
    pub delay: Duration,
    /// The number of bytes, counted from when the rule was set, after which the connection ends.
    pub cut_after: Option<u64>,
    /// Whether nothing is forwarded while the connection stays open.
    pub stall: bool,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// With FIN.
    #[default]
    Close,
    /// With RST.
    Reset,
}

/// A connection of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The number of the connection, from 1.
    pub number: usize,
    /// Whether the connection is open.
    pub open: bool,
    /// Bytes forwarded from client to server.
    pub request_bytes: u64,
    /// Bytes forwarded from server to client.
    pub reply_bytes: u64,
}

impl ProxyRules {
    /// Returns rules that forward everything unchanged.
    pub fn new() -> Self {
        Self::default()
    }

    /// Delays both directions.
    pub fn delay(mut self, by: Duration) -> Self {
        (self.request.delay, self.reply.delay) = (by, by);
        self
    }

    /// Stops both directions.
    pub fn stall(mut self) -> Self {
        (self.request.stall, self.reply.stall) = (true, true);
        self
    }

    /// Stops what the server sends.
    pub fn stall_reply(mut self) -> Self {
        self.reply.stall = true;
        self
    }

    /// Ends the connection after this many bytes from the client.
    pub fn cut_request_after(mut self, bytes: u64) -> Self {
        self.request.cut_after = Some(bytes);
        self
    }

    /// Ends the connection after this many bytes from the server.
    pub fn cut_reply_after(mut self, bytes: u64) -> Self {
        self.reply.cut_after = Some(bytes);
        self
    }

    /// Cuts with RST instead of FIN.
    pub fn with_reset(mut self) -> Self {
        self.ending = ConnectionEnd::Reset;
        self
    }
}

#[derive(Debug)]
pub(super) struct Link {
    number: usize,
    open: AtomicBool,
    request_bytes: AtomicU64,
    reply_bytes: AtomicU64,
    rules: watch::Sender<ProxyRules>,
    ended: watch::Sender<Option<ConnectionEnd>>,
    changed: watch::Sender<u64>,
}

impl Link {
    pub(super) fn new(number: usize, rules: ProxyRules, changed: watch::Sender<u64>) -> Self {
        Self {
            number,
            open: AtomicBool::new(true),
            request_bytes: AtomicU64::new(0),
            reply_bytes: AtomicU64::new(0),
            rules: watch::Sender::new(rules),
            ended: watch::Sender::new(None),
            changed,
        }
    }

    pub(super) fn set_rules(&self, rules: ProxyRules) {
        let _ = self.rules.send_replace(rules);
    }

    pub(super) fn end(&self, how: ConnectionEnd) {
        self.ended.send_replace(Some(how));
    }

    pub(super) fn info(&self) -> LinkInfo {
        LinkInfo {
            number: self.number,
            open: self.open.load(Ordering::Relaxed),
            request_bytes: self.request_bytes.load(Ordering::Relaxed),
            reply_bytes: self.reply_bytes.load(Ordering::Relaxed),
        }
    }

    pub(super) async fn run(&self, mut client: TcpStream, target: SocketAddr) {
        let ending = match TcpStream::connect(target).await {
            Ok(mut server) => {
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let ending = self.forward(&mut client, &mut server).await;
                end_socket(&server, ending);
                ending
            }
            // To the client it must look as if the server itself were unreachable.
            Err(_) => ConnectionEnd::Reset,
        };
        end_socket(&client, ending);
        drop(client);
        self.open.store(false, Ordering::Relaxed);
        self.notify_waiters();
    }

    async fn forward(&self, client: &mut TcpStream, server: &mut TcpStream) -> ConnectionEnd {
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        let mut ended = self.ended.subscribe();
        let both = async {
            let request = self.pump(client_read, server_write, |rules| rules.request, &self.request_bytes);
            let reply = self.pump(server_read, client_write, |rules| rules.reply, &self.reply_bytes);
            tokio::try_join!(request, reply)
        };
        tokio::select! {
            done = both => match done {
                Ok(_) => ConnectionEnd::Close,
                Err(ending) => ending,
            },
            how = ended.wait_for(Option::is_some) => {
                how.ok().and_then(|how| *how).unwrap_or_default()
            }
        }
    }

    /// Forwards bytes until the source ends (`Ok`) or the whole connection does (`Err`).
    async fn pump(
        &self,
        mut from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
        flow: fn(&ProxyRules) -> FlowRules,
        count: &AtomicU64,
    ) -> Result<(), ConnectionEnd> {
        let mut meter = Meter { rules: self.rules.subscribe(), flow, passed: 0 };
        let mut buffer = vec![0; 16 * 1024];
        loop {
            // Nothing is read while stalled, so that backpressure reaches the sender. And a cut
            // after zero bytes ends an idle connection.
            meter.wait_for_allowance(0).await?;
            let read = tokio::select! {
                read = from.read(&mut buffer) => read.map_err(|_| ConnectionEnd::Reset)?,
                () = meter.changed() => continue,
            };
            if read == 0 {
                // Half-closed: the other direction may still carry bytes.
                let _ = to.shutdown().await;
                return Ok(());
            }
            pause(meter.current_rules().0.delay).await;
            let mut piece = &buffer[..read];
            while !piece.is_empty() {
                let (now, later) = piece.split_at(meter.wait_for_allowance(piece.len()).await?);
                meter.passed += now.len() as u64;
                // Counted before they are sent, so that a receiver can rely on the count.
                count.fetch_add(now.len() as u64, Ordering::Relaxed);
                to.write_all(now).await.map_err(|_| ConnectionEnd::Reset)?;
                self.notify_waiters();
                piece = later;
            }
        }
    }

    fn notify_waiters(&self) {
        self.changed.send_modify(|version| *version += 1);
    }
}

/// Counts the bytes of one direction against its rules.
struct Meter {
    rules: watch::Receiver<ProxyRules>,
    flow: fn(&ProxyRules) -> FlowRules,
    /// The number of bytes since the rules were last set.
    passed: u64,
}

impl Meter {
    fn current_rules(&mut self) -> (FlowRules, ConnectionEnd) {
        if self.rules.has_changed().unwrap_or(false) {
            self.passed = 0;
        }
        let rules = *self.rules.borrow_and_update();
        ((self.flow)(&rules), rules.ending)
    }

    async fn changed(&mut self) {
        let _ = self.rules.changed().await;
        self.passed = 0;
    }

    /// Waits for the end of a stall, then returns how many of `wanted` bytes may pass.
    async fn wait_for_allowance(&mut self, wanted: usize) -> Result<usize, ConnectionEnd> {
        loop {
            let (flow, ending) = self.current_rules();
            let left = flow.cut_after.map_or(u64::MAX, |limit| limit.saturating_sub(self.passed));
            if left == 0 {
                return Err(ending);
            }
            if !flow.stall {
                return Ok(wanted.min(usize::try_from(left).unwrap_or(usize::MAX)));
            }
            self.changed().await;
        }
    }
}

fn end_socket(socket: &TcpStream, how: ConnectionEnd) {
    if how == ConnectionEnd::Reset {
        // Fails only if the peer has reset it already.
        let _ = socket.set_zero_linger();
    }
}
