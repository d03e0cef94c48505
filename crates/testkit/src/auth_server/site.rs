//! The port of the authorization server with its connections, and how it stops and starts.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Limited};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::serve::{PortOwner, Reply, full_response, serve_request};
use super::{AuthCore, AuthScript};
use crate::canned_response::CannedResponse;
use crate::http::{Conn, ConnIo};
use crate::port::{self, ReservedPort};
use crate::server_thread::Spawner;
use crate::sync::lock;

/// The maximum size of a request body in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

pub(super) struct AuthSite {
    core: Arc<AuthCore>,
    spawner: Spawner,
    pub(super) addr: SocketAddr,
    port_state: Mutex<PortState>,
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    count: u64,
    open: HashMap<u64, (Arc<Conn>, JoinHandle<Option<()>>)>,
}

/// Whether the server listens on its port or only reserves it. On Linux a second socket keeps the
/// port reserved while the server listens.
enum PortState {
    Listening { accept: JoinHandle<Option<()>>, kept: Option<ReservedPort> },
    Stopped(ReservedPort),
    Transition,
}

impl AuthSite {
    pub(super) fn new(tasks: Spawner, script: AuthScript) -> io::Result<(Arc<Self>, Arc<AuthCore>)> {
        let reserved = port::reserve_port(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let addr = reserved.addr()?;
        let core = Arc::new(AuthCore::new(format!("http://{addr}"), script));
        let place = Mutex::new(PortState::Stopped(reserved));
        let site = Self {
            core: core.clone(),
            spawner: tasks,
            addr,
            port_state: place,
            connections: Mutex::default(),
        };
        Ok((Arc::new(site), core))
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
        *port_state = PortState::Listening {
            accept: self.spawner.spawn(self.clone().accept_connections(listener)),
            kept,
        };
        Ok(())
    }

    /// Closes the port and every connection.
    pub(super) async fn stop(&self) -> io::Result<()> {
        let port_state = std::mem::replace(&mut *lock(&self.port_state), PortState::Transition);
        let PortState::Listening { accept, kept } = port_state else {
            *lock(&self.port_state) = port_state;
            return Ok(());
        };
        accept.abort();
        let _ = accept.await;
        let open: Vec<_> = lock(&self.connections).open.drain().map(|(_, open)| open).collect();
        for (conn, task) in open {
            conn.close();
            let _ = task.await;
        }
        *lock(&self.port_state) = PortState::Stopped(kept.map_or_else(|| port::reserve_port(self.addr), Ok)?);
        Ok(())
    }

    async fn accept_connections(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            let mut connections = lock(&self.connections);
            connections.count += 1;
            let number = connections.count;
            let conn = Conn::new(number);
            let task = self.spawner.spawn(self.clone().serve_connection(stream, conn.clone()));
            connections.open.insert(number, (conn, task));
        }
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream, conn: Arc<Conn>) {
        let io = TokioIo::new(ConnIo { stream, conn: conn.clone() });
        let service = service_fn(|request| {
            let (core, conn) = (self.core.clone(), conn.clone());
            async move { Ok::<_, std::convert::Infallible>(respond(core, conn, request).await) }
        });
        let server = auto::Builder::new(self.spawner.clone());
        let serving = server.serve_connection(io, service);
        tokio::select! {
            () = conn.ended() => {}
            _ = serving => {}
        }
        lock(&self.connections).open.remove(&conn.number);
    }
}

async fn respond(core: Arc<AuthCore>, conn: Arc<Conn>, request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(body) => serve_request(PortOwner::AuthServer(&core), &conn, &head, &body.to_bytes()).await,
        Err(_) => full_response(&CannedResponse::new(413)),
    }
}
