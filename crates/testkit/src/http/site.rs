//! The port of an MCP server with its connections and streams, and how it stops and starts.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::conn::{Conn, ConnIo};
use super::exchange::serve_request;
use super::stream::EventStream;
use crate::engine::{Engine, Outlet as _};
use crate::fault::FaultKind;
use crate::port::{self, ReservedPort};
use crate::server_thread::Spawner;
use crate::sync::lock;

/// The number of finished streams that are kept for resumption; above it they are dropped.
const MAX_KEPT_STREAMS: usize = 1024;

pub(crate) struct HttpSite {
    pub(super) engine: Arc<Engine>,
    pub(super) spawner: Spawner,
    pub(super) addr: SocketAddr,
    port_state: Mutex<PortState>,
    connections: Mutex<HashMap<u64, OpenConnection>>,
    streams: Mutex<Vec<(Option<String>, Arc<EventStream>)>>,
}

/// Whether the server listens on its port or only reserves it.
enum PortState {
    Listening {
        accept: JoinHandle<Option<()>>,
        /// A second socket on the port, so that the port has an owner at every moment of a stop;
        /// otherwise an outgoing connection of any process could get it. It must be bound before
        /// the listener listens, because binding fails afterwards. Only Linux allows two sockets on
        /// one port.
        kept: Option<ReservedPort>,
    },
    Stopped(ReservedPort),
    Transition,
}

struct OpenConnection {
    conn: Arc<Conn>,
    task: JoinHandle<Option<()>>,
}

impl HttpSite {
    pub(super) fn new(engine: Arc<Engine>, tasks: Spawner) -> io::Result<Arc<Self>> {
        let reserved = port::reserve_port(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Arc::new(Self {
            engine,
            spawner: tasks,
            addr: reserved.addr()?,
            port_state: Mutex::new(PortState::Stopped(reserved)),
            connections: Mutex::default(),
            streams: Mutex::default(),
        }))
    }

    /// Starts to listen. Must run on the server thread.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        let mut port_state = lock(&self.port_state);
        let reserved = match std::mem::replace(&mut *port_state, PortState::Transition) {
            PortState::Stopped(reserved) => reserved,
            other => {
                *port_state = other;
                return Ok(());
            }
        };
        let kept = cfg!(target_os = "linux").then(|| port::reserve_port(self.addr)).transpose()?;
        let listener = reserved.listen()?;
        self.engine.message_log.count_run();
        *port_state = PortState::Listening {
            accept: self.spawner.spawn(self.clone().accept_connections(listener)),
            kept,
        };
        Ok(())
    }

    /// Closes the port and every connection, and drops what a process would lose.
    pub(super) async fn stop(&self) -> io::Result<()> {
        let listening = std::mem::replace(&mut *lock(&self.port_state), PortState::Transition);
        let kept = match listening {
            PortState::Listening { accept, kept } => {
                accept.abort();
                let _ = accept.await;
                kept
            }
            other => {
                *lock(&self.port_state) = other;
                return Ok(());
            }
        };
        self.end_connections(Conn::close).await;
        self.engine.clear_live_state();
        lock(&self.streams).clear();
        self.engine.drop_sessions();
        let reserved = kept.map_or_else(|| port::reserve_port(self.addr), Ok)?;
        *lock(&self.port_state) = PortState::Stopped(reserved);
        Ok(())
    }

    /// Ends every connection and waits until the sockets are closed.
    pub(super) async fn end_connections(&self, how: fn(&Conn)) {
        let open: Vec<OpenConnection> = lock(&self.connections).drain().map(|(_, open)| open).collect();
        for OpenConnection { conn, task } in open {
            how(&conn);
            let _ = task.await;
        }
    }

    pub(super) fn open_connections(&self) -> usize {
        lock(&self.connections).len()
    }

    /// Opens an event stream for a session.
    pub(super) fn open_stream(&self, session: Option<&str>) -> Arc<EventStream> {
        let stream = EventStream::new(self.engine.next_number(), &self.engine.script().http);
        let mut streams = lock(&self.streams);
        streams.retain(|(_, stream)| !stream.is_disposable());
        if streams.len() > MAX_KEPT_STREAMS {
            streams.retain(|(_, stream)| !stream.is_finished());
        }
        streams.push((session.map(str::to_owned), stream.clone()));
        stream
    }

    pub(super) fn find_stream(&self, session: Option<&str>, number: u64) -> Option<Arc<EventStream>> {
        lock(&self.streams)
            .iter()
            .find(|(owner, stream)| owner.as_deref() == session && stream.number() == number)
            .map(|(_, stream)| stream.clone())
    }

    pub(super) fn session_stream(&self, session: &str) -> Option<Arc<EventStream>> {
        let streams = lock(&self.streams);
        let (_, stream) = streams.iter().find(|(owner, _)| owner.as_deref() == Some(session))?;
        Some(stream.clone())
    }

    /// Returns the streams of all sessions, with the session id.
    pub(super) fn session_streams(&self) -> Vec<(String, Arc<EventStream>)> {
        let streams = lock(&self.streams);
        streams.iter().filter_map(|(owner, stream)| Some((owner.clone()?, stream.clone()))).collect()
    }

    /// Ends every response that is an event stream, in good order.
    pub(super) fn end_readers(&self) {
        for (_, stream) in lock(&self.streams).iter() {
            stream.end_readers();
        }
    }

    pub(super) fn send_keepalive_comment(&self) {
        for (_, stream) in lock(&self.streams).iter().filter(|(_, stream)| stream.is_open()) {
            stream.push(": keep-alive\n\n".into());
        }
    }

    pub(super) fn close_session_streams(&self, session: &str) {
        lock(&self.streams).retain(|(owner, stream)| {
            let theirs = owner.as_deref() == Some(session);
            if theirs {
                stream.finish();
            }
            !theirs
        });
    }

    async fn accept_connections(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let number = self.engine.message_log.count_connection();
            let conn = Conn::new(number);
            match self.engine.armed.take_matching(&["accept"], None).deciding.map(|fault| fault.kind) {
                None => {
                    // Small messages are sent at once: a test measures the client, not Nagle's
                    // algorithm.
                    let _ = stream.set_nodelay(true);
                    let task = self.spawner.spawn(self.clone().serve_connection(stream, conn.clone()));
                    lock(&self.connections).insert(number, OpenConnection { conn, task });
                }
                Some(FaultKind::Reset) => {
                    let _ = stream.set_zero_linger();
                }
                Some(_) => {}
            }
        }
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream, conn: Arc<Conn>) {
        let io = TokioIo::new(ConnIo { stream, conn: conn.clone() });
        let service = {
            let (site, conn) = (self.clone(), conn.clone());
            service_fn(move |request| {
                let (site, conn) = (site.clone(), conn.clone());
                async move { Ok::<_, std::convert::Infallible>(serve_request(site, conn, request).await) }
            })
        };
        let server = auto::Builder::new(self.spawner.clone());
        let serving = server.serve_connection(io, service);
        tokio::select! {
            () = conn.ended() => {}
            _ = serving => {}
        }
        lock(&self.connections).remove(&conn.number);
        self.engine.message_log.notify_waiters();
    }
}
