//! Walks: what a head camera might see in hours among known things, as pictures that any recording can be made of.
//!
//! The things are COIL-100's. There are rooms of eight of them. The wearer looks at one for a while as it turns, then at
//! another, sometimes goes to another room, and comes back to what was seen before. How large, how bright and where a thing
//! appears differs from look to look. With backgrounds it is cut out and stands in front of a picture, one for each room.
//!
//! A walk is a folder: `rgb/` with the pictures, `rgb.txt` with their times and `labels.csv` with what they show, so
//! `oupn-edge record --camera WALK --realtime off` is scored against the truth. The same seed gives the same walk.

mod plan;
mod scene;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub use plan::{Look, WalkPlan};
use scene::Scene;

use crate::random::{Purpose, Random};
use crate::{Error, Result};

/// Seconds from a sample to the picture that follows it: what a camera would have seen next.
const NEXT_AFTER: f64 = 0.3;

/// What a walk is made of.
#[derive(Clone, Debug)]
pub struct Walk {
    /// COIL-100's folder.
    pub objects: PathBuf,
    /// A folder of pictures to stand in front of; none for the objects' own dark background.
    pub backgrounds: Option<PathBuf>,
    /// The plan.
    pub plan: WalkPlan,
    /// Seconds between samples.
    pub period: f64,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Samples; there are two pictures of each.
    pub samples: usize,
    /// Looks.
    pub looks: usize,
    /// Things that were looked at.
    pub things: usize,
}

impl Walk {
    /// Writes the walk into a folder that is new or empty.
    ///
    /// # Errors
    /// If the folder is in use, the objects or backgrounds are not there, or the disk refuses.
    pub fn write(&self, folder: &Path) -> Result<Written> {
        if std::fs::read_dir(folder).is_ok_and(|mut inside| inside.next().is_some()) {
            return Err(Error::input(format!(
                "{}: there is something in it; name a new folder",
                folder.display()
            )));
        }
        let pictures = folder.join("rgb");
        std::fs::create_dir_all(&pictures).map_err(|error| Error::io(&pictures, error))?;
        let mut random = Random::new(self.plan.seed, Purpose::World, 1);
        let mut scene =
            Scene::new(&self.objects, self.backgrounds.as_deref(), self.plan.rooms(), &mut random)?;
        let (mut times, mut labels) = (String::new(), "file,label\n".to_owned());
        let (mut sample, looks) = (0, self.plan.looks());
        for look in &looks {
            for turn in 0..look.samples {
                for next in 0..2 {
                    let name = format!("rgb/{sample:06}_{next}.jpg");
                    let path = folder.join(&name);
                    let picture = scene.picture(look, turn, next == 1, &mut random)?;
                    scene::save(&picture, &path)?;
                    let seconds = self.period * sample as f64 + NEXT_AFTER * f64::from(next);
                    // Writing to a string cannot fail.
                    let _ = writeln!(times, "{seconds:.6} {name}");
                    let _ = writeln!(labels, "{name},obj{}", look.object);
                }
                sample += 1;
            }
        }
        for (name, text) in [("rgb.txt", times), ("labels.csv", labels)] {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|error| Error::io(&path, error))?;
        }
        let mut things: Vec<usize> = looks.iter().map(|look| look.object).collect();
        things.sort_unstable();
        things.dedup();
        Ok(Written { samples: sample, looks: looks.len(), things: things.len() })
    }
}
