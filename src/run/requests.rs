//! What watchers ask of a recording: a short queue that the live path empties between two frames.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::{Error, Result};

/// How many requests may wait for the live path.
const WAITING: usize = 8;

/// What a watcher can ask of the live path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Look at nothing until [`Command::Resume`].
    Pause,
    /// Go on.
    Resume,
    /// Pause or go on, whichever is the other.
    Toggle,
    /// Remove the last records and return the learner to a checkpoint from before.
    Forget(Duration),
    /// Write a checkpoint now.
    Checkpoint,
    /// End in an orderly way.
    Stop,
}

/// A command with who gave it and where the answer goes.
#[derive(Debug)]
pub struct Request {
    /// What.
    pub command: Command,
    /// Who: `signal`, `socket`, `page`.
    pub by: &'static str,
    /// One sentence on what was done, or why not.
    pub answer: Option<SyncSender<Result<String>>>,
}

/// The sending end of the queue of requests.
#[derive(Clone, Debug)]
pub struct Requests(SyncSender<Request>);

impl Requests {
    /// The queue's two ends.
    pub fn queue() -> (Self, Receiver<Request>) {
        let (sender, receiver) = sync_channel(WAITING);
        (Self(sender), receiver)
    }

    /// Puts a command into the queue without waiting for what becomes of it.
    pub fn send(&self, command: Command, by: &'static str) -> Result<()> {
        self.put(Request { command, by, answer: None })
    }

    /// Puts a command into the queue and waits for the answer.
    pub fn ask(&self, command: Command, by: &'static str, timeout: Duration) -> Result<String> {
        let (answer, answered) = sync_channel(1);
        self.put(Request { command, by, answer: Some(answer) })?;
        answered
            .recv_timeout(timeout)
            .unwrap_or_else(|_| Err(Error::Device("the recording does not answer; try again".into())))
    }

    fn put(&self, request: Request) -> Result<()> {
        self.0.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => Error::Device("too many requests are waiting; try again".into()),
            TrySendError::Disconnected(_) => Error::Device("the recording has ended".into()),
        })
    }
}
