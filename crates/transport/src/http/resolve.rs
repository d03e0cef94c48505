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
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use parking_lot::Mutex;
use tower_service::Service;

use super::address_guard::{AddressScope, RefusalReason, Zone};
use super::failure::ResolveError;

/// Looks up names in place of the system resolver.
pub trait Lookup: fmt::Debug + Send + Sync + 'static {
    /// Looks up one name. The future may be dropped before its end.
    fn lookup(&self, name: &str) -> LookupFuture;
}

/// The result of a [`Lookup`].
pub type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Where addresses of names come from.
#[derive(Clone, Debug, Default)]
pub(super) enum AddressLookup {
    #[default]
    System,
    Custom(Arc<CustomLookup>),
}

/// A custom lookup, with its own memory of public names.
#[derive(Debug)]
pub(super) struct CustomLookup {
    lookup: Arc<dyn Lookup>,
    public_names: PublicNames,
}

/// Names that were public at least once. Only names that the user chose are recorded, so that there
/// are few.
#[derive(Debug, Default)]
struct PublicNames(Mutex<HashSet<String>>);

/// Public names found by the system resolver, shared by all connections of the program, so that
/// lying to one of them gains nothing.
static SYSTEM_PUBLIC_NAMES: OnceLock<PublicNames> = OnceLock::new();

/// Decides which addresses one connection may be made to, and records a refusal.
#[derive(Debug)]
pub(super) struct AddressFilter {
    scope: AddressScope,
    refused: OnceLock<RefusalReason>,
}

/// A resolver for the TCP connector that drops refused addresses and has a distinct error type.
#[derive(Clone)]
pub(super) struct FilteredResolver {
    lookup: AddressLookup,
    filter: Option<Arc<AddressFilter>>,
}

// === impl Names ===

impl AddressLookup {
    pub(super) fn custom(lookup: Arc<dyn Lookup>) -> Self {
        Self::Custom(Arc::new(CustomLookup { lookup, public_names: PublicNames::default() }))
    }

    /// The zone of a name that the user chose and that was just looked up: the farthest zone it was
    /// ever found in. `None` without any address.
    pub(super) fn farthest_zone(&self, name: &str, found: &[SocketAddr]) -> Option<Zone> {
        let ips: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        let now = Zone::of_named_host(&ips)?;
        let PublicNames(public) = match self {
            Self::System => SYSTEM_PUBLIC_NAMES.get_or_init(PublicNames::default),
            Self::Custom(given) => &given.public_names,
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let mut public = public.lock();
        if now == Zone::Public {
            public.insert(name);
            return Some(now);
        }
        Some(if public.contains(&name) { Zone::Public } else { now })
    }

    /// Looks up the addresses of a name. Their ports are meaningless.
    pub(super) async fn resolve(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::System => {
                let name: Name = name.parse().map_err(io::Error::other)?;
                Ok(GaiResolver::new().call(name).await?.collect())
            }
            Self::Custom(given) => {
                let found = given.lookup.lookup(name).await?;
                Ok(found.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect())
            }
        }
    }
}

// === impl Pass ===

impl AddressFilter {
    pub(super) fn new(reach: AddressScope) -> Self {
        Self { scope: reach, refused: OnceLock::new() }
    }

    /// The reason, if the connection was refused by this filter.
    pub(super) fn refused(&self) -> Option<RefusalReason> {
        self.refused.get().copied()
    }

    /// Whether the user chose the address, so that every address is allowed.
    fn is_unrestricted(&self) -> bool {
        self.scope == AddressScope::Any
    }

    fn filter(&self, mut found: Vec<SocketAddr>) -> io::Result<Vec<SocketAddr>> {
        let mut why = None;
        found.retain(|address| self.scope.admit(address.ip()).map_err(|reason| why = Some(reason)).is_ok());
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

impl FilteredResolver {
    pub(super) fn new(names: AddressLookup, pass: Option<Arc<AddressFilter>>) -> Self {
        Self { lookup: names, filter: pass }
    }
}

impl Service<Name> for FilteredResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ResolveError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { lookup: names, filter: pass } = self.clone();
        Box::pin(async move {
            let found = names.resolve(name.as_str()).await;
            if let Ok(found) = &found
                && pass.as_ref().is_none_or(|pass| pass.is_unrestricted())
            {
                names.farthest_zone(name.as_str(), found);
            }
            let found = match pass {
                Some(pass) => found.and_then(|found| pass.filter(found)),
                None => found,
            };
            Ok(found.map_err(ResolveError)?.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: [u8; 4] = [10, 0, 0, 1];
    const FAR: [u8; 4] = [8, 8, 8, 8];

    #[derive(Debug)]
    struct PublicLookup;

    impl Lookup for PublicLookup {
        fn lookup(&self, _: &str) -> LookupFuture {
            Box::pin(std::future::ready(Ok(vec![FAR.into()])))
        }
    }

    fn at(ip: [u8; 4]) -> [SocketAddr; 1] {
        [SocketAddr::new(ip.into(), 0)]
    }

    // SE-02: one forged lookup is not enough, whenever it comes.
    #[test]
    fn a_name_that_was_public_once_stays_so() {
        let names = AddressLookup::custom(Arc::new(PublicLookup));
        assert_eq!(names.farthest_zone("s.test", &at(NEAR)), Some(Zone::Private));
        assert_eq!(names.farthest_zone("s.test", &at(FAR)), Some(Zone::Public));
        for name in ["s.test", "S.test."] {
            assert_eq!(names.farthest_zone(name, &at(NEAR)), Some(Zone::Public), "{name}");
        }
        assert_eq!(names.farthest_zone("other.test", &at(NEAR)), Some(Zone::Private));
        assert_eq!(names.farthest_zone("s.test", &[]), None);
    }

    #[test]
    fn what_the_system_said_is_known_to_the_whole_program() {
        let name = "known-to-the-whole-program.test";
        assert_eq!(AddressLookup::System.farthest_zone(name, &at(FAR)), Some(Zone::Public));
        assert_eq!(AddressLookup::default().farthest_zone(name, &at(NEAR)), Some(Zone::Public));
    }

    // SE-02: the address of an actual connection counts, not only that of a later lookup.
    #[tokio::test]
    async fn a_connection_that_a_person_chose_says_where_its_server_is() {
        let chosen = [None, Some(AddressScope::Any)];
        let told = [Some(AddressScope::AtLeast(Zone::Private)), Some(AddressScope::Loopback)];
        for (reach, expected) in
            chosen.map(|it| (it, Zone::Public)).into_iter().chain(told.map(|it| (it, Zone::Private)))
        {
            let names = AddressLookup::custom(Arc::new(PublicLookup));
            let mut resolver =
                FilteredResolver::new(names.clone(), reach.map(|reach| Arc::new(AddressFilter::new(reach))));
            let _ = resolver.call("s.test".parse().unwrap()).await;
            assert_eq!(names.farthest_zone("s.test", &at(NEAR)), Some(expected), "{reach:?}");
        }
    }
}
