//! The live page: what a recording does just now, in a browser on the device, a laptop or a phone.
//!
//! It serves an embedded page, JSON, Prometheus metrics and downloads, and takes three commands (pause, resume, forget).
//! `docs/API.md` describes every address; keep both alike. axum does the HTTP. It knows the recording only through
//! [`Status`] and [`Requests`]: it never touches camera, learner or trace writer.
//!
//! # The live path must not notice
//! The server has a thread of its own with a single-threaded runtime, and one more thread ([`news`]) that makes each
//! piece of news once for all pages, a few times a second at most and only while somebody watches. A page that is too
//! slow misses news; nobody waits for it. All of its threads step back behind the live path's (`nice` 10). Connections,
//! bodies and downloads are bounded.
//!
//! # Who may look
//! On loopback everybody on the machine. On any other address only who has the token ([`token`]). Whatever the address,
//! other web sites are kept out: see [`guard`]. Nobody can keep the others out: see [`visitors`] and [`connections`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::run::requests::Requests;
use crate::run::status::Status;
use crate::{Error, Result};

mod addresses;
mod connections;
mod download;
mod guard;
mod hosts;
mod metrics;
mod news;
mod picture;
mod routes;
mod stream;
mod token;
mod visitors;

#[cfg(test)]
mod tests;

use connections::{Guest, Timeouts};
use hosts::Hosts;
use news::News;
use token::{Kept, Token};

/// What a server is asked for.
#[derive(Debug, Clone)]
pub struct Page {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The file that keeps the token over restarts; it is made if there is none. Without one a token is made for each start,
    /// or none on loopback.
    pub token_file: Option<PathBuf>,
    /// Names of this machine beside those that it knows of.
    pub host_names: Vec<String>,
}

/// The server of the live page; it ends when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    kept: Option<Kept>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    news: Option<News>,
}

/// What every request can reach.
#[derive(Debug, Clone)]
struct Shared {
    status: Arc<Status>,
    requests: Requests,
    watchers: news::Watchers,
    thumbnails: picture::Thumbnails,
    limits: Arc<routes::Limits>,
    token: Option<Token>,
    hosts: Hosts,
}

impl Server {
    /// Serves until dropped.
    pub fn start(page: &Page, status: Arc<Status>, requests: Requests) -> Result<Self> {
        Self::start_with(page, Timeouts::default(), status, requests)
    }

    fn start_with(page: &Page, timeouts: Timeouts, status: Arc<Status>, requests: Requests) -> Result<Self> {
        let listen = page.listen;
        let hosts = Hosts::new(listen.ip(), &page.host_names)?;
        let fault = |error| Error::io(format!("--listen {listen}"), error);
        let listener = std::net::TcpListener::bind(listen).map_err(fault)?;
        listener.set_nonblocking(true).map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        let kept = match &page.token_file {
            Some(path) => Some(Kept::in_file(path)?),
            None if address.ip().to_canonical().is_loopback() => None,
            None => Some(Kept::for_now(&status.look(|now| now.data.clone()))?),
        };
        let news = News::start(Arc::clone(&status)).map_err(fault)?;
        let shared = Shared {
            status,
            requests,
            watchers: news.watchers(),
            thumbnails: picture::Thumbnails::default(),
            limits: Arc::default(),
            token: kept.as_ref().map(|kept| kept.token.clone()),
            hosts,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(routes::MOST_BLOCKING)
            .build()
            .map_err(fault)?;
        let (end, ended) = oneshot::channel::<()>();
        let work = move || {
            step_back();
            runtime.block_on(serve(listener, timeouts, routes::router(shared), ended));
        };
        let thread = std::thread::Builder::new().name("page".to_owned()).spawn(work).map_err(fault)?;
        Ok(Self { address, kept, end: Some(end), thread: Some(thread), news: Some(news) })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the page is, for people. Its token is in it only if `secret` says that nobody keeps what they read: what a
    /// service says stands in the journal for months.
    pub fn whereabouts(&self, secret: bool) -> String {
        let addresses = addresses::reachable(self.address);
        let urls = |rest: &str| {
            addresses
                .iter()
                .map(|address| format!("http://{address}/{rest}"))
                .collect::<Vec<_>>()
                .join(" and ")
        };
        match &self.kept {
            None => urls(""),
            Some(kept) if secret => urls(&format!("?token={}", kept.token.reveal())),
            Some(Kept { file: Some(file), .. }) => {
                format!("{} (its token is in {})", urls(""), file.display())
            }
            Some(_) => format!("{} (its token could not be written)", urls("")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Pages that are still open must not keep the recording from ending: their news end first.
        drop(self.news.take());
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Lets the live path and the learner go first: the calling thread, and those it makes, get what these leave.
fn step_back() {
    if let Err(error) = rustix::process::nice(10) {
        log::debug!("the page's threads keep their priority: {error}");
    }
}

async fn serve(
    listener: std::net::TcpListener,
    timeouts: Timeouts,
    router: Router,
    ended: oneshot::Receiver<()>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => connections::Bounded::new(listener, timeouts),
        Err(error) => return log::error!("the page cannot be served: {error}"),
    };
    let service = router.into_make_service_with_connect_info::<Guest>();
    let serving = std::future::IntoFuture::into_future(axum::serve(listener, service));
    tokio::select! {
        outcome = serving => {
            if let Err(error) = outcome {
                log::error!("the page is no longer served: {error}");
            }
        }
        // The sender says nothing: it is dropped.
        _ = ended => {}
    }
}
