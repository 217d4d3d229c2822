//! A file from a server to the disk: from its beginning, or from where an earlier download was cut off.
//!
//! A server is not trusted: it may send too much, too little or nothing, and it may have another version by now. What came is
//! checked by whoever asked for it.

use std::io::Read as _;
use std::time::Duration;

use ureq::http::Response;

use super::digest::Expected;
use super::partial::Partial;
use super::web::{Answer, Web, header};
use crate::words::bytes;
use crate::{Error, Result};

/// What a server is allowed.
#[derive(Debug)]
pub(super) struct Limits {
    /// How long it may be silent.
    pub(super) timeout: Duration,
    /// How many bytes it may send.
    pub(super) bytes: u64,
}

/// What is known of a file that has come.
#[derive(Debug)]
pub(super) struct Downloaded {
    /// What its SHA-256 should be.
    pub(super) expected: Expected,
    /// The commit that it is of, on the hub.
    pub(super) commit: Option<String>,
    /// Where it came from.
    pub(super) url: String,
    /// Its length.
    pub(super) bytes: u64,
}

/// Brings a file to the disk. `expected` is what is known of its SHA-256; without it a server must say it.
pub(super) fn download(
    url: &str,
    partial: &mut Partial,
    limits: &Limits,
    expected: Option<Expected>,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Downloaded> {
    let web = Web::new(limits.timeout)?;
    let mut begun = partial.begun().filter(|(length, _)| *length <= limits.bytes);
    let mut answer = web.get(url, begun.as_ref())?;
    let mut whole = begun.as_ref().is_some_and(|(length, _)| is_whole(&answer.response, *length));
    if answer.response.status() == 416 && !whole {
        // What is there is longer than the file.
        begun = None;
        answer = web.get(url, None)?;
        whole = false;
    }
    let Answer { response, host, expected: said, commit } = answer;
    let length = match (response.status().as_u16(), &begun) {
        (416, Some((length, _))) if whole => Some(*length),
        (206, Some((length, _))) => {
            Some(*length).filter(|length| range(&response).is_some_and(|at| at.0 == *length))
        }
        (200, _) => Some(0),
        _ => None,
    };
    let Some(mut length) = length else { return Err(refused(url, &response)) };
    let expected = expected.or(said).ok_or_else(|| {
        Error::Network(format!(
            "{host} does not say the file's SHA-256 (in x-linked-etag, as the hub does): give it with --sha256, or use another server"
        ))
    })?;
    let downloaded =
        |bytes| Downloaded { expected: expected.clone(), commit: commit.clone(), url: url.to_owned(), bytes };
    if whole {
        return Ok(downloaded(length));
    }

    let rest = response.body().content_length();
    let total = rest.map(|rest| rest.saturating_add(length));
    let too_much = |partial: &Partial| {
        partial.discard();
        Error::Network(format!(
            "{host} sends more than {}, and the published file is shorter; nothing was kept. Check --from",
            bytes(limits.bytes)
        ))
    };
    if total.is_some_and(|total| total > limits.bytes) {
        return Err(too_much(partial));
    }
    if length > 0 {
        log::info!("going on after the first {}", bytes(length));
    }
    partial.go_on(length, header(response.headers(), "etag"))?;
    let cut = |length: u64, reason: &str| {
        let of = total.map(|total| format!(" of {}", bytes(total))).unwrap_or_default();
        Error::Network(format!(
            "the download from {host} broke off after {}{of} ({reason}): run the command again, and it goes on from there if the \
             server can",
            bytes(length)
        ))
    };
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(more) => {
                length += more as u64;
                if length > limits.bytes {
                    return Err(too_much(partial));
                }
                partial.add(&buffer[..more])?;
                progress(length, total);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(cut(length, &web.reason(&error))),
        }
    }
    if total.is_some_and(|total| length < total) {
        return Err(cut(length, "the connection was closed"));
    }
    Ok(downloaded(length))
}

/// First byte and whole length in an answer of a part of a file: `bytes 100-199/200`.
fn range<T>(response: &Response<T>) -> Option<(u64, u64)> {
    let text = header(response.headers(), "content-range")?.strip_prefix("bytes ")?;
    let (part, whole) = text.split_once('/')?;
    Some((part.split_once('-')?.0.parse().ok()?, whole.parse().ok()?))
}

/// Whether a server says that nothing follows what is there: `bytes */200`.
fn is_whole<T>(response: &Response<T>, length: u64) -> bool {
    let range = header(response.headers(), "content-range");
    response.status() == 416 && range == Some(&format!("bytes */{length}"))
}

fn refused<T>(url: &str, response: &Response<T>) -> Error {
    let status = response.status();
    let advice = match status.as_u16() {
        404 | 410 => "the publisher may have moved it, or --from names another kind of server",
        401 | 403 => "the server wants to know who asks, or does not serve this file",
        429 | 500..=599 => "try again later",
        _ => "check --from, or try again later",
    };
    Error::Network(format!("{url} cannot be had, the server says {status}: {advice}"))
}
