//! How far a command has come: a bar with the time left, on a terminal only, for work that takes longer than a second.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use oupn_edge::storage::{File, Filesystem, OsFilesystem};

/// What is done sooner needs no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// See the [module](self). Cleared when dropped.
#[derive(Debug)]
pub(super) struct Bar {
    bar: ProgressBar,
    shown: AtomicBool,
    start: Instant,
}

impl Bar {
    /// A bar of so many steps; `what` says what is being done.
    pub(super) fn new(total: u64, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg}  {bar:30} {percent:>3} %  {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what);
        Self { bar, shown: AtomicBool::new(false), start: Instant::now() }
    }

    /// So many more steps are done.
    pub(super) fn advance(&self, steps: u64) {
        self.bar.inc(steps);
        self.show();
    }

    /// So many steps are done, of so many if that is known better than before.
    pub(super) fn is_at(&self, done: u64, total: Option<u64>) {
        if let Some(total) = total {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
        self.show();
    }

    fn show(&self) {
        if self.start.elapsed() > SHOWN_AFTER && !self.shown.swap(true, Ordering::Relaxed) {
            // On anything but a terminal this draws nothing.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The file system, with a bar that shows how much of the recordings has been read.
#[derive(Debug)]
pub(super) struct WatchedFiles(Arc<Bar>);

impl WatchedFiles {
    /// For commands that read these recordings `times` times.
    pub(super) fn new(runs: &[impl AsRef<Path>], times: u64, what: &'static str) -> Self {
        let bytes = runs.iter().map(|run| segments_bytes(run.as_ref())).sum::<u64>();
        Self(Arc::new(Bar::new(bytes.saturating_mul(times), what)))
    }
}

/// The bytes of a recording's trace; 0 if it cannot be looked at, which reading it will say.
fn segments_bytes(run: &Path) -> u64 {
    let trace = run.join(oupn_edge::recording::TRACE);
    let dir = if trace.is_dir() { trace } else { run.to_path_buf() };
    let names = OsFilesystem.list(&dir).unwrap_or_default();
    let segments = names.iter().filter(|name| name.ends_with(".jsonl"));
    segments.filter_map(|name| OsFilesystem.len(&dir.join(name)).ok()).sum()
}

/// A file that moves the bar while it is read.
struct WatchedFile(Box<dyn Read + Send>, Arc<Bar>);

impl Read for WatchedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.read(buffer)?;
        self.1.advance(bytes as u64);
        Ok(bytes)
    }
}

impl Filesystem for WatchedFiles {
    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(WatchedFile(OsFilesystem.read(path)?, Arc::clone(&self.0))))
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        OsFilesystem.create_dir_all(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        OsFilesystem.create(path)
    }
    fn append(&self, path: &Path) -> io::Result<Box<dyn File>> {
        OsFilesystem.append(path)
    }
    fn len(&self, path: &Path) -> io::Result<u64> {
        OsFilesystem.len(path)
    }
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        OsFilesystem.truncate(path, len)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsFilesystem.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        OsFilesystem.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsFilesystem.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        OsFilesystem.sync_dir(dir)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        OsFilesystem.free_bytes(dir)
    }
}
