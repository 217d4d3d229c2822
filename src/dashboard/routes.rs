//! The addresses and what they answer.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Json, Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::download::Download;
use super::{Shared, download, guard, metrics, news, stream};
use crate::run::requests::Command;

/// Threads for commands and downloads.
pub(super) const MOST_BLOCKING: usize = 6;

/// Commands that may wait for the recording at a time.
const MOST_COMMANDS: usize = 4;

/// How long the recording may take to pause or go on.
const SOON: Duration = Duration::from_secs(20);

/// A `forget` rewrites files and waits for learning.
const LATER: Duration = Duration::from_secs(300);

/// A day: who wants to forget more deletes the data folder.
const LONGEST_FORGET_S: f64 = 86_400.0;

/// What is bounded over all requests.
#[derive(Debug)]
pub(super) struct Limits {
    commands: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { commands: Arc::new(Semaphore::new(MOST_COMMANDS)), downloads: Arc::new(Semaphore::new(1)) }
    }
}

/// All addresses behind the guard.
pub(super) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/", get(|| asset("text/html; charset=utf-8", include_str!("assets/page.html"))))
        .route("/page.css", get(|| asset("text/css; charset=utf-8", include_str!("assets/page.css"))))
        .route("/page.js", get(|| asset("text/javascript; charset=utf-8", include_str!("assets/page.js"))))
        .route("/favicon.svg", get(|| asset("image/svg+xml", include_str!("assets/favicon.svg"))))
        .route("/healthz", get(healthz))
        .route("/metrics", get(prometheus))
        .route("/api/status", get(status))
        .route("/api/live", get(live))
        .route("/api/thumbnail/{category}", get(thumbnail))
        .route("/api/pause", post(|shared, body| command(shared, body, |_| Some(Command::Pause), SOON)))
        .route("/api/resume", post(|shared, body| command(shared, body, |_| Some(Command::Resume), SOON)))
        .route("/api/forget", post(|shared, body| command(shared, body, forget, LATER)))
        .route("/download/{name}", get(download))
        .layer(DefaultBodyLimit::max(guard::LONGEST_BODY))
        .layer(middleware::from_fn_with_state(shared.clone(), guard::guard))
        .with_state(shared)
}

async fn asset(media_type: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, media_type)], text).into_response()
}

async fn status(State(shared): State<Shared>) -> Response {
    let snapshot = shared.status.look(Clone::clone);
    Json(snapshot.to_json()).into_response()
}

async fn healthz(State(shared): State<Shared>) -> Response {
    let now = shared.status.look(|now| now.without_history());
    let healthy = now.state() != "no_camera" && now.disk_trouble.is_none();
    let code = if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let now = now.to_json();
    let health = json!({"state": now["state"], "frames": now["frames"], "disk_trouble": now["disk_trouble"]});
    (code, Json(health)).into_response()
}

async fn prometheus(State(shared): State<Shared>) -> Response {
    let snapshot = shared.status.look(Clone::clone);
    let text = metrics::metrics(&snapshot, shared.watchers.count());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn live(State(shared): State<Shared>) -> Response {
    let (sender, body) = stream::body(news::QUEUE);
    if !shared.watchers.add(sender) {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open");
    }
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn thumbnail(State(shared): State<Shared>, Path(category): Path<String>) -> Response {
    let picture = category.parse().ok().and_then(|category| shared.thumbnails.of(&shared.status, category));
    match picture {
        Some(jpeg) => ([(header::CONTENT_TYPE, "image/jpeg")], jpeg).into_response(),
        None => refuse(StatusCode::NOT_FOUND, "no such category lives"),
    }
}

async fn download(State(shared): State<Shared>, Path(name): Path<String>) -> Response {
    let Some(download) = Download::named(&name) else {
        return refuse(StatusCode::NOT_FOUND, "no such download");
    };
    let data = shared.status.look(|now| now.data.clone());
    if !download::is_there(&data) {
        return refuse(StatusCode::NOT_FOUND, "nothing has been recorded yet");
    }
    let Ok(permit) = Arc::clone(&shared.limits.downloads).try_acquire_owned() else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "another download is under way: try again when it is done",
        );
    };
    let mut response = download.body(&data, permit).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(download.media_type()));
    // The name is one of a few; it cannot hold what a header may not.
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    response
}

/// The body of a command.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    last_s: Option<f64>,
}

/// The last seconds are to be forgotten.
fn forget(asked: &Asked) -> Option<Command> {
    let seconds = asked.last_s.filter(|seconds| (1.0..=LONGEST_FORGET_S).contains(seconds))?;
    Some(Command::Forget(Duration::from_secs_f64(seconds)))
}

async fn command(
    State(shared): State<Shared>,
    body: Result<Json<Asked>, JsonRejection>,
    command: impl FnOnce(&Asked) -> Option<Command>,
    timeout: Duration,
) -> Response {
    let asked = match body {
        Ok(Json(asked)) => asked,
        Err(rejection) => return answer(rejection.status(), &rejection.body_text()),
    };
    let Some(command) = command(&asked) else {
        return answer(StatusCode::BAD_REQUEST, "`last_s` must be from 1 to 86400 seconds");
    };
    let Ok(permit) = Arc::clone(&shared.limits.commands).try_acquire_owned() else {
        return answer(StatusCode::SERVICE_UNAVAILABLE, "too many requests are waiting; try again");
    };
    let requests = shared.requests.clone();
    let asking = tokio::task::spawn_blocking(move || {
        let answer = requests.ask(command, "page", timeout);
        drop(permit);
        answer
    });
    match asking.await {
        Ok(Ok(message)) => answer(StatusCode::OK, &message),
        Ok(Err(error)) => answer(StatusCode::CONFLICT, &error.to_string()),
        Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, "the request was broken off"),
    }
}

/// The answer to a command.
fn answer(code: StatusCode, message: &str) -> Response {
    (code, Json(json!({"ok": code.is_success(), "message": message}))).into_response()
}

fn refuse(code: StatusCode, message: &str) -> Response {
    (code, format!("{message}\n")).into_response()
}
