//! How a recording goes, for whoever sits at the terminal: a bar with the time left where its length is known, a live line
//! otherwise; in a log, one line for each update.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::super::plain::plain;
use oupn_base::words;
use oupn_edge::run::status::{Snapshot, Status};
use oupn_edge::{Error, Result};

/// Shows how it goes until dropped.
pub(super) struct Watcher {
    ending: Arc<AtomicBool>,
    status: Arc<Status>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watcher {
    pub(super) fn start(status: Arc<Status>) -> Result<Self> {
        let ending = Arc::new(AtomicBool::new(false));
        let (end, watched) = (Arc::clone(&ending), Arc::clone(&status));
        let watch = move || {
            let bar = std::io::stderr().is_terminal().then(live_line);
            let (mut version, mut updates) = (0, 0);
            while !end.load(Ordering::Acquire) {
                version = watched.wait_beyond(version, Duration::from_millis(500));
                match &bar {
                    Some(bar) => {
                        let (message, progress) = watched.look(|now| (describe(now), now.progress));
                        show_progress(bar, progress);
                        bar.set_message(message);
                    }
                    None => updates = log_updates(&watched, updates),
                }
            }
            match bar {
                Some(bar) => bar.finish_and_clear(),
                None => drop(log_updates(&watched, updates)),
            }
        };
        let thread = std::thread::Builder::new().name("terminal".to_owned()).spawn(watch);
        let thread = thread.map_err(|error| Error::io("the terminal's thread", error))?;
        Ok(Self { ending, status, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        self.status.change(|_| {});
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn live_line() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Steps of the bar: fine enough that the time left is right.
const STEPS: f32 = 100_000.0;

/// Moves the bar; the live line becomes one when the length is known.
fn show_progress(bar: &ProgressBar, progress: Option<f32>) {
    let Some(share) = progress else { return };
    let position = (share * STEPS) as u64;
    if bar.length().is_none() {
        bar.set_length(STEPS as u64);
        let style = ProgressStyle::with_template("{bar:20} {percent:>3} %  {eta} left  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        // What an earlier start has done says nothing of how fast this one is.
        bar.set_position(position);
        bar.reset_eta();
    }
    bar.set_position(position);
}

fn describe(now: &Snapshot) -> String {
    if now.paused {
        return format!("paused · {} so far · `oupn-edge resume` goes on", words::frames(now.frames));
    }
    if !now.feed.present {
        return format!("camera lost, trying again · {} so far", words::frames(now.frames));
    }
    let Some(seen) = &now.newest else {
        return format!("waiting for the first frame of {}", plain(&now.feed.description));
    };
    let record = &seen.record;
    let what = if record.created { "new category" } else { "category" };
    let learning = if now.learning_since.is_some() { " · learning" } else { "" };
    let loss =
        now.curves.back().map(|update| format!(" (loss {:.2})", update.losses.total)).unwrap_or_default();
    format!(
        "frame {} → {what} {} · {} · {}{loss}{learning}",
        record.frame,
        record.category,
        words::categories(now.categories),
        words::updates(now.updates)
    )
}

/// Logs the updates after the first `known` of this start, and returns how many there are.
fn log_updates(status: &Status, known: u64) -> u64 {
    let (updates, fresh, created, progress) = status.look(|now| {
        let fresh =
            usize::try_from(now.updates.saturating_sub(known)).unwrap_or(usize::MAX).min(now.curves.len());
        (
            now.updates,
            now.curves.range(now.curves.len() - fresh..).cloned().collect::<Vec<_>>(),
            now.created,
            now.progress,
        )
    });
    let done = progress.map(|share| format!("; {:.0} % done", 100.0 * share)).unwrap_or_default();
    for update in fresh {
        log::info!(
            "update {} at frame {}: loss {:.3}, {} ({created} created so far), {:.1} s{done}",
            update.update,
            update.frame,
            update.losses.total,
            words::categories(u64::from(update.categories)),
            update.seconds
        );
    }
    updates
}
