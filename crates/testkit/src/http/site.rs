//! The port of an MCP server with its connections and streams, and how it stops and starts.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::conn::Conn;
use super::connections::HttpConnections;
use super::exchange::serve_request;
use super::stream::EventStream;
use crate::engine::{Engine, Outlet as _};
use crate::fault::FaultKind;
use crate::port_listener::PortListener;
use crate::server_thread::Spawner;

/// The number of finished streams that are kept for resumption; above it they are dropped.
const MAX_KEPT_STREAMS: usize = 1024;

pub(crate) struct HttpSite {
    pub(super) engine: Arc<Engine>,
    pub(super) spawner: Spawner,
    pub(super) port: PortListener,
    pub(super) connections: Arc<HttpConnections>,
    streams: Mutex<Vec<(Option<String>, Arc<EventStream>)>>,
}

impl HttpSite {
    pub(super) fn new(engine: Arc<Engine>, tasks: Spawner) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            engine,
            port: PortListener::reserve(tasks.clone())?,
            connections: HttpConnections::new(tasks.clone()),
            spawner: tasks,
            streams: Mutex::default(),
        }))
    }

    /// Starts to listen. Must run on the server thread.
    pub(super) async fn start(self: &Arc<Self>) -> io::Result<()> {
        let site = self.clone();
        if self.port.start(move |stream| site.accept(stream)).await? {
            self.engine.message_log.count_run();
        }
        Ok(())
    }

    /// Closes the port and every connection, and drops what a process would lose.
    pub(super) async fn stop(&self) -> io::Result<()> {
        let end_connections = async {
            self.connections.end_all(Conn::close).await;
            self.engine.clear_live_state();
            self.streams.lock().clear();
            self.engine.drop_sessions();
        };
        self.port.stop(end_connections).await
    }

    /// Opens an event stream for a session.
    pub(super) fn open_stream(&self, session: Option<&str>) -> Arc<EventStream> {
        let stream = EventStream::new(&self.engine);
        let mut streams = self.streams.lock();
        streams.retain(|(_, stream)| !stream.is_disposable());
        if streams.len() > MAX_KEPT_STREAMS {
            streams.retain(|(_, stream)| !stream.is_finished());
        }
        streams.push((session.map(str::to_owned), stream.clone()));
        stream
    }

    pub(super) fn find_stream(&self, session: Option<&str>, number: u64) -> Option<Arc<EventStream>> {
        self.streams
            .lock()
            .iter()
            .find(|(owner, stream)| owner.as_deref() == session && stream.number() == number)
            .map(|(_, stream)| stream.clone())
    }

    pub(super) fn session_stream(&self, session: &str) -> Option<Arc<EventStream>> {
        let streams = self.streams.lock();
        let (_, stream) = streams.iter().find(|(owner, _)| owner.as_deref() == Some(session))?;
        Some(stream.clone())
    }

    /// Returns the streams of all sessions, with the session id.
    pub(super) fn session_streams(&self) -> Vec<(String, Arc<EventStream>)> {
        let streams = self.streams.lock();
        streams.iter().filter_map(|(owner, stream)| Some((owner.clone()?, stream.clone()))).collect()
    }

    /// Ends every response that is an event stream, in good order.
    pub(super) fn end_readers(&self) {
        for (_, stream) in self.streams.lock().iter() {
            stream.end_readers();
        }
    }

    pub(super) fn close_session_streams(&self, session: &str) {
        self.streams.lock().retain(|(owner, stream)| {
            let theirs = owner.as_deref() == Some(session);
            if theirs {
                stream.finish();
            }
            !theirs
        });
    }

    fn accept(self: &Arc<Self>, stream: TcpStream) {
        let number = self.engine.message_log.count_connection();
        match self.engine.armed.take_matching(&["accept"], None).deciding.map(|fault| fault.kind) {
            None => {
                let (site, engine) = (self.clone(), self.engine.clone());
                let respond = move |conn, request| serve_request(site.clone(), conn, request);
                self.connections.serve(number, stream, respond, move || engine.message_log.notify_waiters());
            }
            Some(FaultKind::Reset) => {
                let _ = stream.set_zero_linger();
            }
            Some(_) => {}
        }
    }
}
