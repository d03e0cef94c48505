//! Resolves names to addresses, and makes sure that a connection is made only to addresses that
//! were checked: a name is looked up once, and the connection knows only the addresses that passed
//! the check.
//!
//! It also remembers which names were public. The owner of a name can point it to a private address
//! whenever we look it up, but a server that responds from outside had a public address at least
//! once.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

use super::failure::Unresolved;
use super::guard::{Reach, Why, Zone};

/// Looks up names in place of the system resolver.
pub trait Lookup: fmt::Debug + Send + Sync + 'static {
    /// Looks up one name. The future may be dropped before its end.
    fn lookup(&self, name: &str) -> Looking;
}

/// The result of a [`Lookup`].
pub type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Where addresses of names come from.
#[derive(Clone, Debug, Default)]
pub(super) enum Names {
    #[default]
    System,
    Given(Arc<Given>),
}

/// A custom lookup, with its own memory of public names.
#[derive(Debug)]
pub(super) struct Given {
    lookup: Arc<dyn Lookup>,
    seen: Seen,
}

/// Names that were public at least once. Only names that the user chose are recorded, so that there
/// are few.
#[derive(Debug, Default)]
struct Seen(Mutex<HashSet<String>>);

/// Public names found by the system resolver, shared by all connections of the program, so that
/// lying to one of them gains nothing.
static SYSTEM: OnceLock<Seen> = OnceLock::new();

/// Decides which addresses one connection may be made to, and records a refusal.
#[derive(Debug)]
pub(super) struct Pass {
    reach: Reach,
    refused: OnceLock<Why>,
}

/// A resolver for the TCP connector that drops refused addresses and has a distinct error type.
#[derive(Clone)]
pub(super) struct Resolver {
    names: Names,
    pass: Option<Arc<Pass>>,
}

// === impl Names ===

impl Names {
    pub(super) fn given(lookup: Arc<dyn Lookup>) -> Self {
        Self::Given(Arc::new(Given { lookup, seen: Seen::default() }))
    }

    /// The zone of a name that the user chose and that was just looked up: the farthest zone it was
    /// ever found in. `None` without any address.
    pub(super) fn farthest(&self, name: &str, found: &[SocketAddr]) -> Option<Zone> {
        let ips: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        let now = Zone::of_named(&ips)?;
        let Seen(public) = match self {
            Self::System => SYSTEM.get_or_init(Seen::default),
            Self::Given(given) => &given.seen,
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let mut public = public.lock().unwrap_or_else(PoisonError::into_inner);
        if now == Zone::Public {
            public.insert(name);
            return Some(now);
        }
        Some(if public.contains(&name) { Zone::Public } else { now })
    }

    /// Looks up the addresses of a name. Their ports are meaningless.
    pub(super) async fn addresses(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::System => {
                let name: Name = name.parse().map_err(io::Error::other)?;
                Ok(GaiResolver::new().call(name).await?.collect())
            }
            Self::Given(given) => {
                let found = given.lookup.lookup(name).await?;
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

    /// The reason, if the connection was refused by this filter.
    pub(super) fn refused(&self) -> Option<Why> {
        self.refused.get().copied()
    }

    /// Whether the user chose the address, so that every address is allowed.
    fn is_free(&self) -> bool {
        self.reach == Reach::Anything
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
            if let Ok(found) = &found
                && pass.as_ref().is_none_or(|pass| pass.is_free())
            {
                names.farthest(name.as_str(), found);
            }
            let found = match pass {
                Some(pass) => found.and_then(|found| pass.filter(found)),
                None => found,
            };
            Ok(found.map_err(Unresolved)?.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: [u8; 4] = [10, 0, 0, 1];
    const FAR: [u8; 4] = [8, 8, 8, 8];

    #[derive(Debug)]
    struct Far;

    impl Lookup for Far {
        fn lookup(&self, _: &str) -> Looking {
            Box::pin(std::future::ready(Ok(vec![FAR.into()])))
        }
    }

    fn at(ip: [u8; 4]) -> [SocketAddr; 1] {
        [SocketAddr::new(ip.into(), 0)]
    }

    // SE-02: one forged lookup is not enough, whenever it comes.
    #[test]
    fn a_name_that_was_public_once_stays_so() {
        let names = Names::given(Arc::new(Far));
        assert_eq!(names.farthest("s.test", &at(NEAR)), Some(Zone::Private));
        assert_eq!(names.farthest("s.test", &at(FAR)), Some(Zone::Public));
        for name in ["s.test", "S.test."] {
            assert_eq!(names.farthest(name, &at(NEAR)), Some(Zone::Public), "{name}");
        }
        assert_eq!(names.farthest("other.test", &at(NEAR)), Some(Zone::Private));
        assert_eq!(names.farthest("s.test", &[]), None);
    }

    #[test]
    fn what_the_system_said_is_known_to_the_whole_program() {
        let name = "known-to-the-whole-program.test";
        assert_eq!(Names::System.farthest(name, &at(FAR)), Some(Zone::Public));
        assert_eq!(Names::default().farthest(name, &at(NEAR)), Some(Zone::Public));
    }

    // SE-02: the address of an actual connection counts, not only that of a later lookup.
    #[tokio::test]
    async fn a_connection_that_a_person_chose_says_where_its_server_is() {
        let chosen = [None, Some(Reach::Anything)];
        let told = [Some(Reach::From(Zone::Private)), Some(Reach::Loopback)];
        for (reach, expected) in
            chosen.map(|it| (it, Zone::Public)).into_iter().chain(told.map(|it| (it, Zone::Private)))
        {
            let names = Names::given(Arc::new(Far));
            let mut resolver = Resolver::new(names.clone(), reach.map(|reach| Arc::new(Pass::new(reach))));
            let _ = resolver.call("s.test".parse().unwrap()).await;
            assert_eq!(names.farthest("s.test", &at(NEAR)), Some(expected), "{reach:?}");
        }
    }
}
