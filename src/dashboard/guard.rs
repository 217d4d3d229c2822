//! What stands before every request, and the headers behind every answer.
//!
//! - **Host** must be this machine's address or one of its names ([`hosts`](super::hosts)). A foreign web site whose name
//!   has been made to point here ("DNS rebinding") comes with its own name and is refused.
//! - **Token**, unless listening on loopback without a token file.
//! - **Other web sites**: requests that a browser marks as coming from another site (`Sec-Fetch-Site`, `Origin`) are
//!   refused, but for following a link to the page itself. What changes something must be a POST of JSON.
//! - Addresses are short, bodies smaller than [`LONGEST_BODY`].

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::connections::{self, Guest};
use super::hosts::Hosts;
use super::token::Token;

/// The longest body of a request, in bytes.
pub(super) const LONGEST_BODY: usize = 1024;

/// The longest address, in bytes.
const LONGEST_URI: usize = 1024;

/// Everything from here alone; no frame around the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The middleware.
pub(super) async fn guard(
    State(shared): State<Shared>,
    ConnectInfo(guest): ConnectInfo<Guest>,
    request: Request,
    next: Next,
) -> Response {
    let answering = guest.visitor.answer();
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let mut response = match check(shared.token.as_ref(), &shared.hosts, method, uri, headers) {
        Verdict::Refuse(status, reason) => refusal(status, reason),
        _ if !guest.visitor.let_in() => refusal(StatusCode::SERVICE_UNAVAILABLE, "too many are connected"),
        Verdict::Pass => next.run(connections::body_in_time(request, &guest)).await,
        Verdict::Welcome(cookie) => welcome(&cookie),
    };
    add_headers(&mut response);
    connections::until_sent(response, answering)
}

fn refusal(status: StatusCode, reason: &str) -> Response {
    (status, format!("{reason}\n")).into_response()
}

fn add_headers(response: &mut Response) {
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
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    Refuse(StatusCode, &'static str),
    /// The token was right: it goes into a cookie and out of the address.
    Welcome(String),
}

fn check(token: Option<&Token>, hosts: &Hosts, method: &Method, uri: &Uri, headers: &HeaderMap) -> Verdict {
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    if uri.path_and_query().map_or(0, |path| path.as_str().len()) > LONGEST_URI {
        return Verdict::Refuse(StatusCode::URI_TOO_LONG, "the address is too long");
    }
    // Before anything of the body is read; one without a length is cut off while reading.
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if length.is_some_and(|length| length > LONGEST_BODY as u64) {
        return Verdict::Refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long");
    }
    let Some(host) = text(header::HOST).filter(|host| hosts.are(host)) else {
        return Verdict::Refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "open the page by the device's address, or start oupn-edge with --host-name and this name",
        );
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
            "this page needs a token: open /?token=TOKEN; oupn-edge said where the token is when it started",
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
        let listen = if token.is_some() { [0, 0, 0, 0] } else { [127, 0, 0, 1] };
        let hosts = Hosts::new(listen.into(), &[]).unwrap();
        check(token, &hosts, &method, &uri.parse().unwrap(), &map)
    }

    fn refused(verdict: Verdict) -> Option<u16> {
        if let Verdict::Refuse(status, _) = verdict { Some(status.as_u16()) } else { None }
    }

    #[test]
    fn other_sites_are_kept_out() {
        let host = ("host", "127.0.0.1:8077");
        let get =
            |headers: &[(&'static str, &str)]| refused(verdict(None, Method::GET, "/api/status", headers));
        assert_eq!(get(&[host]), None);
        assert_eq!(get(&[]), Some(421));
        assert_eq!(get(&[("host", "evil.example")]), Some(421));
        // A name that anybody on the network can answer for, made to point here.
        let rebound = [("host", "attacker.local:8077"), ("origin", "http://attacker.local:8077")];
        assert_eq!(refused(verdict(None, Method::POST, "/api/pause", &rebound)), Some(421));
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
