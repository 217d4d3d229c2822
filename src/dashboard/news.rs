//! News for open pages: made once for all of them, by a thread of its own.
//!
//! Each piece is a server-sent event `now` with the numbers of now, the newest picture, the last merges of categories, and
//! what the ribbon and the curves gained. A page's queue holds a few pieces; when it is full the page misses some, sees the
//! hole in the frame numbers and asks for the whole state again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

use axum::body::Bytes;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::picture;
use crate::base64;
use crate::run::status::{Cursor, Status};

/// The least time between two pieces of news.
const PAUSE: Duration = Duration::from_millis(300);

/// The most: pages and proxies take a silent connection for a dead one.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// How long it takes to notice the first watcher.
const NAP: Duration = Duration::from_millis(100);

/// Pages at a time.
const MOST_WATCHERS: usize = 128;

/// Pieces that wait for a slow page.
pub(super) const QUEUE: usize = 4;

type Piece = io::Result<Bytes>;

/// Those who watch.
#[derive(Clone, Default)]
pub(super) struct Watchers(Arc<Mutex<Vec<Sender<Piece>>>>);

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watchers({})", self.count())
    }
}

impl Watchers {
    /// Takes another one, if there is room.
    pub(super) fn add(&self, watcher: Sender<Piece>) -> bool {
        let mut watchers = self.lock();
        watchers.retain(|watcher| !watcher.is_closed());
        let room = watchers.len() < MOST_WATCHERS;
        if room {
            watchers.push(watcher);
        }
        room
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn tell(&self, news: &Bytes) {
        self.lock()
            .retain(|watcher| !matches!(watcher.try_send(Ok(news.clone())), Err(TrySendError::Closed(_))));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Sender<Piece>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that makes the news; it ends when dropped, and so do its watchers' answers.
#[derive(Debug)]
pub(super) struct News {
    watchers: Watchers,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl News {
    pub(super) fn start(status: Arc<Status>) -> io::Result<Self> {
        let watchers = Watchers::default();
        let ending = Arc::new(AtomicBool::new(false));
        let (to, end) = (watchers.clone(), Arc::clone(&ending));
        let thread = std::thread::Builder::new()
            .name("page-news".to_owned())
            .spawn(move || tell(&status, &to, &end))?;
        Ok(Self { watchers, ending, thread: Some(thread) })
    }

    pub(super) fn watchers(&self) -> Watchers {
        self.watchers.clone()
    }
}

impl Drop for News {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tell(status: &Status, watchers: &Watchers, ending: &AtomicBool) {
    super::step_back();
    let mut told = Cursor::default();
    let mut silent = Duration::ZERO;
    while !ending.load(Ordering::Acquire) {
        if watchers.count() == 0 {
            std::thread::sleep(NAP);
            continue;
        }
        // Short waits, so that the end is noticed; but news without need only now and then.
        let version = status.wait_beyond(told.version, PAUSE);
        silent += PAUSE;
        if version > told.version || silent >= LONGEST_SILENCE {
            silent = Duration::ZERO;
            watchers.tell(&piece(status, &mut told));
            std::thread::sleep(PAUSE);
        }
    }
    watchers.lock().clear();
}

/// The event, encoded: the lock is held only for copying.
fn piece(status: &Status, told: &mut Cursor) -> Bytes {
    let (snapshot, ribbon_frames) = status.look(|now| {
        // After a `forget` the numbers may go back.
        if now.ribbon.back().is_none_or(|newest| Some(newest.frame) < told.frame) {
            told.frame = None;
        }
        if now.curves.back().is_none_or(|newest| Some(newest.update) < told.update) {
            told.update = None;
        }
        (now.since(told), now.ribbon.len())
    });
    let picture = snapshot.newest.as_ref().map(|seen| &seen.picture);
    let mut value = snapshot.to_json();
    value["picture"] = picture.and_then(picture::jpeg).map(|jpeg| base64(&jpeg)).into();
    value["ribbon_frames"] = ribbon_frames.into();
    told.version = snapshot.version;
    told.frame = snapshot.ribbon.back().map(|moment| moment.frame).or(told.frame);
    told.update = snapshot.curves.back().map(|update| update.update).or(told.update);
    // JSON from serde has no line ends, which would end the event's data.
    format!("event: now\ndata: {value}\n\n").into_bytes().into()
}
