//! `oupn-edge model fetch` when something is wrong: with the server, the file, the way there, the folder, or the command.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::model_fetch::{NAME, PATH, answered, fetch, kept, program, published, sha256, timm_file};
use crate::support::mounted::Mounted;
use crate::support::program::text;
use crate::support::web_server::{Asked, Reply, Then, WebServer};

/// A fetch that must fail with one line and this exit code, and leave nothing behind.
fn refused(server: &WebServer, more: &[&str], code: i32) -> String {
    let home = tempfile::tempdir().unwrap();
    let run = fetch(home.path(), &server.url, more);
    let message = text(&run.stderr);
    assert_eq!(run.status.code(), Some(code), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(kept(home.path()).is_empty(), "{message}");
    message
}

fn says(message: &str, words: &[&str]) {
    assert!(words.iter().all(|word| message.contains(word)), "{words:?}: {message}");
}

#[test]
fn another_file_than_the_published_one_is_not_kept() {
    let mut other = published().to_vec();
    *other.last_mut().unwrap() ^= 1;
    let found = sha256(&other);
    let server = WebServer::start(move |_| answered(200, &other));
    says(&refused(&server, &[], 1), &["is not the published file", &found, &sha256(published()), "--from"]);
}

#[test]
fn a_network_that_the_program_does_not_compute_is_not_kept() {
    let deeper = timm_file("mobilenetv2_110d.ra_in1k");
    let digits = sha256(&deeper);
    let server = WebServer::start(move |_| Reply::new(200, deeper.clone()));
    says(
        &refused(&server, &["--sha256", &digits], 1),
        &["cannot be used and was not kept", "a deeper network"],
    );
    let wider = timm_file("mobilenetv2_100.ra_in1k");
    let digits = sha256(&wider);
    let server = WebServer::start(move |_| Reply::new(200, wider.clone()));
    let message = refused(&server, &["--sha256", &digits], 1);
    says(&message, &["does not fit", "MobileNet-V2 width 0.5", "[32, 3, 3, 3] instead of [16, 3, 3, 3]"]);
}

const MARK: &str = "\"version 1\"";
const HALF: usize = 1_000_000;

/// The rest of the file, as a server answers that has the version of the mark.
fn rest(asked: &Asked) -> Reply {
    let from = asked.from().unwrap();
    let all = published().len();
    answered(206, &published()[from..])
        .header("ETag", MARK)
        .header("Content-Range", format!("bytes {from}-{}/{all}", all - 1))
}

/// Cuts the first download off in the middle, and answers the second as told. Both must lead to the same model.
fn cut_then(
    then: Then,
    timeout: &str,
    answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
) -> Vec<Asked> {
    let home = tempfile::tempdir().unwrap();
    let count = AtomicUsize::new(0);
    let server = WebServer::start(move |asked| match count.fetch_add(1, Ordering::Relaxed) {
        0 => answered(200, published()).header("ETag", MARK).cut(HALF, then),
        _ => answer(asked),
    });
    let run = fetch(home.path(), &server.url, &["--timeout", timeout]);
    let message = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{message}");
    says(&message, &["broke off after 977 KiB of 2.7 MiB", "run the command again"]);
    assert_eq!(kept(home.path()).len(), 2, "the first part and its mark");
    let run = fetch(home.path(), &server.url, &[]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert_eq!(kept(home.path()), [format!("{NAME}.safetensors"), format!("{NAME}.toml")]);
    server.asked()
}

#[test]
fn a_download_that_was_cut_off_goes_on() {
    let asked = cut_then(Then::Close, "20s", rest);
    assert_eq!((asked.len(), asked[0].from()), (2, None));
    assert_eq!((asked[1].from(), asked[1].header("if-range")), (Some(HALF), Some(MARK)));
}

#[test]
fn a_server_that_stalls_is_given_up_and_gone_on_with_later() {
    let asked = cut_then(Then::Stall, "1s", rest);
    assert_eq!(asked[1].from(), Some(HALF));
    let server = WebServer::start(|_| Reply::silence());
    says(&refused(&server, &["--timeout", "1s"], 1), &["no answer within 1 s"]);
}

#[test]
fn a_new_version_is_downloaded_from_its_beginning() {
    cut_then(Then::Close, "20s", |_| answered(200, published()).header("ETag", "\"version 2\""));
    // This one has less than what is there, and then, asked without a range, all of it.
    let asked = cut_then(Then::Close, "20s", |asked| match asked.from() {
        Some(_) => answered(416, b"").header("Content-Range", "bytes */17"),
        None => answered(200, published()),
    });
    assert_eq!(asked.len(), 3);
}

#[test]
fn a_file_that_is_whole_but_was_not_converted_is_not_downloaded_again() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("oupn-edge/models");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!(".{NAME}.part.safetensors")), published()).unwrap();
    std::fs::write(folder.join(format!(".{NAME}.part.etag")), MARK).unwrap();
    let server = WebServer::start(|_| {
        answered(416, b"").header("Content-Range", format!("bytes */{}", published().len()))
    });
    let run = fetch(home.path(), &server.url, &[]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert_eq!((server.asked().len(), kept(home.path()).len()), (1, 2));
}

#[test]
fn what_a_server_says_instead_is_told() {
    for (reply, words) in [
        (Reply::new(404, "Entry not found"), ["404", "--from"]),
        (Reply::new(503, ""), ["503", "try again later"]),
        (Reply::new(302, "").header("Location", PATH), ["without an end", "set up wrongly"]),
        (Reply::new(302, "").header("Location", "gopher://x/y"), ["gopher://x/y", "no address"]),
        (Reply::new(200, "x"), ["does not say the file's SHA-256", "--sha256"]),
        (answered(206, b"x").header("Content-Range", "bytes 0-0/1"), ["206", "check --from"]),
    ] {
        let server = WebServer::start(move |_| reply.clone());
        says(&refused(&server, &[], 1), &words);
    }
}

#[test]
fn a_server_that_sends_too_much_is_stopped() {
    let endless = vec![0; 40 << 20];
    for reply in [answered(200, &endless), answered(200, &endless).without_length()] {
        let server = WebServer::start(move |_| reply.clone());
        says(&refused(&server, &[], 1), &["sends more than 15 MiB", "nothing was kept"]);
    }
}

#[test]
fn without_a_network_the_command_says_so() {
    let home = tempfile::tempdir().unwrap();
    // A port that nobody listens on any more.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [format!("http://{closed}"), "http://nowhere.invalid".to_owned()] {
        let run = fetch(home.path(), &address, &[]);
        let message = text(&run.stderr);
        assert_eq!((run.status.code(), message.lines().count()), (Some(1), 1), "{message}");
        says(&message, &["cannot be reached", "check the network"]);
    }
}

#[test]
fn a_folder_that_cannot_take_it_is_named() {
    let server = WebServer::start(|_| answered(200, published()));
    says(&refused(&server, &["--to", "/proc/nowhere"], 2), &["/proc/nowhere"]);
    let home = tempfile::tempdir().unwrap();
    let small = home.path().join("oupn-edge/models");
    if let Some(_mounted) = Mounted::new(&small, "4m") {
        let run = fetch(home.path(), &server.url, &[]);
        let message = text(&run.stderr);
        assert_eq!((run.status.code(), message.lines().count()), (Some(1), 1), "{message}");
        says(&message, &["4.0 MiB free", "make room", "--to"]);
    }
    assert!(server.asked().is_empty(), "nothing is downloaded that cannot be kept");

    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("oupn-edge/models");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{NAME}.safetensors")), "damaged").unwrap();
    let run = fetch(home.path(), &server.url, &[]);
    assert_eq!(run.status.code(), Some(2));
    says(&text(&run.stderr), &["not a whole safetensors file", "remove"]);
}

#[test]
fn slips_of_the_command_line_ask_nobody() {
    let home = tempfile::tempdir().unwrap();
    let server = WebServer::start(|_| answered(200, published()));
    for (arguments, words) in [
        (&["resnet50"][..], ["no model resnet50", NAME]),
        (&["mobilenetv2_120d.ra_in1k"], ["more blocks", "mobilenetv2_140.ra_in1k"]),
        (&[NAME, "--from", "ftp://x"], ["ftp://x", "no server's address"]),
        (&[NAME, "--from", "http://me:secret@x"], ["no server's address", "--from"]),
        (&[NAME, "--sha256", "abc"], ["--sha256 abc", "64 hexadecimal digits"]),
        (&["mobilenet_v2_torchvision_v1", "--revision", "v1"], ["--revision v1", "torchvision"]),
    ] {
        let run = program(home.path(), &server.url, &[&["model", "fetch"], arguments].concat());
        let message = text(&run.stderr);
        assert_eq!((run.status.code(), message.lines().count()), (Some(2), 1), "{message}");
        says(&message, &words);
    }
    let run = program(home.path(), &server.url, &["model", "info", "mobilenetv2_100"]);
    assert_eq!(run.status.code(), Some(2));
    says(&text(&run.stderr), &["mobilenetv2_100: there is no such file", "`oupn-edge model fetch`"]);
    assert!(server.asked().is_empty() && kept(home.path()).is_empty());
}
