//! One GET over HTTP or HTTPS, with redirects followed by hand: the hub says a file's SHA-256 in the answer that sends one on to
//! where the file lies.
//!
//! TLS is rustls with Mozilla's certificates compiled in, so that a cross build needs no OpenSSL and a bare device no files;
//! `SSL_CERT_FILE` names others, for networks that open connections. Proxies are taken from `HTTPS_PROXY` and the like.

use std::error::Error as _;
use std::time::Duration;

use ureq::http::{HeaderMap, Response};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use super::digest::Expected;
use crate::words::duration;
use crate::{Error, Result};

/// How often a server may send one on.
const MOST_REDIRECTS: usize = 5;

/// However slowly it comes, a file must be there by then.
const LONGEST: Duration = Duration::from_secs(3600);

/// What is asked with.
#[derive(Debug)]
pub(super) struct Web {
    agent: Agent,
    timeout: Duration,
}

/// The last answer, with what the ones before it said.
#[derive(Debug)]
pub(super) struct Answer {
    /// The last answer.
    pub(super) response: Response<Body>,
    /// The server that gave it.
    pub(super) host: String,
    /// The file's SHA-256, if a server said it.
    pub(super) expected: Option<Expected>,
    /// The commit of the repository that the file is of, if a server said it.
    pub(super) commit: Option<String>,
}

impl Web {
    /// `timeout` is how long a server may be silent.
    pub(super) fn new(timeout: Duration) -> Result<Self> {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(timeout))
            .timeout_connect(Some(timeout))
            .timeout_recv_response(Some(timeout))
            .timeout_per_read(Some(timeout))
            .timeout_global(Some(LONGEST))
            .user_agent(concat!("oupn-edge/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .tls_config(TlsConfig::builder().root_certs(roots()?).build())
            .build()
            .new_agent();
        Ok(Self { agent, timeout })
    }

    /// Asks for a file, or if the version is still that of the mark, for what follows its first bytes.
    pub(super) fn get(&self, url: &str, begun: Option<&(u64, String)>) -> Result<Answer> {
        let mut url = url.to_owned();
        let (mut expected, mut commit) = (None, None);
        for _ in 0..=MOST_REDIRECTS {
            let mut request = self.agent.get(&url);
            if let Some((length, mark)) = begun {
                request = request.header("Range", format!("bytes={length}-")).header("If-Range", mark);
            }
            let response = request.call().map_err(|error| self.unreachable(&url, &error))?;
            expected = expected.or_else(|| Expected::tag(header(response.headers(), "x-linked-etag")?));
            commit = commit.or_else(|| commit_in(response.headers()));
            let next = match response.status().as_u16() {
                301 | 302 | 303 | 307 | 308 => header(response.headers(), "location").map(str::to_owned),
                _ => None,
            };
            match next {
                None => return Ok(Answer { response, host: host(&url).to_owned(), expected, commit }),
                Some(next) => url = joined(&url, &next)?,
            }
        }
        Err(Error::Network(format!(
            "{} sends one on and on, without an end; it is set up wrongly",
            host(&url)
        )))
    }

    fn unreachable(&self, url: &str, error: &ureq::Error) -> Error {
        let reason = match error {
            ureq::Error::HostNotFound => "no machine of this name was found".to_owned(),
            ureq::Error::Timeout(_) => format!("no answer within {}", duration(self.timeout.as_secs_f64())),
            ureq::Error::Io(error) => self.reason(error),
            error => error.to_string(),
        };
        let advice = match error {
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => {
                "if your network checks what passes, name its certificates in SSL_CERT_FILE"
            }
            _ => "check the network, or fetch the model on another machine and copy it here",
        };
        Error::Network(format!("{} cannot be reached ({reason}): {advice}", host(url)))
    }

    /// Why nothing more came, in words.
    pub(super) fn reason(&self, error: &std::io::Error) -> String {
        if matches!(error.kind(), std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock) {
            return format!("nothing came for {}", duration(self.timeout.as_secs_f64()));
        }
        let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        text.split(" (os error").next().unwrap_or_default().replace('\n', " ")
    }
}

/// The certificates that are believed.
fn roots() -> Result<RootCerts> {
    let Some(path) = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()) else {
        return Ok(RootCerts::WebPki);
    };
    let text = std::fs::read(&path)
        .map_err(|error| Error::io(&path, error).expecting("certificates, as SSL_CERT_FILE says"))?;
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let certificates: Vec<_> = parse_pem(&text).filter_map(certificate).collect();
    if certificates.is_empty() {
        return Err(Error::input(format!(
            "SSL_CERT_FILE={}: there is no certificate in it; expected a PEM file",
            path.to_string_lossy()
        )));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

/// A header's text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn commit_in(headers: &HeaderMap) -> Option<String> {
    let commit = header(headers, "x-repo-commit")?;
    let is_commit = commit.len() == 40 && commit.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_commit.then(|| commit.to_owned())
}

/// The part of an address between `//` and the path, and before it.
fn split(url: &str) -> (&str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    (scheme, rest.split(['/', '?', '#']).next().unwrap_or(rest))
}

/// The server in an address.
pub(super) fn host(url: &str) -> &str {
    split(url).1
}

/// Where a server sends one on to. Never from an encrypted connection to an open one.
fn joined(url: &str, to: &str) -> Result<String> {
    let (scheme, host) = split(url);
    let next = if to.starts_with("https://") || to.starts_with("http://") {
        to.to_owned()
    } else if to.starts_with("//") {
        format!("{scheme}:{to}")
    } else if to.starts_with('/') {
        format!("{scheme}://{host}{to}")
    } else {
        return Err(Error::Network(format!("{host} sends one on to `{to}`, which is no address")));
    };
    if scheme == "https" && !next.starts_with("https://") {
        return Err(Error::Network(format!(
            "{host} sends one on to {next}, over a connection that is not encrypted; this is not followed"
        )));
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn being_sent_on_keeps_the_connection_as_safe_as_it_was() {
        let joined = |url, to| joined(url, to).map_err(|error| error.to_string());
        let hub = "https://hub.example/timm/x/resolve/main/model.safetensors";
        assert_eq!(joined(hub, "https://cdn.example/abc?d=e").unwrap(), "https://cdn.example/abc?d=e");
        assert_eq!(joined(hub, "/other/x").unwrap(), "https://hub.example/other/x");
        assert_eq!(joined(hub, "//cdn.example/x").unwrap(), "https://cdn.example/x");
        assert!(joined(hub, "http://cdn.example/x").unwrap_err().contains("not encrypted"));
        assert!(joined(hub, "ftp://cdn.example/x").unwrap_err().contains("no address"));
        assert_eq!(joined("http://10.0.0.1:80/x", "/y").unwrap(), "http://10.0.0.1:80/y");
        assert_eq!(host("http://10.0.0.1:80?x"), "10.0.0.1:80");
    }
}
