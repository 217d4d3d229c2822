//! Connections that cannot be held for nothing: each has a place among the [`Places`], and each wait an end.
//!
//! The head of a request must come within [`Timeouts::head`] of its first byte, or of the connection's beginning, however
//! many bytes trickle in; its body within the same again. Between two requests a connection may rest for
//! [`Timeouts::rest`]. Only an answer that is being worked out is waited for as long as it takes, and while it is sent, the
//! other end must take something every [`Timeouts::deaf`].

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::extract::connect_info::Connected;
use axum::http::header;
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use futures_core::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};

use super::visitors::{Answering, Places, Visitor};

/// How long is waited for the other end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For a request's head, and then for its body.
    pub(super) head: Duration,
    /// Between two requests.
    pub(super) rest: Duration,
    /// For the other end to take more of an answer.
    pub(super) deaf: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let [head, rest, deaf] = [10, 30, 30].map(Duration::from_secs);
        Self { head, rest, deaf }
    }
}

/// A listener whose connections have a place.
pub(super) struct Bounded {
    listener: TcpListener,
    places: Places,
    timeouts: Timeouts,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, timeouts: Timeouts) -> Self {
        Self { listener, places: Places::default(), timeouts }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // Who has too many connections finds this one closed.
            if let Some(visitor) = self.places.enter(address.ip()) {
                // Without it small answers wait for the next acknowledgement; if it fails, they do.
                let _ = stream.set_nodelay(true);
                return (Connection::new(stream, visitor, self.timeouts), address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The connection that a request came on, as requests know it.
#[derive(Clone, Debug)]
pub(super) struct Guest {
    pub(super) visitor: Arc<Visitor>,
    timeouts: Timeouts,
}

impl Connected<IncomingStream<'_, Bounded>> for Guest {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        let connection = stream.io();
        Self { visitor: Arc::clone(&connection.visitor), timeouts: connection.timeouts }
    }
}

/// A connection with its place.
pub(super) struct Connection {
    stream: TcpStream,
    visitor: Arc<Visitor>,
    timeouts: Timeouts,
    /// When it is given up for want of a request.
    request: Pin<Box<Sleep>>,
    /// Whether a request's head has begun to come.
    begun: bool,
    /// Answers that had ended when it was last looked.
    answered: usize,
    /// When it is given up because nothing can be sent.
    deaf: Pin<Box<Sleep>>,
}

impl Connection {
    fn new(stream: TcpStream, visitor: Arc<Visitor>, timeouts: Timeouts) -> Self {
        Self {
            stream,
            visitor,
            timeouts,
            request: Box::pin(sleep(timeouts.head)),
            begun: true,
            answered: 0,
            deaf: Box::pin(sleep(timeouts.deaf)),
        }
    }

    /// Whether a request has been waited for in vain. `moved`: something has just come.
    fn is_given_up(&mut self, cx: &mut Context<'_>, moved: bool) -> bool {
        if self.visitor.is_answered_just_now() {
            return false;
        }
        let now = Instant::now();
        if self.answered != self.visitor.answered() {
            self.answered = self.visitor.answered();
            self.begun = false;
            self.request.as_mut().reset(now + self.timeouts.rest);
        }
        if moved && !self.begun {
            self.begun = true;
            self.request.as_mut().reset(now + self.timeouts.head);
        }
        self.request.as_mut().poll(cx).is_ready()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let moved = buffer.filled().len() > before;
        if self.visitor.is_sent_away(cx) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if self.is_given_up(cx, moved) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        outcome
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if outcome.is_ready() {
            let now = Instant::now();
            let Timeouts { rest, deaf, .. } = self.timeouts;
            self.deaf.as_mut().reset(now + deaf);
            // The rest of an answer that has ended is still on its way.
            if !self.begun {
                self.request.as_mut().reset(now + rest);
            }
        } else if self.deaf.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The request with a body that must come in time; one that does not reads as cut off.
pub(super) fn body_in_time(request: Request, guest: &Guest) -> Request {
    let timeouts = guest.timeouts.head;
    request.map(|body| {
        if body.is_end_stream() {
            return body;
        }
        let late = Box::pin(sleep(timeouts));
        Body::from_stream(InTime { data: body.into_data_stream(), late })
    })
}

struct InTime {
    data: BodyDataStream,
    late: Pin<Box<Sleep>>,
}

impl Stream for InTime {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.data).poll_next(cx);
        if next.is_pending() && self.late.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        next.map(|next| next.map(|data| data.map_err(io::Error::other)))
    }
}

/// The response, under way until its body has been sent or given up.
pub(super) fn until_sent(mut response: Response, answering: Answering) -> Response {
    let length = response.body().size_hint().exact();
    if length == Some(0) {
        return response;
    }
    if let Some(length) = length {
        // A body in pieces does not tell its length by itself.
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    response.map(|body| Body::from_stream(Sending { data: body.into_data_stream(), _answering: answering }))
}

struct Sending {
    data: BodyDataStream,
    _answering: Answering,
}

impl Stream for Sending {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.data).poll_next(cx)
    }
}
