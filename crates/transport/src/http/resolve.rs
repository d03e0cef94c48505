//! Owns how a name becomes addresses, and that a connection is made only to those that were checked: a name is
//! looked up once, and what is left of the answer is all that the connection knows (SE-02).

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

use super::failure::Unresolved;
use super::guard::{Reach, Why};

/// Finds the addresses of names, in place of the system.
pub trait Lookup: fmt::Debug + Send + Sync + 'static {
    /// Looks up one name. It may be dropped before its end.
    fn lookup(&self, name: &str) -> Looking;
}

/// A name that is being looked up.
pub type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Who is asked for addresses.
#[derive(Clone, Debug, Default)]
pub(super) enum Names {
    #[default]
    System,
    Given(Arc<dyn Lookup>),
}

/// Which addresses one connection may be made to, and what became of that.
#[derive(Debug)]
pub(super) struct Pass {
    reach: Reach,
    refused: OnceLock<Why>,
}

/// Names for connections, with errors that can be told from others.
#[derive(Clone)]
pub(super) struct Resolver {
    names: Names,
    pass: Option<Arc<Pass>>,
}

// === impl Names ===

impl Names {
    /// The ports mean nothing.
    pub(super) async fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::System => {
                let name: Name = name.parse().map_err(io::Error::other)?;
                Ok(GaiResolver::new().call(name).await?.collect())
            }
            Self::Given(lookup) => {
                let found = lookup.lookup(name).await?;
                Ok(found.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect())
            }
        }
    }
}

// === impl Pass ===

impl Pass {
    pub(super) fn new(reach: Reach) -> Self {
        Self { reach, refused: OnceLock::new() }
    }

    /// Why there was no connection, if it was for this.
    pub(super) fn refused(&self) -> Option<Why> {
        self.refused.get().copied()
    }

    fn filter(&self, mut found: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
        let mut why = None;
        found.retain(|address| self.reach.admit(address.ip()).map_err(|reason| why = Some(reason)).is_ok());
        match why {
            Some(why) if found.is_empty() => {
                let _ = self.refused.set(why);
                Err(io::Error::new(io::ErrorKind::PermissionDenied, why.to_string()))
            }
            _ => Ok(found),
        }
    }
}

// === impl Resolver ===

impl Resolver {
    pub(super) fn new(names: Names, pass: Option<Arc<Pass>>) -> Self {
        Self { names, pass }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Unresolved;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Unresolved>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Unresolved>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { names, pass } = self.clone();
        Box::pin(async move {
            let found = names.addresses(name.as_str()).await;
            let found = match pass {
                Some(pass) => found.and_then(|found| pass.filter(found)),
                None => found,
            };
            Ok(found.map_err(Unresolved)?.into_iter())
        })
    }
}
