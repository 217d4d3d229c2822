//! A small HTTP server in the test's own process, which answers as it is told, well or badly.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    headers: Vec<(String, String)>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The first byte that is wanted.
    pub(crate) fn from(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// What happens after the bytes that are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Then {
    /// The connection is closed, whatever was promised.
    Close,
    /// Nothing, until the other side goes.
    Stall,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Bytes that are sent of the body.
    sent: usize,
    then: Then,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let headers = vec![("Content-Length".to_owned(), body.len().to_string())];
        Self { status, headers, sent: body.len(), body, then: Then::Close }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sends that much of the body only, and promises all of it.
    pub(crate) fn cut(mut self, sent: usize, then: Then) -> Self {
        (self.sent, self.then) = (sent, then);
        self
    }

    /// Does not say how long it is.
    pub(crate) fn without_length(mut self) -> Self {
        self.headers.retain(|(name, _)| name != "Content-Length");
        self
    }

    /// Nothing at all, not even a first line.
    pub(crate) fn silence() -> Self {
        Self { status: 0, ..Self::new(0, "").cut(0, Then::Stall) }
    }
}

/// See the [module](self). Its threads end with the test's process.
pub(crate) struct WebServer {
    /// Its address, such as `http://127.0.0.1:40123`.
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl WebServer {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Self { url, asked }
    }

    /// Everything that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request, one answer. A client that goes away in the middle is what some tests are about.
fn serve(stream: TcpStream, log: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Reply) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let Some(first) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let split = |line: String| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    let asked = Asked { path, headers: lines.filter_map(split).collect() };
    log.lock().unwrap().push(asked.clone());
    let reply = answer(&asked);
    let mut head = format!("HTTP/1.1 {} Words\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    let mut stream = &stream;
    if reply.status > 0 && stream.write_all(head.as_bytes()).is_err() {
        return;
    }
    let written = stream.write_all(&reply.body[..reply.sent]);
    if reply.then == Then::Stall && written.is_ok() {
        // Ends when the client closes its side.
        let _ = stream.read(&mut [0]);
    }
}
