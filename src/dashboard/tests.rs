//! The server over real connections, against a recording that this test plays.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::Value;

use super::connections::Timeouts;
use super::{Page, Server};
use crate::device::clock::{Clock, SystemClock};
use crate::run::requests::{Command, Request, Requests};
use crate::run::status::{Picture, Seen, Status};
use crate::trace::{Frame, Losses, Merge, Publication, PublicationOutcome, RunnerUp, Update};

/// A server and the recording's ends of what it reaches.
struct Scene {
    server: Server,
    status: Arc<Status>,
    commands: Option<Receiver<Request>>,
    _data: tempfile::TempDir,
}

fn scene(listen: &str) -> Scene {
    scene_with(listen, Timeouts::default())
}

fn scene_with(listen: &str, timeouts: Timeouts) -> Scene {
    let data = tempfile::tempdir().unwrap();
    let status = Arc::new(Status::default());
    let (requests, commands) = Requests::queue();
    status.change(|now| {
        now.device = "camera <7>".to_owned();
        now.data = data.path().to_path_buf();
        now.feed.present = true;
        now.period_s = 4.0;
    });
    let page =
        Page { listen: listen.parse().unwrap(), token_file: None, host_names: vec!["eye.example".into()] };
    let server = Server::start_with(&page, timeouts, Arc::clone(&status), requests).unwrap();
    Scene { server, status, commands: Some(commands), _data: data }
}

fn local() -> Scene {
    scene("127.0.0.1:0")
}

impl Scene {
    /// Lets the recording see a frame.
    fn see(&self, frame: u64, category: u64) {
        let rgb: Arc<[u8]> = (0..32 * 32).flat_map(|_| [250, 10, 10]).collect();
        let record = Frame {
            frame,
            category,
            created: frame == 0,
            evicted: None,
            u_hat: 0.25,
            similarity: 0.9,
            share: Some(0.8),
            runners_up: vec![RunnerUp { category: 2, share: 0.1, similarity: 0.4 }],
            captured_ns: None,
            source_ns: None,
            camera_sequence: None,
            latency_ms: Some(12.0),
            truth: None,
        };
        let seen =
            Seen { record, at: SystemClock::new().now(), picture: Picture { rgb, width: 32, height: 32 } };
        self.status.change(|now| now.note_frame(seen));
    }

    /// The address as a client of this machine reaches it.
    fn address(&self) -> SocketAddr {
        SocketAddr::new([127, 0, 0, 1].into(), self.server.address().port())
    }

    fn get(&self, path: &str, headers: &[&str]) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\n{}", self.head(headers)), b"")
    }

    fn post(&self, path: &str, body: &str, headers: &[&str]) -> Answer {
        let length = format!("Content-Length: {}", body.len());
        let headers = [&[length.as_str()], headers].concat();
        self.send(&format!("POST {path} HTTP/1.1\r\n{}", self.head(&headers)), body.as_bytes())
    }

    fn head(&self, headers: &[&str]) -> String {
        let host = format!("Host: {}", self.address());
        let own = if headers.iter().any(|header| header.starts_with("Host:")) {
            vec![]
        } else {
            vec![host.as_str()]
        };
        let lines: Vec<&str> =
            own.into_iter().chain(headers.iter().copied()).chain(["Connection: close"]).collect();
        format!("{}\r\n\r\n", lines.join("\r\n"))
    }

    fn send(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses may close before it has read everything.
        let _ = stream.write_all(body);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Answer { code, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }
}

struct Answer {
    code: u16,
    head: String,
    body: String,
}

const JSON: &str = "Content-Type: application/json";

#[test]
fn the_page_comes_with_a_strict_policy_and_asks_nobody_else() {
    let scene = local();
    for (path, kind) in [
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/favicon.svg", "image/svg"),
    ] {
        let answer = scene.get(path, &[]);
        assert_eq!(answer.code, 200, "{path}");
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{}", answer.head);
        for header in [
            "content-security-policy: default-src 'none'",
            "nosniff",
            "no-referrer",
            "no-store",
            "same-origin",
        ] {
            assert!(answer.head.contains(header), "{path}: {header}");
        }
        let outside = answer.body.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http://") && !outside.contains("https://"), "{path} names another site");
        assert!(
            !answer.body.contains(" onclick=") && !answer.body.contains(" style="),
            "{path}: the policy forbids these"
        );
    }
}

#[test]
fn the_state_is_told_whole_and_as_news() {
    let scene = local();
    scene.see(0, 41);
    let answer = scene.get("/api/status", &[]);
    let state: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((&state["device"], &state["state"]), (&"camera <7>".into(), &"recording".into()));
    assert_eq!(state["newest"]["category"], 41);
    assert_eq!(state["ribbon"].as_array().unwrap().len(), 1);
    assert_eq!(state["latency_p95_ms"], 20.0);
    assert_eq!(state["gallery"][0][0], 41);

    let mut stream = TcpStream::connect(scene.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET /api/live HTTP/1.1\r\nHost: {}\r\n\r\n", scene.address()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = || loop {
        let line = lines.next().unwrap().unwrap();
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str::<Value>(data).unwrap();
        }
    };
    let first = next();
    assert_eq!(first["newest"]["frame"], 0);
    let picture = first["picture"].as_str().unwrap();
    assert!(picture.starts_with("/9j/"), "a JPEG in base64: {picture}");
    scene.see(1, 42);
    let second = next();
    let told: Vec<u64> =
        second["ribbon"].as_array().unwrap().iter().map(|moment| moment[0].as_u64().unwrap()).collect();
    assert_eq!(told, [1], "only what is new");
    assert_eq!((&second["ribbon_frames"], &second["newest"]["category"]), (&2.into(), &42.into()));
}

#[test]
fn a_server_ends_at_once_although_pages_are_open() {
    let scene = local();
    let mut stream = TcpStream::connect(scene.address()).unwrap();
    write!(stream, "GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    drop(scene);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}

#[test]
fn commands_reach_the_recording_and_are_answered() {
    let mut scene = local();
    let commands = scene.commands.take().unwrap();
    let recording = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for request in commands.iter().take(3) {
            seen.push((request.command, request.by));
            let answer = if request.command == Command::Resume {
                Err(crate::Error::input("it is not paused"))
            } else {
                Ok("done".to_owned())
            };
            request.answer.unwrap().send(answer).unwrap();
        }
        seen
    });
    let paused = scene.post("/api/pause", "{}", &[JSON]);
    assert_eq!((paused.code, paused.body.contains("done")), (200, true), "{}", paused.body);
    let refused = scene.post("/api/resume", "{}", &[JSON]);
    assert_eq!((refused.code, refused.body.contains("it is not paused")), (409, true), "{}", refused.body);
    assert_eq!(scene.post("/api/forget", "{\"last_s\":600}", &[JSON]).code, 200);
    let commands = recording.join().unwrap();
    assert_eq!(
        commands,
        [
            (Command::Pause, "page"),
            (Command::Resume, "page"),
            (Command::Forget(Duration::from_secs(600)), "page")
        ]
    );
}

#[test]
fn nothing_changes_by_a_request_that_is_not_quite_right() {
    let mut scene = local();
    let host = format!("Origin: http://{}", scene.address());
    for (path, body, headers, code) in [
        ("/api/pause", "{}", &[][..], 415),
        ("/api/pause", "{}", &["Content-Type: text/plain"], 415),
        ("/api/pause", "a=b", &["Content-Type: application/x-www-form-urlencoded"], 415),
        ("/api/pause", "{", &[JSON], 400),
        ("/api/pause", "[]", &[JSON], 422),
        ("/api/pause", "{\"wish\":\"stop\"}", &[JSON], 422),
        ("/api/forget", "{}", &[JSON], 400),
        ("/api/forget", "{\"last_s\":-5}", &[JSON], 400),
        ("/api/forget", "{\"last_s\":1e300}", &[JSON], 400),
        ("/api/forget", "{\"last_s\":\"600\"}", &[JSON], 422),
        ("/api/pause", "{}", &[JSON, "Origin: http://evil.example"], 403),
        ("/api/pause", "{}", &[JSON, "Origin: null"], 403),
        ("/api/pause", "{}", &[JSON, "Sec-Fetch-Site: cross-site"], 403),
        ("/api/pause", "{}", &[JSON, "Host: evil.example"], 421),
        ("/api/stop", "{}", &[JSON, &host], 404),
        ("/api/status", "{}", &[JSON], 405),
    ] {
        let answer = scene.post(path, body, headers);
        assert_eq!(answer.code, code, "{path} {body} {headers:?}: {}", answer.body);
        assert!(answer.head.contains("content-security-policy"), "{path}");
    }
    assert_eq!(scene.get("/api/pause", &[]).code, 405);
    let commands = scene.commands.take().unwrap();
    assert!(commands.try_recv().is_err(), "none of these reached the recording");
}

#[test]
fn what_is_too_large_or_no_http_is_refused() {
    let scene = local();
    let large = format!("{{\"last_s\":1{}}}", " ".repeat(2000));
    assert_eq!(scene.post("/api/forget", &large, &[JSON]).code, 413);
    let lie = scene.head(&["Content-Length: 99999999999", JSON]);
    let answer = scene.send(&format!("POST /api/pause HTTP/1.1\r\n{lie}"), b"{}");
    assert_eq!(answer.code, 413);
    assert_eq!(scene.get(&format!("/{}", "a".repeat(2000)), &[]).code, 414);
    let many: Vec<String> = (0..300).map(|n| format!("X-{n}: 1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(scene.get("/healthz", &many).code, 431);
    for nonsense in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\u{16}\u{3}\u{1}\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    ] {
        let code = scene.send(nonsense, b"").code;
        assert!(code == 400 || code == 505 || code == 0, "{nonsense:?}: {code}");
    }
    assert_eq!(scene.get("/healthz", &[]).code, 200, "it is still there");
}

#[test]
fn no_path_leads_out() {
    let scene = local();
    std::fs::create_dir(scene._data.path().join("trace")).unwrap();
    std::fs::write(scene._data.path().join("secret"), "the secret").unwrap();
    for path in [
        "/download/../secret",
        "/download/..%2fsecret",
        "/download/%2e%2e%2fsecret",
        "/download/secret",
        "/download//etc/passwd",
        "/download/trace.jsonl%00.csv",
        "/download/trace-v1-00000001.jsonl",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/api/thumbnail/../status",
        "/api/thumbnail/-1",
        "/api/thumbnail/99999999999999999999999",
        "/page.js.map",
        "/.git/config",
    ] {
        let answer = scene.get(path, &[]);
        assert!(matches!(answer.code, 400 | 404), "{path}: {}", answer.code);
        assert!(!answer.body.contains("the secret") && !answer.body.contains("root:"), "{path}");
    }
}

#[test]
fn off_loopback_nothing_is_shown_without_the_token() {
    let scene = scene("0.0.0.0:0");
    scene.see(0, 41);
    let url = scene.server.whereabouts(true);
    assert!(!url.contains("0.0.0.0"), "{url} leads somewhere");
    let token = url.split("?token=").nth(1).and_then(|token| token.split(' ').next()).unwrap();
    let public = scene.server.whereabouts(false);
    let file = scene._data.path().join("page-token");
    assert!(!public.contains(token) && public.contains(&file.display().to_string()), "{public}");
    assert_eq!(std::fs::read_to_string(file).unwrap().trim(), token);
    let wrong = "0".repeat(32);
    for path in [
        "/",
        "/page.js",
        "/healthz",
        "/metrics",
        "/api/status",
        "/api/live",
        "/api/thumbnail/41",
        "/download/trace.jsonl",
    ] {
        assert_eq!(scene.get(path, &[]).code, 401, "{path}");
        assert_eq!(scene.get(path, &[&format!("Authorization: Bearer {wrong}")]).code, 401, "{path}");
        assert_eq!(scene.get(path, &[&format!("Cookie: oupn_edge_token={wrong}")]).code, 401, "{path}");
    }
    assert_eq!(scene.post("/api/pause", "{}", &[JSON]).code, 401);
    assert_eq!(scene.get(&format!("/?token={wrong}"), &[]).code, 401);
    let welcome = scene.get(&format!("/?token={token}"), &[]);
    assert_eq!(welcome.code, 303);
    assert!(welcome.head.contains("location: /\r\n"), "{}", welcome.head);
    let cookie = welcome.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    for word in ["httponly", "samesite=strict", "path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
    assert_eq!(scene.get("/api/status", &[&cookie]).code, 200);
    assert_eq!(scene.get("/metrics", &[&format!("Authorization: Bearer {token}")]).code, 200);
    assert_eq!(
        scene.get("/api/status", &[&cookie, "Origin: http://evil.example"]).code,
        403,
        "the cookie is not enough"
    );
}

#[test]
fn thumbnails_are_of_living_categories_only() {
    let scene = local();
    scene.see(0, 41);
    let answer = scene.get("/api/thumbnail/41", &[]);
    assert_eq!((answer.code, answer.head.contains("image/jpeg")), (200, true));
    assert_eq!(scene.get("/api/thumbnail/42", &[]).code, 404);
    scene.status.change(|now| now.forget_what_was_seen());
    assert_eq!(scene.get("/api/thumbnail/41", &[]).code, 404, "forgotten");
}

#[test]
fn a_merge_is_in_the_news_and_the_younger_category_is_shown_no_more() {
    let scene = local();
    scene.see(0, 3);
    scene.see(1, 17);
    let mut page = TcpStream::connect(scene.address()).unwrap();
    page.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(page, "GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    scene.status.change(|now| now.note_merge(Merge { from: 17, into: 3, frame: 1, similarity: 0.9 }));
    let mut lines = BufReader::new(page).lines().map_while(Result::ok);
    let news = lines.find(|line| line.contains("\"merges\":1")).expect("the merge is told");
    let news: Value = serde_json::from_str(news.strip_prefix("data: ").unwrap()).unwrap();
    let joined = &news["joined"][0];
    assert_eq!((&joined["from"], &joined["into"]), (&17.into(), &3.into()), "{joined}");
    let state: Value = serde_json::from_str(&scene.get("/api/status", &[]).body).unwrap();
    assert_eq!(state["gallery"], serde_json::json!([[3, 2, 1]]));
    let shown: Vec<_> = state["ribbon"].as_array().unwrap().iter().map(|moment| &moment[2]).collect();
    assert_eq!(shown, [3, 3]);
    assert_eq!(scene.get("/api/thumbnail/17", &[]).code, 404);
    assert!(scene.get("/metrics", &[]).body.contains("\noupn_edge_categories_joined_total 1\n"));
}

#[test]
fn metrics_are_lines_that_prometheus_takes() {
    let scene = local();
    scene.see(0, 41);
    let losses = Losses { total: 1.5, self_supervised: 1.0, entropy: 0.25, creation: f32::NAN };
    scene.status.change(|now| {
        now.note_update(Update {
            update: 1,
            frame: 74,
            window: 75,
            stride: 15,
            losses,
            mean_u_hat: 0.5,
            categories: 3,
            collapse: 0.02,
            gradient_norm: 1.0,
            inv_tau: 10.0,
            beta: -9.0,
            gamma: 1.0,
            learning_rate: 1e-5,
            seconds: 20.0,
        });
        now.note_publication(Publication {
            update: 1,
            frame: 74,
            outcome: PublicationOutcome::Published,
            before: 0.91,
            after: 0.95,
            error: 0.01,
            questions: 90,
        });
        now.health.celsius = Some(54.5);
        now.feed.present = false;
    });
    let text = scene.get("/metrics", &[]).body;
    let mut typed = std::collections::BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(
                ["gauge", "counter", "histogram"].contains(&kind) && typed.insert(name.to_owned()),
                "{line}"
            );
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = name.split('{').next().unwrap();
            let family =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(typed.contains(family) || typed.contains(name), "{line}");
        }
    }
    for line in [
        "oupn_edge_frames_total 1",
        "oupn_edge_loss{term=\"total\"} 1.5",
        "oupn_edge_publications_total 1",
        "oupn_edge_score{weights=\"in_use\"} 0.91",
        "oupn_edge_score{weights=\"newest\"} 0.95",
        "oupn_edge_temperature_celsius 54.5",
        "oupn_edge_latency_seconds_bucket{le=\"0.02\"} 1",
        "oupn_edge_latency_seconds_bucket{le=\"0.01\"} 0",
        "oupn_edge_latency_seconds_count 1",
        "oupn_edge_camera_present 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert_eq!(scene.get("/healthz", &[]).code, 503, "there is no camera");
}

#[test]
fn pages_are_bounded() {
    let scene = local();
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..140 {
        let mut stream = TcpStream::connect(scene.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        refused += u32::from(&head == b"HTTP/1.1 503");
        open.push(stream);
    }
    assert_eq!(refused, 12);
}

#[test]
fn names_that_are_not_ours_are_refused() {
    let scene = local();
    for (host, code) in [
        ("attacker.local:8077", 421),
        ("attacker", 421),
        ("192.168.1.7", 421),
        ("eye.example", 200),
        ("localhost:8077", 200),
    ] {
        assert_eq!(scene.get("/healthz", &[&format!("Host: {host}")]).code, code, "{host}");
    }
    let rebound =
        ["Host: attacker.local", "Origin: http://attacker.local", "Sec-Fetch-Site: same-origin", JSON];
    assert_eq!(scene.post("/api/pause", "{}", &rebound).code, 421);
}

#[test]
fn a_token_file_is_asked_for_on_loopback_too_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let (requests, _) = Requests::queue();
        let page = Page {
            listen: "127.0.0.1:0".parse().unwrap(),
            token_file: Some(path.clone()),
            host_names: Vec::new(),
        };
        let server = Server::start(&page, Arc::new(Status::default()), requests).unwrap();
        let token = std::fs::read_to_string(&path).unwrap().trim().to_owned();
        let ask = |header: &str| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n").unwrap();
            let mut head = [0; 12];
            stream.read_exact(&mut head).unwrap();
            String::from_utf8_lossy(&head[9..]).into_owned()
        };
        assert_eq!(ask("X: y"), "401");
        assert_eq!(ask(&format!("Authorization: Bearer {token}")), "200");
        tokens.push(token);
    }
    assert_eq!(tokens[0], tokens[1]);
}

/// Little timeouts: what is waited for in vain ends at once.
fn hasty() -> Scene {
    let [head, rest, deaf] = [1000, 1000, 10_000].map(Duration::from_millis);
    scene_with("127.0.0.1:0", Timeouts { head, rest, deaf })
}

/// Whether the other end has closed the connection, or does so before long.
fn is_closed(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_request_must_come_in_time() {
    let scene = hasty();
    let silent = TcpStream::connect(scene.address()).unwrap();
    assert!(is_closed(silent), "nothing was said");
    let mut half = TcpStream::connect(scene.address()).unwrap();
    write!(half, "GET /healthz HTTP/1.1\r\nHost: local").unwrap();
    assert!(is_closed(half), "half a request");

    // Bytes that trickle in buy no time: a head without an end is given up while they still come.
    let mut trickle = TcpStream::connect(scene.address()).unwrap();
    write!(trickle, "GET /healthz HTTP/1.1\r\nX: ").unwrap();
    let mut sent = 0;
    while sent < 6000 && trickle.write_all(b"x").is_ok() {
        sent += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(sent < 6000, "it was still listened to after {sent} bytes");

    let mut rested = TcpStream::connect(scene.address()).unwrap();
    write!(rested, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    rested.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    rested.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200"),
        "answered, then closed for want of another request: {answer}"
    );
    assert!(answer.to_lowercase().contains("content-length:"), "{answer}");

    let mut bodiless = TcpStream::connect(scene.address()).unwrap();
    let head = "POST /api/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n";
    bodiless.write_all(head.as_bytes()).unwrap();
    bodiless.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    let _ = bodiless.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 400"), "a body that does not come");
}

#[test]
fn an_answer_takes_as_long_as_it_takes() {
    let mut scene = hasty();
    let commands = scene.commands.take().unwrap();
    let slow = std::thread::spawn(move || {
        let request = commands.recv().unwrap();
        std::thread::sleep(Duration::from_secs(3));
        request.answer.unwrap().send(Ok("done at last".to_owned())).unwrap();
    });
    // News come every few seconds; in between nothing moves.
    let mut news = TcpStream::connect(scene.address()).unwrap();
    write!(news, "GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let answer = scene.post("/api/forget", "{\"last_s\":600}", &[JSON]);
    assert_eq!((answer.code, answer.body.contains("done at last")), (200, true), "{}", answer.body);
    slow.join().unwrap();
    news.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let events = BufReader::new(news).lines().map_while(Result::ok).filter(|line| line == "event: now");
    assert_eq!(events.take(2).count(), 2, "the page is still told");
}

#[test]
fn silent_strangers_shut_nobody_out() {
    let scene = local();
    let mut page = TcpStream::connect(scene.address()).unwrap();
    write!(page, "GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    page.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut head = [0; 12];
    page.read_exact(&mut head).unwrap();
    let silent: Vec<TcpStream> = (0..270)
        .map(|_| {
            let mut stream = TcpStream::connect(scene.address()).unwrap();
            // Those who have been sent away find it closed.
            let _ = write!(stream, "GET / HTTP/1.1\r\nHost: ");
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(scene.get("/healthz", &[]).code, 200);
    }
    scene.see(0, 41);
    let mut events = BufReader::new(page).lines().map_while(Result::ok);
    assert!(events.any(|line| line.contains("\"newest\":{")), "a page that was let in stays");
    drop(silent);
}

#[test]
fn trouble_with_the_disk_is_told_everywhere() {
    let scene = local();
    assert_eq!(scene.get("/healthz", &[]).code, 200);
    assert!(scene.get("/metrics", &[]).body.contains("\noupn_edge_disk_trouble 0\n"));
    scene.status.change(|now| {
        let since = std::time::Instant::now();
        now.disk_trouble =
            Some(crate::trace::DiskTrouble { what: "Read-only file system".to_owned(), since });
    });
    let health = scene.get("/healthz", &[]);
    assert_eq!((health.code, health.body.contains("Read-only file system")), (503, true), "{}", health.body);
    assert!(scene.get("/metrics", &[]).body.contains("\noupn_edge_disk_trouble 1\n"));
    let state: Value = serde_json::from_str(&scene.get("/api/status", &[]).body).unwrap();
    assert_eq!(state["disk_trouble"]["what"], "Read-only file system");
    assert_eq!(state["disk_trouble"]["seconds"], 0);
}
