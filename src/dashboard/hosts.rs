//! The names that this machine may be called by in a `Host` header.
//!
//! A web site whose name has been made to point here ("DNS rebinding") comes with its own name. Names that anybody on the
//! network can answer for, such as those in `.local`, are ours only if they are this machine's own.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crate::{Error, Result};

/// Our names.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    /// Whether only this machine can connect: then only its names for itself are taken.
    loopback: bool,
    /// In lower case.
    names: Arc<[String]>,
}

impl Hosts {
    /// For a listener on this address; `given` are further names, as the user calls the machine.
    ///
    /// # Errors
    /// If a given name is none.
    pub(super) fn new(listen: IpAddr, given: &[String]) -> Result<Self> {
        let loopback = listen.to_canonical().is_loopback();
        let mut names = Vec::new();
        for name in given {
            match plain(name) {
                Some(name) => names.push(name),
                None => {
                    return Err(Error::input(format!(
                        "--host-name {}: expected a name or address without port, such as cam07.lab.example.org",
                        name.escape_debug()
                    )));
                }
            }
        }
        if !loopback {
            let host = read("/proc/sys/kernel/hostname");
            names.extend(own_names(host.trim(), &read("/etc/hosts")));
        }
        Ok(Self { loopback, names: names.into() })
    }

    /// Whether a `Host` header's value is this machine.
    pub(super) fn are(&self, host: &str) -> bool {
        let Some((name, port)) = split(host) else { return false };
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return false;
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
        match address.parse::<IpAddr>() {
            Ok(address) if !self.loopback || address.to_canonical().is_loopback() => true,
            _ => name == "localhost" || self.names.contains(&name),
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Name and port of a `Host`.
fn split(host: &str) -> Option<(&str, Option<&str>)> {
    if host.starts_with('[') {
        let (address, rest) = host.split_at(host.find(']')? + 1);
        address.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?;
        return if rest.is_empty() {
            Some((address, None))
        } else {
            Some((address, Some(rest.strip_prefix(':')?)))
        };
    }
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    (!name.is_empty()).then_some((name, port))
}

/// A name in lower case, if it is one.
fn plain(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    if name.parse::<Ipv6Addr>().is_ok() {
        return Some(format!("[{name}]"));
    }
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    name.split('.').all(label).then_some(name)
}

/// What a host of this name is called: by it, by its first part, by that in `.local`, and by the full names that
/// `/etc/hosts` has for it.
fn own_names(host: &str, hosts: &str) -> Vec<String> {
    let Some(host) = plain(host) else { return Vec::new() };
    let first = host.split('.').next().unwrap_or_default().to_owned();
    if first == "localhost" {
        return Vec::new();
    }
    let mut names = vec![format!("{first}.local")];
    for line in hosts.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let on_line = || line.split_whitespace().skip(1).filter_map(plain);
        if on_line().any(|name| name == host || name == first) {
            names.extend(on_line().filter(|name| name.split('.').next() == Some(&first)));
        }
    }
    names.extend([first, host]);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(loopback: bool, given: &[&str]) -> Hosts {
        let listen = if loopback { [127, 0, 0, 1] } else { [0, 0, 0, 0] };
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        let mut hosts = Hosts::new(listen.into(), &given).unwrap();
        if !loopback {
            let table = "127.0.1.1 cam07.lab.uni.edu cam07 # this one\n10.0.0.9 other.lab.uni.edu other\n";
            let own = own_names("Cam07", table);
            hosts.names = given.into_iter().chain(own).collect();
        }
        hosts
    }

    #[test]
    fn on_the_network_addresses_and_own_names_are_ours() {
        let hosts = hosts(false, &["eye.example"]);
        for ours in [
            "127.0.0.1:8077",
            "localhost",
            "[::1]:80",
            "[fe80::1]",
            "192.168.1.7:8077",
            "cam07",
            "CAM07:8077",
            "cam07.local:8077",
            "cam07.local.",
            "cam07.lab.uni.edu:8077",
            "eye.example",
        ] {
            assert!(hosts.are(ours), "{ours}");
        }
        for foreign in [
            "",
            "evil.example",
            "evil.example:8077",
            "attacker.local:8077",
            "attacker",
            "other.lab.uni.edu",
            "127.0.0.1.evil.example",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "[cam07]",
            "localhost:x",
            ".local",
            "a.cam07.local",
            "127.0.0.1@evil",
            "evil.example.",
        ] {
            assert!(!hosts.are(foreign), "{foreign}");
        }
    }

    #[test]
    fn on_loopback_only_loopback_is_ours_and_what_the_user_names() {
        let hosts = hosts(true, &["Proxy.example", "10.0.0.1"]);
        for ours in ["127.0.0.1:8077", "127.8.0.1", "localhost:8077", "[::1]", "proxy.example", "10.0.0.1:80"]
        {
            assert!(hosts.are(ours), "{ours}");
        }
        let own = read("/proc/sys/kernel/hostname");
        for foreign in ["attacker.local:8077", "attacker", "192.168.1.7", own.trim(), "[fe80::1]"] {
            assert!(foreign == "localhost" || !hosts.are(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_given_name_is_a_name() {
        let new = |name: &str| Hosts::new([127, 0, 0, 1].into(), &[name.to_owned()]);
        for name in ["cam07", "cam07.lab.uni.edu", "cam07.local", "::1"] {
            assert!(new(name).is_ok(), "{name}");
        }
        for name in ["", "a..b", "cam07:8077", "http://cam07", "*", "a b", "\u{1b}[31m"] {
            let error = new(name).unwrap_err();
            assert!(error.exit_code() == 2 && !error.to_string().contains('\u{1b}'), "{name}");
        }
    }
}
