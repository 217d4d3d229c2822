//! The service manager: systemd's notification protocol, without its library.
//!
//! The manager gives a datagram socket in `NOTIFY_SOCKET`; messages are lines `KEY=value`. Without it (a terminal) all
//! calls do nothing. With `WatchdogSec=` in the unit, the program must say that it is alive at least every
//! `WATCHDOG_USEC`; who calls [`ServiceManager::alive`] decides what "alive" means: the live path, when it has done a
//! frame.

use std::env;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

/// The line to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// As the environment says. An address that cannot be used counts as none, with a warning.
    pub fn from_env() -> Self {
        let variable = |name| env::var_os(name);
        let text = |name| env::var(name).ok();
        let Some(address) = variable("NOTIFY_SOCKET") else { return Self::default() };
        // The watchdog may be meant for another process of the service.
        let for_us = text("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let period = text("WATCHDOG_USEC").filter(|_| for_us).and_then(|usec| usec.parse().ok());
        Self::connect(address.as_bytes(), period.map(Duration::from_micros)).unwrap_or_else(|error| {
            log::warn!(
                "the service manager cannot be notified: NOTIFY_SOCKET {}: {error}",
                address.display()
            );
            Self::default()
        })
    }

    /// Notifies the socket at `address`, a path or, with `@` before it, a name in the abstract space.
    pub fn connect(address: &[u8], watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match address {
            #[cfg(target_os = "linux")]
            [b'@', name @ ..] => {
                <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)?
            }
            path => SocketAddr::from_pathname(Path::new(std::ffi::OsStr::from_bytes(path)))?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not hold up the live path.
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Some((socket, address)), watchdog: watchdog.filter(|period| !period.is_zero()) })
    }

    /// The service has started.
    pub fn ready(&self) {
        self.notify("READY=1");
    }

    /// The service is stopping.
    pub fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    /// The service is alive: feeds the watchdog, if one is asked for.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            self.notify("WATCHDOG=1");
        }
    }

    /// One line for `systemctl status`.
    pub fn status(&self, line: &str) {
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
        self.notify(&format!("STATUS={line}"));
    }

    /// How often the watchdog wants to hear from us at the very least; half of it is a good habit.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    fn notify(&self, message: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(message.as_bytes(), address)
        {
            log::debug!("the service manager was not told {message}: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 1000];
        let len = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    fn conversation(manager: &UnixDatagram, address: &[u8]) {
        manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let service = ServiceManager::connect(address, Some(Duration::from_secs(5))).unwrap();
        assert_eq!(service.watchdog(), Some(Duration::from_secs(5)));
        service.ready();
        assert_eq!(received(manager), "READY=1");
        service.alive();
        assert_eq!(received(manager), "WATCHDOG=1");
        service.status("12 categories\nREADY=0");
        assert_eq!(received(manager), "STATUS=12 categories READY=0");
        service.stopping();
        assert_eq!(received(manager), "STOPPING=1");
    }

    #[test]
    fn a_manager_at_a_path_hears_every_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        conversation(&UnixDatagram::bind(&path).unwrap(), path.as_os_str().as_bytes());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_manager_in_the_abstract_space_hears_every_message() {
        let name = format!("oupn-edge-test-{}", std::process::id());
        let address = <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name).unwrap();
        conversation(&UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}").as_bytes());
    }

    #[test]
    fn without_a_manager_nothing_happens_and_no_watchdog_is_fed() {
        let nobody = ServiceManager::default();
        nobody.ready();
        nobody.alive();
        assert_eq!(nobody.watchdog(), None);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        ServiceManager::connect(path.as_os_str().as_bytes(), None).unwrap().alive();
        assert_eq!(manager.recv(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(manager);
        ServiceManager::connect(path.as_os_str().as_bytes(), None).unwrap().ready();
    }
}
