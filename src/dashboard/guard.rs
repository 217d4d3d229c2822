//! What stands before every request, and the headers behind every answer.
//!
//! - **Host** must be an address, `localhost`, a name without dots or one in `.local`. A foreign web site whose name has
//!   been made to point here ("DNS rebinding") comes with its own name and is refused.
//! - **Token**, unless listening on loopback.
//! - **Other web sites**: requests that a browser marks as coming from another site (`Sec-Fetch-Site`, `Origin`) are
//!   refused, but for following a link to the page itself. What changes something must be a POST of JSON.
//! - Addresses are short, bodies smaller than [`LONGEST_BODY`].

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::token::Token;

/// The longest body of a request, in bytes.
pub(super) const LONGEST_BODY: usize = 1024;

/// The longest address, in bytes.
const LONGEST_URI: usize = 1024;

/// Everything from here alone; no frame around the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The middleware.
pub(super) async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let mut response = match check(shared.token.as_ref(), request.method(), request.uri(), request.headers())
    {
        Verdict::Pass => next.run(request).await,
        Verdict::Refuse(status, reason) => (status, format!("{reason}\n")).into_response(),
        Verdict::Welcome(cookie) => welcome(&cookie),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in [
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Refuse(StatusCode, &'static str),
    /// The token was right: it goes into a cookie and out of the address.
    Welcome(String),
}

fn check(token: Option<&Token>, method: &Method, uri: &Uri, headers: &HeaderMap) -> Verdict {
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    if uri.path_and_query().map_or(0, |path| path.as_str().len()) > LONGEST_URI {
        return Verdict::Refuse(StatusCode::URI_TOO_LONG, "the address is too long");
    }
    // Before anything of the body is read; one without a length is cut off while reading.
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if length.is_some_and(|length| length > LONGEST_BODY as u64) {
        return Verdict::Refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long");
    }
    let Some(host) = text(header::HOST).filter(|host| is_ours(host)) else {
        return Verdict::Refuse(StatusCode::MISDIRECTED_REQUEST, "open the page by the device's address");
    };
    if let Some(origin) = text(header::ORIGIN)
        && origin.strip_prefix("http://") != Some(host)
    {
        return Verdict::Refuse(StatusCode::FORBIDDEN, "another site may not ask this");
    }
    let fetch = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let navigates =
        *method == Method::GET && fetch("sec-fetch-mode") == Some("navigate") && uri.path() == "/";
    if !matches!(fetch("sec-fetch-site"), None | Some("same-origin" | "none")) && !navigates {
        return Verdict::Refuse(StatusCode::FORBIDDEN, "another site may not ask this");
    }
    let Some(token) = token else { return Verdict::Pass };
    if text(header::COOKIE).is_some_and(|cookies| token.is_in_cookies(cookies))
        || text(header::AUTHORIZATION)
            .and_then(|value| value.strip_prefix("Bearer "))
            .is_some_and(|shown| token.is(shown))
    {
        return Verdict::Pass;
    }
    let shown = uri.query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("token=")));
    match shown {
        Some(shown) if *method == Method::GET && uri.path() == "/" && token.is(shown) => {
            Verdict::Welcome(token.cookie())
        }
        _ => Verdict::Refuse(
            StatusCode::UNAUTHORIZED,
            "this page needs the token that oupn-edge printed when it started: open the address printed there",
        ),
    }
}

fn welcome(cookie: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_static("/"));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        headers.insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Whether a `Host` can be this machine and not somebody's web site.
fn is_ours(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port.strip_prefix(':')));
    }
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    if port.is_some() && !is_port(port) {
        return false;
    }
    let plain = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    name.parse::<IpAddr>().is_ok() || plain(name) || name.strip_suffix(".local").is_some_and(plain)
}

fn is_port(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(
        token: Option<&Token>,
        method: Method,
        uri: &str,
        headers: &[(&'static str, &str)],
    ) -> Verdict {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        check(token, &method, &uri.parse().unwrap(), &map)
    }

    fn refused(verdict: Verdict) -> Option<u16> {
        if let Verdict::Refuse(status, _) = verdict { Some(status.as_u16()) } else { None }
    }

    #[test]
    fn a_host_is_an_address_or_a_local_name() {
        for ours in [
            "127.0.0.1:8077",
            "localhost",
            "[::1]:80",
            "[fe80::1]",
            "192.168.1.7:8077",
            "head-camera-7",
            "orin.local:8077",
        ] {
            assert!(is_ours(ours), "{ours}");
        }
        for foreign in [
            "",
            "evil.example",
            "evil.example:8077",
            "127.0.0.1.evil.example",
            "[::1",
            "[::1]x",
            "localhost:x",
            ".local",
            "a.b.local",
            "127.0.0.1@evil",
        ] {
            assert!(!is_ours(foreign), "{foreign}");
        }
    }

    #[test]
    fn other_sites_are_kept_out() {
        let host = ("host", "127.0.0.1:8077");
        let get =
            |headers: &[(&'static str, &str)]| refused(verdict(None, Method::GET, "/api/status", headers));
        assert_eq!(get(&[host]), None);
        assert_eq!(get(&[]), Some(421));
        assert_eq!(get(&[("host", "evil.example")]), Some(421));
        assert_eq!(get(&[host, ("origin", "http://evil.example")]), Some(403));
        assert_eq!(get(&[host, ("origin", "null")]), Some(403));
        assert_eq!(
            get(&[host, ("origin", "http://127.0.0.1:9999")]),
            Some(403),
            "another port is another site"
        );
        assert_eq!(get(&[host, ("origin", "http://127.0.0.1:8077")]), None);
        assert_eq!(get(&[host, ("sec-fetch-site", "cross-site")]), Some(403));
        assert_eq!(get(&[host, ("sec-fetch-site", "same-site")]), Some(403));
        assert_eq!(get(&[host, ("sec-fetch-site", "same-origin")]), None);
        let link = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(
            refused(verdict(None, Method::GET, "/", &link)),
            None,
            "a link to the page may be followed"
        );
        assert_eq!(refused(verdict(None, Method::POST, "/", &link)), Some(403));
        assert_eq!(get(&link), Some(403));
    }

    #[test]
    fn without_the_token_nothing_is_shown() {
        let token = Token::random().unwrap();
        let text = token.reveal().to_owned();
        let host = ("host", "192.168.1.7:8077");
        let ask =
            |uri: &str, headers: &[(&'static str, &str)]| verdict(Some(&token), Method::GET, uri, headers);
        assert_eq!(refused(ask("/", &[host])), Some(401));
        assert_eq!(refused(ask("/healthz", &[host])), Some(401));
        assert_eq!(refused(ask("/?token=0123456789abcdef0123456789abcdef", &[host])), Some(401));
        assert_eq!(
            refused(ask(&format!("/api/status?token={text}"), &[host])),
            Some(401),
            "only the page takes it so"
        );
        assert_eq!(ask(&format!("/?token={text}"), &[host]), Verdict::Welcome(token.cookie()));
        assert_eq!(
            ask("/api/status", &[host, ("cookie", &format!("oupn_edge_token={text}"))]),
            Verdict::Pass
        );
        assert_eq!(ask("/metrics", &[host, ("authorization", &format!("Bearer {text}"))]), Verdict::Pass);
        assert_eq!(refused(ask("/metrics", &[host, ("authorization", "Bearer no")])), Some(401));
    }

    #[test]
    fn long_addresses_are_refused() {
        let long = format!("/?a={}", "x".repeat(LONGEST_URI));
        assert_eq!(refused(verdict(None, Method::GET, &long, &[("host", "localhost")])), Some(414));
    }
}
