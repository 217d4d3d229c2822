//! Bytes from threads into answers, through a short queue.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use futures_core::Stream;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The receiving end of a queue as a body.
struct Pieces(Receiver<io::Result<Bytes>>);

impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// A body that is fed through the sender; it ends when the sender is dropped.
pub(super) fn body(pieces: usize) -> (Sender<io::Result<Bytes>>, Body) {
    let (sender, receiver) = channel(pieces);
    (sender, Body::from_stream(Pieces(receiver)))
}

/// Writes into a body from a thread that may wait. An error when nobody listens any more.
pub(super) struct Writer {
    pieces: Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

/// Bytes that are sent together.
const PIECE: usize = 64 << 10;

impl Writer {
    pub(super) fn new(pieces: Sender<io::Result<Bytes>>) -> Self {
        Self { pieces, buffer: Vec::with_capacity(PIECE) }
    }

    /// Breaks the answer off, so that nobody takes it for whole.
    pub(super) fn fail(self, error: &crate::Error) {
        // If nobody listens, nobody is misled.
        let _ = self.pieces.blocking_send(Err(io::Error::other(error.to_string())));
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE));
        self.pieces.blocking_send(Ok(piece.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
