//! [`FaultProxy`]: a TCP proxy that delays, cuts, stalls, resets and refuses.

mod link;

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::port_listener::PortListener;
use crate::server_thread::{ServerThread, Spawner};
use crate::sync;
use link::Link;
pub use link::{ConnectionEnd, FlowRules, LinkInfo, ProxyRules};

/// A TCP proxy in front of one address.
///
/// Without rules it forwards everything unchanged. [`set_rules`](Self::set_rules) changes the rules
/// of all connections, present and future.
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
    thread: ServerThread,
}

struct Inner {
    port: PortListener,
    target: SocketAddr,
    spawner: Spawner,
    rules: Mutex<ProxyRules>,
    links: Mutex<Vec<Arc<Link>>>,
    changed: watch::Sender<u64>,
}

impl FaultProxy {
    /// Starts a proxy on a free loopback port. Nothing needs to listen on `target` yet.
    pub async fn start(target: SocketAddr) -> Self {
        let host = ServerThread::start("testkit-proxy");
        let tasks = host.spawner.clone();
        let inner = host
            .run(async move {
                let inner = Arc::new(Inner {
                    port: PortListener::reserve(tasks.clone()).expect("a loopback port is free"),
                    target,
                    spawner: tasks,
                    rules: Mutex::new(ProxyRules::new()),
                    links: Mutex::default(),
                    changed: watch::Sender::new(0),
                });
                inner.start_listening().await.expect("the port can be listened on");
                inner
            })
            .await;
        Self { inner, thread: host }
    }

    /// Returns the address clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.inner.port.addr()
    }

    /// Returns an HTTP URL through the proxy.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr())
    }

    /// Sets the rules of every connection, present and future.
    pub fn set_rules(&self, rules: ProxyRules) {
        *self.inner.rules.lock() = rules;
        for link in self.inner.links.lock().iter() {
            link.set_rules(rules);
        }
    }

    /// Resets (RST) every open connection.
    pub async fn reset_all(&self) {
        let links = self.inner.links.lock().clone();
        for link in &links {
            link.end(ConnectionEnd::Reset);
        }
        self.wait_until(|_| links.iter().all(|link| !link.info().open), Duration::from_secs(10)).await;
    }

    /// Refuses new connections. Open ones stay as they are.
    pub async fn refuse_connections(&self) {
        let inner = self.inner.clone();
        self.thread.run(async move { inner.port.stop(ready(())).await }).await.expect("the port can be kept");
    }

    /// Accepts connections again, on the same port.
    pub async fn accept_connections(&self) {
        let inner = self.inner.clone();
        self.thread
            .run(async move { inner.start_listening().await })
            .await
            .expect("the port can be listened on");
    }

    /// Returns every connection so far, in order.
    pub fn links(&self) -> Vec<LinkInfo> {
        self.inner.links.lock().iter().map(|link| link.info()).collect()
    }

    /// Waits until the condition holds, testing it after every change. Panics with the list of
    /// connections after `timeout`.
    pub async fn wait_until(&self, holds: impl Fn(&Self) -> bool, timeout: Duration) {
        let came_true = sync::wait_for(&self.inner.changed, || holds(self).then_some(()), timeout).await;
        assert!(came_true.is_some(), "it did not come true within {timeout:?}; {:#?}", self.links());
    }
}

impl Inner {
    async fn start_listening(self: &Arc<Self>) -> io::Result<()> {
        let inner = self.clone();
        self.port.start(move |client| inner.accept(client)).await?;
        Ok(())
    }

    fn accept(&self, client: TcpStream) {
        let link = {
            let mut links = self.links.lock();
            let link = Arc::new(Link::new(links.len() + 1, *self.rules.lock(), self.changed.clone()));
            links.push(link.clone());
            link
        };
        let target = self.target;
        self.spawner.spawn(async move { link.run(client, target).await });
        self.changed.send_modify(|version| *version += 1);
    }
}
