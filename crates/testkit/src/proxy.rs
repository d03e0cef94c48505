//! [`FaultProxy`]: a TCP proxy that delays, cuts, stalls, resets and refuses.

mod link;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::host::{Host, Tasks};
use crate::port::{self, Reserved};
use crate::sync::lock;
use link::Link;
pub use link::{Ending, Flow, LinkInfo, Rules};

/// A TCP proxy in front of one address.
///
/// Without rules it forwards everything unchanged. [`set_rules`](Self::set_rules) changes the rules
/// of all connections, present and future; [`set_link_rules`](Self::set_link_rules) those of one of
/// them.
///
/// ```
/// # async fn example(server: bowline_testkit::HttpServer) {
/// use bowline_testkit::{FaultProxy, ProxyRules};
/// use std::time::Duration;
///
/// let proxy = FaultProxy::start(server.addr()).await;
/// // … point a client at proxy.url("/mcp") …
/// proxy.set_rules(ProxyRules::new().delay(Duration::from_millis(50)));
/// proxy.set_rules(ProxyRules::new().cut_reply_after(100)); // counted from now, per connection
/// proxy.set_rules(ProxyRules::new().stall());              // open, and nothing moves
/// proxy.set_rules(ProxyRules::new());                      // what was held back flows again
/// proxy.reset_all().await;
/// proxy.refuse_connections().await;
/// proxy.accept_connections().await;
/// # }
/// ```
///
/// Dropping it closes everything before the drop returns.
pub struct FaultProxy {
    inner: Arc<Inner>,
    host: Host,
}

struct Inner {
    addr: SocketAddr,
    target: SocketAddr,
    tasks: Tasks,
    place: Mutex<Place>,
    rules: Mutex<Rules>,
    links: Mutex<Vec<Arc<Link>>>,
    changed: watch::Sender<u64>,
}

enum Place {
    Open {
        listening: JoinHandle<Option<()>>,
        /// A second socket on the port, bound before the listener listens, so that no other socket
        /// can get the port while it is being closed. Only Linux allows two sockets on one port.
        kept: Option<Reserved>,
    },
    Closed(Reserved),
    Moving,
}

impl FaultProxy {
    /// Starts a proxy on a free loopback port. Nothing needs to listen on `target` yet.
    pub async fn start(target: SocketAddr) -> Self {
        let host = Host::start("testkit-proxy");
        let tasks = host.tasks.clone();
        let inner = host
            .run(async move {
                let reserved =
                    port::reserve(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a loopback port is free");
                let inner = Arc::new(Inner {
                    addr: reserved.addr().expect("a bound socket has an address"),
                    target,
                    tasks,
                    place: Mutex::new(Place::Closed(reserved)),
                    rules: Mutex::new(Rules::new()),
                    links: Mutex::default(),
                    changed: watch::Sender::new(0),
                });
                inner.open().expect("the port can be listened on");
                inner
            })
            .await;
        Self { inner, host }
    }

    /// Returns the address clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.inner.addr
    }

    /// Returns an HTTP URL through the proxy.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr())
    }

    /// Sets the rules of every connection, present and future.
    pub fn set(&self, rules: Rules) {
        *lock(&self.inner.rules) = rules;
        for link in lock(&self.inner.links).iter() {
            link.set(rules);
        }
    }

    /// Sets the rules of the connection with this number, from 1.
    pub fn set_link(&self, number: usize, rules: Rules) {
        self.link(number).set(rules);
    }

    /// Resets (RST) every open connection.
    pub async fn reset_all(&self) {
        let links = lock(&self.inner.links).clone();
        self.end(links, Ending::Reset).await;
    }

    /// Closes (FIN) every open connection.
    pub async fn close_all(&self) {
        let links = lock(&self.inner.links).clone();
        self.end(links, Ending::Close).await;
    }

    /// Resets (RST) the connection with this number, from 1.
    pub async fn reset_link(&self, number: usize) {
        self.end(vec![self.link(number)], Ending::Reset).await;
    }

    /// Refuses new connections. Open ones stay as they are.
    pub async fn refuse(&self) {
        let inner = self.inner.clone();
        self.host.run(async move { inner.close().await }).await.expect("the port can be kept");
    }

    /// Accepts connections again, on the same port.
    pub async fn accept(&self) {
        let inner = self.inner.clone();
        self.host.run(async move { inner.open() }).await.expect("the port can be listened on");
    }

    /// Returns every connection so far, in order.
    pub fn links(&self) -> Vec<LinkInfo> {
        lock(&self.inner.links).iter().map(|link| link.info()).collect()
    }

    /// Returns how many connections were accepted.
    pub fn accepted(&self) -> usize {
        lock(&self.inner.links).len()
    }

    /// Waits until the condition holds, testing it after every change. Panics with the list of
    /// connections after `timeout`.
    pub async fn wait_until(&self, holds: impl Fn(&Self) -> bool, timeout: Duration) {
        let mut changes = self.inner.changed.subscribe();
        let wait = async {
            loop {
                changes.borrow_and_update();
                if holds(self) {
                    return;
                }
                changes.changed().await.expect("the proxy holds the sender");
            }
        };
        let came_true = tokio::time::timeout(timeout, wait).await.is_ok();
        assert!(came_true, "it did not come true within {timeout:?}; {:#?}", self.links());
    }

    fn link(&self, number: usize) -> Arc<Link> {
        let links = lock(&self.inner.links);
        let link = number.checked_sub(1).and_then(|index| links.get(index));
        link.unwrap_or_else(|| panic!("there are {} connections, no number {number}", links.len())).clone()
    }

    async fn end(&self, links: Vec<Arc<Link>>, how: Ending) {
        for link in &links {
            link.end(how);
        }
        self.wait_until(|_| links.iter().all(|link| !link.info().open), Duration::from_secs(10)).await;
    }
}

impl Inner {
    fn open(self: &Arc<Self>) -> io::Result<()> {
        let mut place = lock(&self.place);
        match std::mem::replace(&mut *place, Place::Moving) {
            Place::Closed(reserved) => {
                let kept = cfg!(target_os = "linux").then(|| port::reserve(self.addr)).transpose()?;
                let listener = reserved.listen()?;
                *place = Place::Open { listening: self.tasks.spawn(self.clone().listen(listener)), kept };
            }
            other => *place = other,
        }
        Ok(())
    }

    async fn close(&self) -> io::Result<()> {
        let place = std::mem::replace(&mut *lock(&self.place), Place::Moving);
        let place = match place {
            Place::Open { listening, kept } => {
                listening.abort();
                let _ = listening.await;
                Place::Closed(kept.map_or_else(|| port::reserve(self.addr), Ok)?)
            }
            other => other,
        };
        *lock(&self.place) = place;
        Ok(())
    }

    async fn listen(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((client, _)) = listener.accept().await else { continue };
            let link = {
                let mut links = lock(&self.links);
                let link = Arc::new(Link::new(links.len() + 1, *lock(&self.rules), self.changed.clone()));
                links.push(link.clone());
                link
            };
            let target = self.target;
            self.tasks.spawn(async move { link.run(client, target).await });
            self.changed.send_modify(|version| *version += 1);
        }
    }
}
