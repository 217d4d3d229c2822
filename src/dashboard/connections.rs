//! A bounded number of connections, none of which may sit idle for ever.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

use super::routes::LATER;

/// Connections at a time; further ones wait in the kernel's queue. Enough for some hundred pages.
const MOST: usize = 256;

/// A connection whose other end takes nothing for this long is closed.
const DEAF: Duration = Duration::from_secs(30);

/// One on which nothing comes for this long is closed, too, unless something is sent on it meanwhile, as news are. Longer than
/// any answer takes: while one is worked out, nothing moves.
const SILENT: Duration = Duration::from_secs(LATER.as_secs() + 10);

/// A listener that accepts no more than [`MOST`] connections.
pub(super) struct Bounded {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let permit = Arc::clone(&self.room).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Without it small answers wait for the next acknowledgement; if it fails, they do.
        let _ = stream.set_nodelay(true);
        let patience = [SILENT, DEAF].map(|limit| Box::pin(sleep(limit)));
        (Connection { stream, patience, _permit: permit }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

/// A connection with its place among the [`MOST`].
pub(super) struct Connection {
    stream: TcpStream,
    /// When it is given up, for want of something to read and of being able to write.
    patience: [Pin<Box<Sleep>>; 2],
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// Something moved, or nothing has for too long in this direction.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        way: Way,
        moved: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let now = Instant::now();
        let [silent, deaf] = &mut self.patience;
        if moved.is_ready() {
            silent.as_mut().reset(now + SILENT);
            deaf.as_mut().reset(now + DEAF);
            return moved;
        }
        let patience = match way {
            Way::In => silent,
            Way::Out => deaf,
        };
        match patience.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let moved = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.watch(cx, Way::In, moved)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let moved = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, Way::Out, moved)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
