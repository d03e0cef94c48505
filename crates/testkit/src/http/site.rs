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
use super::exchange::serve;
use super::stream::Stream;
use crate::engine::{Engine, Outlet as _};
use crate::fault::Kind;
use crate::host::Tasks;
use crate::port::{self, Reserved};
use crate::sync::lock;

/// The number of finished streams that are kept for resumption; above it they are dropped.
const STREAMS_KEPT: usize = 1024;

pub(crate) struct Site {
    pub(super) engine: Arc<Engine>,
    pub(super) tasks: Tasks,
    pub(super) addr: SocketAddr,
    place: Mutex<Place>,
    connections: Mutex<HashMap<u64, Open>>,
    streams: Mutex<Vec<(Option<String>, Arc<Stream>)>>,
}

/// Whether the server listens on its port or only reserves it.
enum Place {
    Listening {
        accept: JoinHandle<Option<()>>,
        /// A second socket on the port, so that the port has an owner at every moment of a stop;
        /// otherwise an outgoing connection of any process could get it. It must be bound before
        /// the listener listens, because binding fails afterwards. Only Linux allows two sockets on
        /// one port.
        kept: Option<Reserved>,
    },
    Stopped(Reserved),
    Moving,
}

struct Open {
    conn: Arc<Conn>,
    task: JoinHandle<Option<()>>,
}

impl Site {
    pub(super) fn new(engine: Arc<Engine>, tasks: Tasks) -> io::Result<Arc<Self>> {
        let reserved = port::reserve(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Arc::new(Self {
            engine,
            tasks,
            addr: reserved.addr()?,
            place: Mutex::new(Place::Stopped(reserved)),
            connections: Mutex::default(),
            streams: Mutex::default(),
        }))
    }

    /// Starts to listen. Must run on the server thread.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        let mut place = lock(&self.place);
        let reserved = match std::mem::replace(&mut *place, Place::Moving) {
            Place::Stopped(reserved) => reserved,
            other => {
                *place = other;
                return Ok(());
            }
        };
        let kept = cfg!(target_os = "linux").then(|| port::reserve(self.addr)).transpose()?;
        let listener = reserved.listen()?;
        self.engine.ledger.started();
        *place = Place::Listening { accept: self.tasks.spawn(self.clone().accept(listener)), kept };
        Ok(())
    }

    /// Closes the port and every connection, and drops what a process would lose.
    pub(super) async fn stop(&self) -> io::Result<()> {
        let listening = std::mem::replace(&mut *lock(&self.place), Place::Moving);
        let kept = match listening {
            Place::Listening { accept, kept } => {
                accept.abort();
                let _ = accept.await;
                kept
            }
            other => {
                *lock(&self.place) = other;
                return Ok(());
            }
        };
        self.end_connections(Conn::close).await;
        self.engine.abandon();
        lock(&self.streams).clear();
        self.engine.drop_sessions();
        let reserved = kept.map_or_else(|| port::reserve(self.addr), Ok)?;
        *lock(&self.place) = Place::Stopped(reserved);
        Ok(())
    }

    /// Ends every connection and waits until the sockets are closed.
    pub(super) async fn end_connections(&self, how: fn(&Conn)) {
        let open: Vec<Open> = lock(&self.connections).drain().map(|(_, open)| open).collect();
        for Open { conn, task } in open {
            how(&conn);
            let _ = task.await;
        }
    }

    pub(super) fn open_connections(&self) -> usize {
        lock(&self.connections).len()
    }

    /// Opens an event stream for a session.
    pub(super) fn open_stream(&self, session: Option<&str>) -> Arc<Stream> {
        let stream = Stream::new(self.engine.number(), &self.engine.script().http);
        let mut streams = lock(&self.streams);
        streams.retain(|(_, stream)| !stream.is_spent());
        if streams.len() > STREAMS_KEPT {
            streams.retain(|(_, stream)| !stream.is_finished());
        }
        streams.push((session.map(str::to_owned), stream.clone()));
        stream
    }

    pub(super) fn find_stream(&self, session: Option<&str>, number: u64) -> Option<Arc<Stream>> {
        lock(&self.streams)
            .iter()
            .find(|(owner, stream)| owner.as_deref() == session && stream.number() == number)
            .map(|(_, stream)| stream.clone())
    }

    pub(super) fn stream_of(&self, session: &str) -> Option<Arc<Stream>> {
        let streams = lock(&self.streams);
        let (_, stream) = streams.iter().find(|(owner, _)| owner.as_deref() == Some(session))?;
        Some(stream.clone())
    }

    /// Returns the streams of all sessions, with the session id.
    pub(super) fn session_streams(&self) -> Vec<(String, Arc<Stream>)> {
        let streams = lock(&self.streams);
        streams.iter().filter_map(|(owner, stream)| Some((owner.clone()?, stream.clone()))).collect()
    }

    /// Ends every response that is an event stream, in good order.
    pub(super) fn dismiss_readers(&self) {
        for (_, stream) in lock(&self.streams).iter() {
            stream.dismiss_readers();
        }
    }

    pub(super) fn keep_alive(&self) {
        for (_, stream) in lock(&self.streams).iter().filter(|(_, stream)| stream.is_open()) {
            stream.push(": keep-alive\n\n".into());
        }
    }

    pub(super) fn close_streams_of(&self, session: &str) {
        lock(&self.streams).retain(|(owner, stream)| {
            let theirs = owner.as_deref() == Some(session);
            if theirs {
                stream.finish();
            }
            !theirs
        });
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let number = self.engine.ledger.connected();
            let conn = Conn::new(number);
            match self.engine.armed.take("accept", None).decides.map(|fault| fault.kind) {
                None => {
                    // Small messages are sent at once: a test measures the client, not Nagle's
                    // algorithm.
                    let _ = stream.set_nodelay(true);
                    let task = self.tasks.spawn(self.clone().connection(stream, conn.clone()));
                    lock(&self.connections).insert(number, Open { conn, task });
                }
                Some(Kind::Reset) => {
                    let _ = stream.set_zero_linger();
                }
                Some(_) => {}
            }
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, conn: Arc<Conn>) {
        let io = TokioIo::new(ConnIo { stream, conn: conn.clone() });
        let service = {
            let (site, conn) = (self.clone(), conn.clone());
            service_fn(move |request| {
                let (site, conn) = (site.clone(), conn.clone());
                async move { Ok::<_, std::convert::Infallible>(serve(site, conn, request).await) }
            })
        };
        let server = auto::Builder::new(self.tasks.clone());
        let serving = server.serve_connection(io, service);
        tokio::select! {
            () = conn.ended() => {}
            _ = serving => {}
        }
        lock(&self.connections).remove(&conn.number);
        self.engine.ledger.touch();
    }
}
