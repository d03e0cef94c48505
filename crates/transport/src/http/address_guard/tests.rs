//! Tests of zones, and of which URLs a server may name.

use proptest::prelude::*;

use super::*;

fn zone(ip: &str) -> Option<Zone> {
    Zone::of_ip(ip.parse().unwrap())
}

fn check(url: &str, guard: AddressSource) -> Result<AddressScope, RefusalReason> {
    guard.check(&url.parse().unwrap()).map_err(|refusal| refusal.reason)
}

// SE-01
#[test]
fn se_01_addresses_are_where_the_registries_say() {
    for ip in ["127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"]
    {
        assert_eq!(zone(ip), Some(Zone::Loopback), "{ip}");
    }
    for ip in [
        "10.0.0.0",
        "10.255.255.255",
        "172.16.0.0",
        "172.31.255.255",
        "192.168.0.0",
        "192.168.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "fc00::",
        "fdff:ffff::1",
        "::ffff:10.0.0.1",
        "::10.0.0.1",
        "::ffff:0:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "64:ff9b:1::10.0.0.1",
        "2002:0a00:0001::1",
    ] {
        assert_eq!(zone(ip), Some(Zone::Private), "{ip}");
    }
    for ip in [
        "0.0.0.0",
        "0.255.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "198.51.100.1",
        "203.0.113.255",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1::127.0.0.1",
        "2002:a9fe:a9fe::",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "fd00:42::42",
        "100::1",
        "2001::1",
        "2001:2::1",
        "2001:20::1",
        "2001:db8::1",
        "3fff:fff::1",
        "5f00::1",
        "4000::1",
    ] {
        assert_eq!(zone(ip), None, "{ip}");
    }
    for ip in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:200::1",
        "2001:4860:4860::8888",
        "3fff:1000::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:0808:0808::",
    ] {
        assert_eq!(zone(ip), Some(Zone::Public), "{ip}");
    }
}

// SE-01
#[test]
fn se_01_a_public_server_names_only_public_addresses() {
    let public = AddressSource::Server(Zone::Public);
    assert_eq!(check("https://as.test/", public), Ok(AddressScope::AtLeast(Zone::Public)));
    assert_eq!(check("https://8.8.8.8/", public), Ok(AddressScope::AtLeast(Zone::Public)));
    for (url, why) in [
        ("http://169.254.169.254/latest/meta-data/", RefusalReason::Special),
        ("https://169.254.169.254/", RefusalReason::Special),
        ("http://[::ffff:10.0.0.1]/", RefusalReason::TooPrivate(Zone::Private)),
        ("https://[::ffff:10.0.0.1]/", RefusalReason::TooPrivate(Zone::Private)),
        ("https://[fd00:ec2::254]/", RefusalReason::Special),
        ("https://10.0.0.1/", RefusalReason::TooPrivate(Zone::Private)),
        // In every spelling of an address.
        ("https://2130706433/", RefusalReason::TooPrivate(Zone::Loopback)),
        ("https://0x7f.1/", RefusalReason::TooPrivate(Zone::Loopback)),
        ("https://0177.0.0.1./", RefusalReason::TooPrivate(Zone::Loopback)),
        ("https://\u{ff11}27.0.0.1/", RefusalReason::TooPrivate(Zone::Loopback)),
        ("https://0/", RefusalReason::Special),
        ("https://[::]/", RefusalReason::Special),
        ("https://localhost/", RefusalReason::TooPrivate(Zone::Loopback)),
        ("http://LOCALHOST./", RefusalReason::TooPrivate(Zone::Loopback)),
        ("https://a.localhost/", RefusalReason::TooPrivate(Zone::Loopback)),
        ("http://as.test/", RefusalReason::NotSecure),
        ("http://8.8.8.8/", RefusalReason::NotSecure),
        ("https://user@as.test/", RefusalReason::Credentials),
        ("https://:pass@as.test/", RefusalReason::Credentials),
        ("ftp://as.test/", RefusalReason::NotHttp),
        ("file:///etc/passwd", RefusalReason::NotHttp),
        ("javascript:alert(1)", RefusalReason::NotHttp),
    ] {
        assert_eq!(check(url, public), Err(why), "{url}");
    }
}

#[test]
fn nearer_servers_name_nearer_addresses() {
    let (private, local) = (AddressSource::Server(Zone::Private), AddressSource::Server(Zone::Loopback));
    assert!(check("https://10.0.0.1/", private).is_ok());
    assert_eq!(check("http://10.0.0.1/", private), Err(RefusalReason::NotSecure));
    assert_eq!(check("https://127.0.0.1/", private), Err(RefusalReason::TooPrivate(Zone::Loopback)));
    assert_eq!(check("https://localhost/", private), Err(RefusalReason::TooPrivate(Zone::Loopback)));
    for url in ["http://127.9.9.9:80/", "http://[::1]/", "http://localhost/"] {
        assert_eq!(check(url, local), Ok(AddressScope::Loopback), "{url}");
    }
    assert_eq!(check("https://10.0.0.1/", local), Ok(AddressScope::AtLeast(Zone::Loopback)));
    assert_eq!(check("http://10.0.0.1/", local), Err(RefusalReason::NotSecure));
    assert_eq!(check("http://localhost.evil.test/", local), Err(RefusalReason::NotSecure));
    for guard in [private, local] {
        assert_eq!(check("https://169.254.169.254/", guard), Err(RefusalReason::Special));
        assert_eq!(check("https://[fe80::1]/", guard), Err(RefusalReason::Special));
    }
    // `localhost` that resolves elsewhere is not this machine.
    assert_eq!(AddressScope::Loopback.admit([10, 0, 0, 1].into()), Err(RefusalReason::NotSecure));
}

fn check_unresolved(url: &str, guard: AddressSource) -> Result<(), RefusalReason> {
    guard.check_unresolved(&url.parse().unwrap()).map_err(|refusal| refusal.reason)
}

// SE-01: a proxy resolves a name in a network where it may have a meaning.
#[test]
fn se_01_names_of_inner_networks_are_not_looked_up_for_a_public_server() {
    let public = AddressSource::Server(Zone::Public);
    for name in [
        "metadata",
        "METADATA.",
        "instance-data",
        "metadata.google.internal",
        "metadata.google.internal.",
        "metadata.goog",
    ] {
        for zone in [Zone::Loopback, Zone::Private, Zone::Public] {
            let found = check_unresolved(&format!("https://{name}/"), AddressSource::Server(zone));
            assert_eq!(found, Err(RefusalReason::Special), "{name} {zone:?}");
        }
    }
    for name in [
        "vault.internal",
        "a.b.internal.",
        "internal",
        "printer.local",
        "PRINTER.LOCAL",
        "svc.cluster.local",
        "router.lan",
        "nas.home.arpa",
        "wiki.corp",
        "intranet",
        "jenkins",
        "jenkins.",
    ] {
        let url = format!("https://{name}/");
        assert_eq!(check_unresolved(&url, public), Err(RefusalReason::TooPrivate(Zone::Private)), "{name}");
        for guard in
            [AddressSource::Server(Zone::Private), AddressSource::Server(Zone::Loopback), AddressSource::User]
        {
            assert_eq!(check_unresolved(&url, guard), Ok(()), "{name}");
        }
    }
    for name in
        ["as.test", "internal.example.com", "local.example", "mylocal.example", "notinternal.test", "8.8.8.8"]
    {
        assert_eq!(check_unresolved(&format!("https://{name}/"), public), Ok(()), "{name}");
    }
    // An address is recognized in every spelling, and never reaches a proxy as a name.
    for url in [
        "https://0xa9fea9fe/",
        "https://2852039166/",
        "https://0251.0376.0251.0376/",
        "https://169.254.43518/",
    ] {
        assert_eq!(check(url, public), Err(RefusalReason::Special), "{url}");
    }
    for url in ["https://0x0a.1/", "https://012.0.0.1/", "https://167772161/", "https://192.168.257/"] {
        assert_eq!(check(url, public), Err(RefusalReason::TooPrivate(Zone::Private)), "{url}");
    }
}

#[test]
fn a_persons_choice_may_be_anywhere() {
    for url in ["http://169.254.169.254/", "http://10.0.0.1/", "http://as.test/"] {
        assert_eq!(check(url, AddressSource::User), Ok(AddressScope::Any), "{url}");
    }
    assert_eq!(check("file:///etc/passwd", AddressSource::User), Err(RefusalReason::NotHttp));
}

#[test]
fn a_name_is_as_far_as_its_farthest_address() {
    let of =
        |ips: &[&str]| Zone::of_named_host(&ips.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<_>>());
    assert_eq!(of(&["10.0.0.1", "8.8.8.8"]), Some(Zone::Public));
    assert_eq!(of(&["10.0.0.1", "127.0.0.1"]), Some(Zone::Private));
    // Not loopback: the name can resolve differently in a moment.
    assert_eq!(of(&["127.0.0.1"]), Some(Zone::Private));
    assert_eq!(of(&["169.254.1.1"]), Some(Zone::Public));
    assert_eq!(of(&[]), None);
}

#[test]
fn a_refusal_names_the_host_and_nothing_secret() {
    let url = "https://user:hunter2@10.0.0.1:8443/path?token=s3cret".parse().unwrap();
    let shown = AddressSource::Server(Zone::Public).check(&url).unwrap_err().to_string();
    assert!(shown.starts_with("10.0.0.1:8443 was not asked: "), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("s3cret"), "{shown}");
    let long = format!("http://{}test/", "a.".repeat(120)).parse().unwrap();
    assert!(AddressSource::Server(Zone::Public).check(&long).unwrap_err().to_string().chars().count() <= 200);
}

/// Arbitrary addresses, more often near the edges of the special ranges.
fn any_v4() -> impl Strategy<Value = Ipv4Addr> {
    let heads = [0u8, 10, 100, 127, 168, 169, 172, 192, 198, 203, 224, 240, 255];
    let near = (prop::sample::select(heads.to_vec()), any::<[u8; 3]>())
        .prop_map(|(a, [b, c, d])| Ipv4Addr::new(a, b, c, d));
    prop_oneof![any::<u32>().prop_map(Ipv4Addr::from), near]
}

fn any_v6() -> impl Strategy<Value = Ipv6Addr> {
    let heads = [0u16, 0x64, 0x100, 0x2001, 0x2002, 0x3fff, 0x5f00, 0xfc00, 0xfd00, 0xfe80, 0xfec0, 0xff02];
    let near = (prop::sample::select(heads.to_vec()), any::<[u16; 7]>())
        .prop_map(|(a, [b, c, d, e, f, g, h])| Ipv6Addr::new(a, b, c, d, e, f, g, h));
    prop_oneof![any::<u128>().prop_map(Ipv6Addr::from), near]
}

proptest! {
    #[test]
    fn agrees_with_the_standard_library(ip in any_v4()) {
        let zone = Zone::of_ip(ip.into());
        prop_assert_eq!(zone == Some(Zone::Loopback), ip.is_loopback());
        if ip.is_private() {
            prop_assert_eq!(zone, Some(Zone::Private));
        }
        if ip.is_link_local() || ip.is_multicast() || ip.is_broadcast() || ip.is_documentation() || ip.is_unspecified() {
            prop_assert_eq!(zone, None);
        }
    }

    #[test]
    fn an_embedded_address_is_where_it_leads(ip in any_v4()) {
        let zone = Zone::of_ip(ip.into());
        let [a, b, c, d] = ip.octets().map(u16::from);
        let (high, low) = (a << 8 | b, c << 8 | d);
        prop_assert_eq!(Zone::of_ip(ip.to_ipv6_mapped().into()), zone);
        prop_assert_eq!(Zone::of_ip(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low).into()), zone);
        prop_assert_eq!(Zone::of_ip(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low).into()), zone);
        prop_assert_eq!(Zone::of_ip(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1).into()), zone);
        if (high, low) != (0, 1) {
            prop_assert_eq!(Zone::of_ip(ip.to_ipv6_compatible().into()), zone);
        }
        let own = Zone::of_ip(Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low).into());
        prop_assert!(own.is_none() || own == Some(Zone::Private));
    }

    #[test]
    fn only_global_unicast_is_public(ip in any_v6()) {
        let zone = Zone::of_ip(ip.into());
        let embeds = ip.segments()[0] == 0 || ip.segments()[..2] == [0x64, 0xff9b];
        if zone == Some(Zone::Public) {
            prop_assert!(embeds || ip.segments()[0] >> 13 == 1, "{}", ip);
            prop_assert!(!ip.is_unique_local() && !ip.is_unicast_link_local() && !ip.is_multicast());
        }
        if ip.is_unicast_link_local() || ip.is_multicast() || ip.is_unspecified() {
            prop_assert_eq!(zone, None);
        }
        if ip.is_unique_local() {
            prop_assert!(matches!(zone, None | Some(Zone::Private)));
        }
    }

    #[test]
    fn who_is_farther_reaches_less(ip in any_v6(), v4 in any_v4()) {
        for ip in [IpAddr::from(ip), v4.into()] {
            let reaches = |zone| AddressScope::AtLeast(zone).admit(ip).is_ok();
            prop_assert!(reaches(Zone::Private) || !reaches(Zone::Public));
            prop_assert!(reaches(Zone::Loopback) || !reaches(Zone::Private));
            prop_assert!(reaches(Zone::Loopback) || AddressScope::Loopback.admit(ip).is_err());
        }
    }
}
