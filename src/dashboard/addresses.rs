//! Where a server can be reached: an address to listen on, such as 0.0.0.0, is none that leads anywhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The addresses to tell people: the one that is listened on, or, if that means all, the machine's own.
pub(super) fn reachable(listening: SocketAddr) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    if listening.ip().is_unspecified() {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        found.extend(own_v4(&read("/proc/self/net/fib_trie")).into_iter().map(IpAddr::V4));
        if listening.is_ipv6() {
            found.extend(own_v6(&read("/proc/self/net/if_inet6")).into_iter().map(IpAddr::V6));
        }
        if found.is_empty() {
            // No network but this machine's.
            found.push(Ipv4Addr::LOCALHOST.into());
        }
    } else {
        found.push(listening.ip());
    }
    found.into_iter().map(|address| SocketAddr::new(address, listening.port())).collect()
}

/// The addresses of the kernel's routing table that are this machine's: each is on a line above `/32 host LOCAL`.
fn own_v4(table: &str) -> Vec<Ipv4Addr> {
    let mut own = Vec::new();
    let mut last = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = last
            && !address.is_loopback()
            && !own.contains(&address)
        {
            own.push(address);
        }
    }
    own
}

/// The addresses of a list with lines of 32 hexadecimal digits, index, prefix, scope (0 is global), flags, name.
fn own_v6(list: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| {
        let mut fields = line.split_whitespace();
        let bits = u128::from_str_radix(fields.next()?, 16).ok()?;
        (fields.nth(2)? == "00").then_some(Ipv6Addr::from_bits(bits))
    };
    list.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_addresses_are_found_in_the_kernels_tables() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     +-- 127.0.0.0/8 2 0 2\n\
                     \u{20}       |-- 127.0.0.1\n           /32 host LOCAL\n     |-- 192.168.1.0\n        /24 link UNICAST\n\
                     \u{20}    |-- 192.168.1.7\n        /32 host LOCAL\n     |-- 192.168.1.255\n        /32 link BROADCAST\n\
                     Local:\n     |-- 192.168.1.7\n        /32 host LOCAL\n";
        assert_eq!(own_v4(table), [Ipv4Addr::new(192, 168, 1, 7)]);
        let list = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    fe80000000000000000000000000abcd 02 40 20 80     eth0\n\
                    20010db8000000000000000000000007 02 40 00 80     eth0\n";
        assert_eq!(own_v6(list), ["2001:db8::7".parse::<Ipv6Addr>().unwrap()]);
        assert_eq!(own_v4("nonsense\n/32 host LOCAL"), Vec::<Ipv4Addr>::new());
        assert_eq!(own_v6("nonsense\n\n1 2"), Vec::<Ipv6Addr>::new());
    }

    #[test]
    fn an_address_that_leads_somewhere_is_told_as_it_is() {
        for address in ["127.0.0.1:80", "192.168.1.7:80", "[::1]:80"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(reachable(address), [address]);
        }
        for all in ["0.0.0.0:80", "[::]:80"] {
            let found = reachable(all.parse().unwrap());
            assert!(!found.is_empty() && found.iter().all(|found| !found.ip().is_unspecified()), "{found:?}");
        }
    }
}
