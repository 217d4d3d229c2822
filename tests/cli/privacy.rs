//! Who may see what: the data folder, the page's token, what is printed, and what is left after `forget`. The real binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use crate::support::program::until;
use crate::support::recording::SETTINGS;

const BINARY: &str = env!("CARGO_BIN_EXE_oupn-edge");

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("settings.toml"), SETTINGS).unwrap();
        Self(folder)
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// A recording of the built-in world.
    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(["--camera", "rooms:3", "--reserve", "0", "--threads", "2", "--period", "100ms"])
            .args(["--config", self.0.path().join("settings.toml").to_str().unwrap()])
            .args(["--data", self.data().to_str().unwrap()])
            .args(more);
        command
    }

    /// One that runs until it is dropped.
    fn start(&self, more: &[&str]) -> Running {
        let mut command = self.command(more);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Running { child, log }
    }

    fn say(&self, words: &[&str]) -> Output {
        Command::new(BINARY).args(words).args(["--data", self.data().to_str().unwrap()]).output().unwrap()
    }

    /// Waits for so many frames of a running recording.
    fn wait_for_frames(&self, frames: u64) {
        until(&self.data(), |status| status["frames"].as_u64() >= Some(frames));
    }
}

struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Running {
    /// The line of the log that has this in it.
    fn says(&mut self, part: &str) -> String {
        self.log.by_ref().lines().map_while(Result::ok).find(|line| line.contains(part)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Everything in a folder, and it itself.
fn all_within(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_path_buf()];
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(all_within(&path)) } else { all.push(path) }
    }
    all
}

#[test]
fn a_recording_is_for_its_owner_alone() {
    let folder = Folder::new();
    let more = ["--realtime", "off", "--frames", "30", "--keep-thumbnails", "--keep-window"];
    let run = folder.command(&more).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let all = all_within(&folder.data());
    for part in ["lock", "run.toml", "trace", "checkpoints", "thumbnails", ".png"] {
        assert!(all.iter().any(|path| path.to_string_lossy().ends_with(part)), "{part} is among {all:?}");
    }
    for path in &all {
        assert_eq!(mode(path) & 0o077, 0, "{} is {:o}", path.display(), mode(path));
    }
    // What an earlier version left open is closed.
    let open = |name: &str, mode| {
        let path = folder.data().join(name);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let opened = [open("lock", 0o644), open("thumbnails", 0o755), open("trace", 0o755)];
    assert!(folder.command(&["--realtime", "off", "--frames", "2"]).output().unwrap().status.success());
    for path in opened {
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn forget_says_what_it_could_not_remove() {
    let folder = Folder::new();
    let _running = folder.start(&["--keep-thumbnails"]);
    folder.wait_for_frames(5);
    let thumbnails = folder.data().join("thumbnails");
    // A folder is what even the superuser cannot remove as a file.
    let mine = thumbnails.join("copies");
    std::fs::create_dir(&mine).unwrap();
    assert_eq!(folder.say(&["pause"]).status.code(), Some(0));
    let pictures = || std::fs::read_dir(&thumbnails).unwrap().count() - 1;
    assert!(pictures() > 0);

    let forgot = folder.say(&["forget", "--last", "1h"]);
    let said = String::from_utf8_lossy(&forgot.stderr);
    assert_eq!(forgot.status.code(), Some(1), "{said}");
    assert!(said.contains("removed, but") && said.contains(mine.to_str().unwrap()), "{said}");
    assert_eq!(pictures(), 0, "everything else went");

    std::fs::remove_dir(&mine).unwrap();
    assert_eq!(folder.say(&["forget", "--last", "1h"]).status.code(), Some(0));
}

#[test]
fn a_name_cannot_act_on_the_terminal() {
    let folder = Folder::new();
    let _running = folder.start(&["--name", "camera\u{1b}[31m\npaused           true"]);
    folder.wait_for_frames(1);
    let status = folder.say(&["status"]);
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("paused")), "{text}");
    assert!(text.contains(r"camera\u{1b}[31m\npaused"), "{text}");
}

/// The code of the answer to a request with this token, on the address that a line of the log names.
fn metrics(line: &str, token: &str) -> String {
    let (_, address) = line.split_once("http://").unwrap();
    let port = address.split('/').next().unwrap().rsplit(':').next().unwrap();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: cam07.lab.example.org\r\nConnection: close\r\n";
    write!(stream, "{request}Authorization: Bearer {token}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn the_pages_token_is_in_a_file_and_not_in_the_log() {
    let folder = Folder::new();
    let flags = ["--listen", "0.0.0.0:0", "--host-name", "cam07.lab.example.org"];
    let mut running = folder.start(&flags);
    let line = running.says("the live page is at");
    let passing = folder.data().join("page-token");
    let first = std::fs::read_to_string(&passing).unwrap().trim().to_owned();
    assert_eq!(mode(&passing), 0o600);
    assert!(!line.contains(&first) && line.contains(passing.to_str().unwrap()), "{line}");
    assert!(!line.contains("0.0.0.0"), "{line} leads somewhere");
    assert_eq!((metrics(&line, &first), metrics(&line, "nonsense")), ("200".into(), "401".into()));
    drop(running);
    assert!(!passing.exists(), "it goes with the recording");

    let kept = folder.0.path().join("token");
    let flags = [&flags[..], &["--token-file", kept.to_str().unwrap()]].concat();
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut running = folder.start(&flags);
        let line = running.says("the live page is at");
        let token = std::fs::read_to_string(&kept).unwrap().trim().to_owned();
        assert!(!line.contains(&token) && line.contains(kept.to_str().unwrap()), "{line}");
        assert_eq!(metrics(&line, &token), "200");
        tokens.push(token);
    }
    assert_eq!(mode(&kept), 0o600);
    assert_eq!(tokens[0], tokens[1], "it stays the same over restarts");
    assert_ne!(tokens[0], first);

    std::fs::write(&kept, "guess me\n").unwrap();
    let refused = folder.command(&flags).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("expected a token of 16 to 128") && !said.contains("guess me"), "{said}");
}
