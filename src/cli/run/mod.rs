//! `oupn-edge record --camera SOURCE`, or without the verb: the recording itself.
//!
//! Exit codes: 0 it ended as asked, or its source did; 1 the system failed; 2 bad usage or input; 3 it ended as asked, but
//! pictures or updates had to be left out.

mod arguments;
mod plan;
mod summary;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use self::terminal::Watcher;
use oupn_edge::Result;
use oupn_edge::dashboard::{Page, Server};
use oupn_edge::run::Session;

pub(super) use self::arguments::{DEFAULT_DATA, RunArgs};

pub(super) fn run(args: &RunArgs) -> Result<ExitCode> {
    let plan = plan::plan(args)?;
    let session = Session::open(&plan)?;
    log::info!("recording into {}; `oupn-edge status --data {0}` shows how it goes", plan.data.display());
    let page = args.listen.map(|listen| Page {
        listen,
        token_file: args.token_file.clone(),
        host_names: args.host_names.clone(),
    });
    let page = page.map(|page| Server::start(&page, Arc::clone(&session.status), session.requests.clone()));
    let page = page.transpose()?;
    if let Some(page) = &page {
        log::info!("the live page is at {}", page.whereabouts(std::io::stderr().is_terminal()));
    }
    let watcher = Watcher::start(Arc::clone(&session.status))?;
    let ended = session.run();
    drop(page);
    drop(watcher);
    let ended = ended?;
    summary::summarise(args, &plan, &ended)?;
    let complete = ended.corrupt == 0 && ended.skipped == 0 && ended.missing.is_none();
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(3) })
}
