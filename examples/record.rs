//! A recording from a program of your own: the built-in world, seen and learned from for a few minutes of its time.
//!
//! ```text
//! cargo run --release --example record -- [FOLDER]
//! ```
//!
//! Without a folder the recording goes to a temporary one and is gone afterwards. With one, a second start goes on where the
//! first one ended, and `read_trace` reads what it left.

#![allow(clippy::print_stdout)] // an example is there to be looked at

use std::path::PathBuf;
use std::time::Duration;

use oupn_edge::camera::Options;
use oupn_edge::config::Settings;
use oupn_edge::encoder::device::DeviceChoice;
use oupn_edge::run::{RunPlan, Session};
use oupn_edge::{Error, Result};

fn main() -> Result<()> {
    let temporary = tempfile::tempdir().map_err(|error| Error::io(std::env::temp_dir(), error))?;
    let data = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("walk"), PathBuf::from);

    // What is learned: the demo's settings (Conv-4 on 48×48 pixels), with shorter windows.
    let mut settings = Settings::from_toml(include_str!("rooms.toml"), "rooms.toml")?;
    (settings.window, settings.stride) = (20, 10);

    // Everything that a run is started with. `RunPlan::resolve` makes the same from what a user asks for and from what the
    // folder remembers of earlier starts.
    let plan = RunPlan {
        data,
        camera: "rooms:1".into(), // as for --camera: also /dev/video0, a video, a folder of pictures
        camera_options: Options::default(),
        settings,
        model: None, // random weights
        period: Duration::from_secs(4),
        calibrate: true,
        realtime: false, // as fast as it goes; and the same result every time
        frames: Some(60),
        time: None,
        checkpoint_every: Duration::from_secs(300),
        keep_thumbnails: false,
        keep_window: false, // no pixel is written
        device: DeviceChoice::Cpu,
        threads: 0,
        memory_budget: 256 << 20,
        reserve_bytes: 0,
        name: Some("example".into()),
        device_name: "example".into(),
    };
    let session = Session::open(&plan)?;

    // Other threads can watch and ask meanwhile: these are what the live page is made of.
    let (_status, _requests) = (session.status.clone(), session.requests.clone());

    let ended = session.run()?;
    println!("{} frames and {} updates in {:.1} s", ended.frames, ended.updates, ended.seconds);
    println!("{} categories live of {} that were created", ended.categories, ended.created);
    // The built-in world knows what it showed. The learner never sees that.
    if let Some(ami) = ended.score.ami() {
        println!("{} things were shown; adjusted mutual information {ami:.2}", ended.score.things());
    }
    Ok(())
}
