//! The data folder's socket: how another program pauses a recording, or asks how it goes.
//!
//! `control.sock` in the data folder, for whoever may write there. One line of JSON each way:
//! ```text
//! → {"command":"forget","last_s":600}
//! ← {"ok":true,"message":"…"}   or   {"ok":false,"message":"…"}
//! ```
//! Commands: `pause`, `resume`, `forget` (with `last_s`), `checkpoint`, `stop`, and `status`, whose answer has the fields that
//! `docs/API.md` lists, and `data`, beside `ok`. Each of at most [`MOST_CALLERS`] callers has a thread, so that none waits for another; a line is
//! at most 4 KiB and may take 2 s.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::requests::{Command, Requests};
use super::status::Status;
use crate::storage::make_private;
use crate::{Error, Result};

/// The socket's name in the data folder.
pub const NAME: &str = "control.sock";

const LONGEST_LINE: u64 = 4096;
const TIMEOUT: Duration = Duration::from_secs(2);

/// Callers at a time.
const MOST_CALLERS: usize = 64;

/// How long the recording may take to do what was asked: a `forget` rewrites files and waits for learning.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// A line from a caller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Recordings of older versions know only `wish`, and a pause must reach them, too: so it is sent by that name.
    #[serde(rename = "wish", alias = "command")]
    command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_s: Option<f64>,
}

/// Serves the socket until dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Opens the socket in the data folder, which this process must hold.
    pub fn open(data: &Path, status: Arc<Status>, requests: Requests) -> Result<Self> {
        let path = data.join(NAME);
        let fault = |error| Error::io(&path, error);
        // The folder is locked, so whoever made a socket that is still here is gone.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fault(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(fault)?;
        make_private(&path).map_err(fault)?;
        let ending = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ending);
        let callers = Arc::new(());
        let serve = move || {
            for stream in listener.incoming() {
                if end.load(Ordering::Acquire) {
                    break;
                }
                let (status, requests) = (Arc::clone(&status), requests.clone());
                let served = stream.and_then(|stream| admit(stream, &callers, status, requests));
                if let Err(error) = served {
                    log::debug!("a caller could not be served: {error}");
                    // Whatever it is (no more files, no more threads), it does not get better by asking at once.
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        };
        let thread = std::thread::Builder::new().name("socket".to_owned()).spawn(serve).map_err(fault)?;
        Ok(Self { path, ending, thread: Some(thread) })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        // Wakes the thread; should that fail it is left to end with the process.
        if UnixStream::connect(&self.path).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Serves a caller by a thread of its own, if there are not too many. Each of them holds a copy of `callers`.
fn admit(
    mut stream: UnixStream,
    callers: &Arc<()>,
    status: Arc<Status>,
    requests: Requests,
) -> io::Result<()> {
    if Arc::strong_count(callers) > MOST_CALLERS {
        stream.set_nonblocking(true)?;
        return writeln!(stream, "{}", json!({ "ok": false, "message": "too many are asking; try again" }));
    }
    let caller = Arc::clone(callers);
    let serve = move || {
        // A caller that hangs up has only itself to blame.
        let _ = serve(stream, &status, &requests);
        drop(caller);
    };
    std::thread::Builder::new().name("socket-caller".to_owned()).spawn(serve).map(drop)
}

fn serve(mut stream: UnixStream, status: &Status, requests: &Requests) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(&stream).take(LONGEST_LINE).read_line(&mut line)?;
    let answer = answer(&line, status, requests);
    writeln!(stream, "{answer}")
}

fn answer(line: &str, status: &Status, requests: &Requests) -> Value {
    let outcome = parse(line).and_then(|command| match command {
        None => {
            let mut description = describe(status);
            description["ok"] = json!(true);
            Ok(description)
        }
        Some(command) => requests
            .ask(command, "socket", ANSWER_TIMEOUT)
            .map(|message| json!({ "ok": true, "message": message })),
    });
    outcome.unwrap_or_else(|error| json!({ "ok": false, "message": error.to_string() }))
}

/// The command of a line; none for `status`.
fn parse(line: &str) -> Result<Option<Command>> {
    let asked: Asked = serde_json::from_str(line).map_err(|error| {
        Error::input(format!("a request is one line such as {{\"command\":\"status\"}}: {error}"))
    })?;
    Ok(Some(match (asked.command.as_str(), asked.last_s) {
        ("status", None) => return Ok(None),
        ("pause", None) => Command::Pause,
        ("resume", None) => Command::Resume,
        ("checkpoint", None) => Command::Checkpoint,
        ("stop", None) => Command::Stop,
        ("forget", Some(last)) => Command::Forget(
            Duration::try_from_secs_f64(last)
                .map_err(|_| Error::input("last_s must be a number of seconds, not negative"))?,
        ),
        ("forget", None) => return Err(Error::input("forget needs last_s, a number of seconds")),
        (other, _) => {
            return Err(Error::input(format!(
                "{other} is no command: say pause, resume, forget with last_s, checkpoint, stop or status"
            )));
        }
    }))
}

/// How a recording goes: [`Snapshot::to_json`](super::status::Snapshot::to_json), and where it lies.
fn describe(status: &Status) -> Value {
    let snapshot = status.look(|now| now.without_history());
    let mut value = snapshot.to_json();
    value["data"] = json!(snapshot.data);
    value
}

/// Asks the recording that runs on this data folder.
///
/// # Errors
/// If none runs, or it refuses; its own words are passed on.
pub fn ask(data: &Path, command: &str, last: Option<Duration>) -> Result<Value> {
    let path = data.join(NAME);
    let fault = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::input(format!(
            "no recording is running on {}: start one with `oupn-edge --data {}`",
            data.display(),
            data.display()
        )),
        _ => Error::io(&path, error),
    };
    let mut stream = UnixStream::connect(&path).map_err(fault)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT + TIMEOUT)).map_err(fault)?;
    let asked = Asked { command: command.to_owned(), last_s: last.map(|last| last.as_secs_f64()) };
    let asked = serde_json::to_string(&asked).map_err(|error| Error::input(error.to_string()))?;
    writeln!(stream, "{asked}").map_err(fault)?;
    let mut line = String::new();
    BufReader::new(stream).take(1 << 20).read_line(&mut line).map_err(fault)?;
    let answer: Value = serde_json::from_str(&line)
        .map_err(|_| Error::Device("the recording ended before it answered".to_owned()))?;
    if answer["ok"] == json!(true) {
        return Ok(answer);
    }
    Err(Error::Device(answer["message"].as_str().unwrap_or("the recording refused").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_and_nonsense_is_answered() {
        let command = |line: &str| parse(line).unwrap();
        assert_eq!(command(r#"{"wish":"pause"}"#), Some(Command::Pause));
        assert_eq!(
            command(r#"{"wish":"forget","last_s":90}"#),
            Some(Command::Forget(Duration::from_secs(90)))
        );
        assert_eq!(command(r#"{"wish":"status"}"#), None);
        assert_eq!(command(r#"{"command":"resume"}"#), Some(Command::Resume));
        for line in [
            "",
            "pause",
            "{}",
            r#"{"wish":"dance"}"#,
            r#"{"wish":"forget"}"#,
            r#"{"wish":"forget","last_s":-1}"#,
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.exit_code() == 2 && !error.to_string().contains('\n'), "{line}: {error}");
        }
    }

    #[test]
    fn a_caller_hears_what_the_recording_says() {
        let folder = tempfile::tempdir().unwrap();
        let status = Arc::new(Status::default());
        status.change(|now| now.frames = 12);
        let (requests, waiting) = Requests::queue();
        let socket = ControlSocket::open(folder.path(), status, requests).unwrap();
        let live = std::thread::spawn(move || {
            let request = waiting.recv().unwrap();
            assert_eq!((request.command, request.by), (Command::Pause, "socket"));
            request.answer.unwrap().send(Ok("paused".into())).unwrap();
        });
        assert_eq!(ask(folder.path(), "pause", None).unwrap()["message"], "paused");
        live.join().unwrap();
        assert_eq!(ask(folder.path(), "status", None).unwrap()["frames"], 12);
        // The live path is gone: the caller is told, and nothing hangs.
        assert!(ask(folder.path(), "resume", None).unwrap_err().to_string().contains("has ended"));
        drop(socket);
        assert!(
            ask(folder.path(), "status", None).unwrap_err().to_string().contains("no recording is running")
        );
    }

    #[test]
    fn silent_callers_delay_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let (requests, _waiting) = Requests::queue();
        let _socket = ControlSocket::open(folder.path(), Arc::default(), requests).unwrap();
        let path = folder.path().join(NAME);
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o077, 0);
        let silent: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
        ask(folder.path(), "status", None).unwrap();
        // They are still being listened to: the answer did not wait until their time was over.
        let is_open = |mut stream: UnixStream| {
            stream.set_nonblocking(true).unwrap();
            stream.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        assert!(silent.into_iter().any(is_open));
        let crowd: Vec<UnixStream> =
            (0..2 * MOST_CALLERS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let refused = ask(folder.path(), "status", None).unwrap_err();
        assert!(refused.to_string().contains("too many are asking"), "{refused}");
        drop(crowd);
    }
}
