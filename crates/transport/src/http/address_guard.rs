//! Decides which addresses may be contacted when a server chose them.
//!
//! A server that names an address has it contacted from our network, not from its own: without a
//! guard it could reach through us into networks that it cannot reach itself. So it may
//! only name addresses that are at least as public as itself. Addresses outside all zones, and the
//! metadata services of clouds, which give out the secrets of a machine, may be named by no server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bowline_config::is_loopback;
use url::{Host, Url};

/// Who chose an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSource {
    /// The user: it may be anywhere. A redirect from it is the choice of a server, and is guarded.
    User,
    /// A server in this zone: it may only name addresses that are as public as itself, and over
    /// `https`, except on this machine.
    Server(Zone),
}

/// A part of the network, from near to far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Zone {
    /// This machine.
    Loopback,
    /// A private network.
    Private,
    /// Everywhere else.
    Public,
}

/// An address that was not contacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRefusal {
    /// The host, truncated for display.
    pub host: String,
    /// Why it was refused.
    pub reason: RefusalReason,
}

/// Why an address was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The scheme is neither `http` nor `https`.
    NotHttp,
    /// It is neither `https` nor on this machine.
    NotSecure,
    /// It holds a user name or a password.
    Credentials,
    /// It is in a zone to which the server that named it may not send us.
    TooPrivate(Zone),
    /// No server may name it: link-local, cloud metadata, or special use.
    Special,
}

/// Which addresses a connection may be made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressScope {
    Any,
    /// Loopback addresses only.
    Loopback,
    /// Addresses in this zone or a more public one.
    AtLeast(Zone),
}

// === impl Guard ===

impl AddressSource {
    /// Checks a URL as far as its text allows, and returns which addresses its name may have.
    pub(super) fn check(self, url: &Url) -> Result<AddressScope, AddressRefusal> {
        let refused = |why| AddressRefusal { host: display_host(url), reason: why };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused(RefusalReason::NotHttp));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused(RefusalReason::Credentials));
        }
        let zone = match self {
            Self::User => return Ok(AddressScope::Any),
            Self::Server(zone) => zone,
        };
        let reach = check_host(url, zone)?;
        match (url.scheme(), is_local(url)) {
            ("https", _) => Ok(reach),
            (_, true) => Ok(AddressScope::Loopback),
            _ => Err(refused(RefusalReason::NotSecure)),
        }
    }

    /// Whether a name may be resolved by somebody whose result we do not see, such as a proxy:
    /// there it can mean something else than here.
    pub(super) fn check_unresolved(self, url: &Url) -> Result<(), AddressRefusal> {
        let Self::Server(zone) = self else { return Ok(()) };
        check_name(url, zone).map_err(|why| AddressRefusal { host: display_host(url), reason: why })
    }
}

/// Whether a server in `zone` may name the host of a URL, as far as its text tells, and which
/// addresses its name may have.
pub(super) fn check_host(url: &Url, zone: Zone) -> Result<AddressScope, AddressRefusal> {
    let refused = |why| AddressRefusal { host: display_host(url), reason: why };
    match literal_ip(url) {
        Some(ip) => AddressScope::AtLeast(zone).admit(ip).map_err(refused)?,
        // Such names mean this machine also where a proxy would resolve them.
        None if is_local(url) && zone != Zone::Loopback => {
            return Err(refused(RefusalReason::TooPrivate(Zone::Loopback)));
        }
        None => {}
    }
    Ok(AddressScope::AtLeast(zone))
}

/// Refuses names of cloud metadata services, and for a public server names that only have a meaning
/// inside a network.
fn check_name(url: &Url, zone: Zone) -> Result<(), RefusalReason> {
    let Some(Host::Domain(name)) = url.host() else { return Ok(()) };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    if METADATA_NAMES.contains(&name.as_str()) {
        return Err(RefusalReason::Special);
    }
    let is_below = |suffix: &&str| {
        let above = name.strip_suffix(suffix);
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    };
    let inside = !name.contains('.') || PRIVATE_SUFFIXES.iter().any(is_below);
    if inside && zone == Zone::Public { Err(RefusalReason::TooPrivate(Zone::Private)) } else { Ok(()) }
}

/// Names of cloud metadata services.
const METADATA_NAMES: [&str; 6] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "instance-data",
    "instance-data.ec2.internal",
];

/// Suffixes that are reserved for private networks, or used there so widely that no public names
/// exist below them (RFC 6762 appendix G, RFC 8375).
const PRIVATE_SUFFIXES: [&str; 9] =
    ["internal", "local", "localdomain", "home.arpa", "lan", "home", "corp", "intranet", "private"];

// === impl Reach ===

impl AddressScope {
    pub(super) fn admit(self, ip: IpAddr) -> Result<(), RefusalReason> {
        match (self, Zone::of_ip(ip)) {
            (Self::Any, _) => Ok(()),
            (_, None) => Err(RefusalReason::Special),
            (Self::Loopback, Some(Zone::Loopback)) => Ok(()),
            // A name for this machine that resolves elsewhere.
            (Self::Loopback, Some(_)) => Err(RefusalReason::NotSecure),
            (Self::AtLeast(from), Some(zone)) if zone >= from => Ok(()),
            (Self::AtLeast(_), Some(zone)) => Err(RefusalReason::TooPrivate(zone)),
        }
    }
}

// === impl Zone ===

impl Zone {
    /// The zone of an address. `None` if no server may send anybody there.
    pub fn of_ip(ip: IpAddr) -> Option<Self> {
        match ip {
            IpAddr::V4(ip) => zone_of_v4(ip),
            IpAddr::V6(ip) => zone_of_v6(ip),
        }
    }

    /// The zone of a server with these addresses, of which any may be used: the farthest, so that
    /// the server may name the least. `None` without any.
    ///
    /// A name that somebody else controls never counts as this machine: its owner can point it to
    /// this machine for one lookup, and elsewhere a moment later.
    pub(super) fn of_named_host(ips: &[IpAddr]) -> Option<Self> {
        let zones = ips.iter().map(|ip| Self::of_ip(*ip).unwrap_or(Self::Public));
        zones.max().map(|zone| zone.max(Self::Private))
    }
}

fn zone_of_v4(ip: Ipv4Addr) -> Option<Zone> {
    let [a, b, c, _] = ip.octets();
    match (a, b, c) {
        (127, ..) => Some(Zone::Loopback),
        // Cloud metadata services, besides 169.254.169.254 and 192.0.0.192.
        _ if ip == Ipv4Addr::new(100, 100, 100, 200) || ip == Ipv4Addr::new(168, 63, 129, 16) => None,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Some(Zone::Private),
        // Carrier-grade NAT; also used by VPNs.
        (100, 64..=127, _) => Some(Zone::Private),
        // Benchmarking; also used by local proxies that invent an address for each name.
        (198, 18..=19, _) => Some(Zone::Private),
        // This network; link-local; protocol assignments; documentation; 6to4 relay.
        (0, ..) | (169, 254, _) | (192, 0, 0 | 2) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99) => None,
        // Multicast, reserved, broadcast.
        (224.., ..) => None,
        _ => Some(Zone::Public),
    }
}

fn zone_of_v6(ip: Ipv6Addr) -> Option<Zone> {
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(Zone::Loopback),
        // IPv4-compatible (including the unspecified address), -mapped, -translated, and NAT64.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => zone_of_v4(embedded_v4(high, low)),
        // Local-use NAT64, which may translate into that network.
        [0x64, 0xff9b, 1, .., high, low] => match zone_of_v4(embedded_v4(high, low)) {
            Some(Zone::Private | Zone::Public) => Some(Zone::Private),
            _ => None,
        },
        // 6to4.
        [0x2002, high, low, ..] => zone_of_v4(embedded_v4(high, low)),
        // Cloud metadata services.
        [0xfd00, 0x0ec2 | 0x00c1 | 0x0042, ..] | [0xfd20, 0x00ce, ..] => None,
        [0xfc00..=0xfdff, ..] => Some(Zone::Private),
        // Protocol assignments with Teredo and benchmarks; documentation.
        [0x2001, 0x0000..=0x01ff | 0x0db8, ..] | [0x3fff, 0x0000..=0x0fff, ..] => None,
        [0x2000..=0x3fff, ..] => Some(Zone::Public),
        // Nothing else is assigned to hosts: link-local, multicast, reserved.
        _ => None,
    }
}

fn embedded_v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

/// Whether a URL names this machine by a loopback address or a `localhost` name.
pub(super) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => Zone::of_ip(ip.into()) == Some(Zone::Loopback),
        Some(Host::Ipv6(ip)) => Zone::of_ip(ip.into()) == Some(Zone::Loopback),
        Some(Host::Domain(_)) => is_loopback(url),
        None => false,
    }
}

/// Whether a request to a URL stays on this machine, however its address is written.
pub fn is_this_machine(url: &Url) -> bool {
    // The unspecified address stands for all addresses of this machine; people use it in URLs of
    // servers they start.
    is_local(url) || literal_ip(url).is_some_and(|ip| ip.is_unspecified())
}

/// The address in a URL that has no name.
pub(super) fn literal_ip(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(ip) => Some(ip.into()),
        Host::Ipv6(ip) => Some(ip.into()),
        Host::Domain(_) => None,
    }
}

pub(super) fn display_host(url: &Url) -> String {
    let whole = match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => format!("{}:", url.scheme()),
    };
    whole.chars().take(MAX_HOST_CHARS).collect()
}

const MAX_HOST_CHARS: usize = 120;

// === impl Refusal ===

impl fmt::Display for AddressRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was not asked: {}", self.host, self.reason)
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHttp => "the address is not for HTTP",
            Self::NotSecure => "the address is neither https nor on this machine",
            Self::Credentials => "the address holds a user name or a password",
            Self::TooPrivate(Zone::Loopback) => {
                "it is on this machine, where a server that is elsewhere may not send us"
            }
            Self::TooPrivate(_) => "it is in a private network, where a public server may not send us",
            Self::Special => "its address is link-local or for special use, where no server may send us",
        })
    }
}

#[cfg(test)]
mod tests;
