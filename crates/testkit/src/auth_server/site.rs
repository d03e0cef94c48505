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

use super::serve::{Ground, Reply, serve, whole};
use super::{AuthScript, Core};
use crate::answer::Answer;
use crate::host::Tasks;
use crate::http::{Conn, ConnIo};
use crate::port::{self, Reserved};
use crate::sync::lock;

/// The maximum size of a request body in bytes.
const BODY_LIMIT: usize = 1 << 20;

pub(super) struct Site {
    core: Arc<Core>,
    tasks: Tasks,
    pub(super) addr: SocketAddr,
    place: Mutex<Place>,
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    count: u64,
    open: HashMap<u64, (Arc<Conn>, JoinHandle<Option<()>>)>,
}

/// Whether the server listens on its port or only reserves it. On Linux a second socket keeps the
/// port reserved while the server listens.
enum Place {
    Listening { accept: JoinHandle<Option<()>>, kept: Option<Reserved> },
    Stopped(Reserved),
    Moving,
}

impl Site {
    pub(super) fn new(tasks: Tasks, script: AuthScript) -> io::Result<(Arc<Self>, Arc<Core>)> {
        let reserved = port::reserve(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let addr = reserved.addr()?;
        let core = Arc::new(Core::new(format!("http://{addr}"), script));
        let place = Mutex::new(Place::Stopped(reserved));
        let site = Self { core: core.clone(), tasks, addr, place, connections: Mutex::default() };
        Ok((Arc::new(site), core))
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
        *place = Place::Listening { accept: self.tasks.spawn(self.clone().accept(listener)), kept };
        Ok(())
    }

    /// Closes the port and every connection.
    pub(super) async fn stop(&self) -> io::Result<()> {
        let place = std::mem::replace(&mut *lock(&self.place), Place::Moving);
        let Place::Listening { accept, kept } = place else {
            *lock(&self.place) = place;
            return Ok(());
        };
        accept.abort();
        let _ = accept.await;
        let open: Vec<_> = lock(&self.connections).open.drain().map(|(_, open)| open).collect();
        for (conn, task) in open {
            conn.close();
            let _ = task.await;
        }
        *lock(&self.place) = Place::Stopped(kept.map_or_else(|| port::reserve(self.addr), Ok)?);
        Ok(())
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            let mut connections = lock(&self.connections);
            connections.count += 1;
            let number = connections.count;
            let conn = Conn::new(number);
            let task = self.tasks.spawn(self.clone().connection(stream, conn.clone()));
            connections.open.insert(number, (conn, task));
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, conn: Arc<Conn>) {
        let io = TokioIo::new(ConnIo { stream, conn: conn.clone() });
        let service = service_fn(|request| {
            let (core, conn) = (self.core.clone(), conn.clone());
            async move { Ok::<_, std::convert::Infallible>(answer(core, conn, request).await) }
        });
        let server = auto::Builder::new(self.tasks.clone());
        let serving = server.serve_connection(io, service);
        tokio::select! {
            () = conn.ended() => {}
            _ = serving => {}
        }
        lock(&self.connections).open.remove(&conn.number);
    }
}

async fn answer(core: Arc<Core>, conn: Arc<Conn>, request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(body) => serve(Ground::Own(&core), &conn, &head, &body.to_bytes()).await,
        Err(_) => whole(&Answer::new(413)),
    }
}
