//! The streams by name: what `--stream` can be, and what each is made of.

use std::path::Path;

use super::coil;
use super::mnist::{self, Digits, ImbalancedStream};
use super::rooms::{self, RoomsStream};
use super::things::{self, ThingsStream};
use super::video::{Places, VideoStream};
use super::{Episode, ImageSet, LearningStream, Roaming, RoamingStream, SecondView, Split, folder, omniglot};
use crate::config::{Preset, Settings};
use crate::encoder::card::ModelCard;
use crate::encoder::plan::Shape;
use crate::{Error, Result, choices};

choices! {
    /// A stream that can be learned from and measured on.
    pub enum StreamKind {
        Omniglot = "omniglot": "RoamingOmniglot: handwritten characters; DIR holds the official archives and the split files",
        Imbalance = "imbalance": "RoamingOmniglot with MNIST's digits in between; DIR holds `omniglot/` and `mnist/`",
        Objects = "objects": "RoamingObjects: COIL-100's objects in changing contexts; DIR holds objN__ANGLE.jpg",
        ObjectsVideo = "objects-video": "The same objects as a head camera meets them: looked at for a while, turning; with a device's settings and rolling windows",
        ObjectsDays = "objects-days": "The same in days: eight rooms of six objects, 25 windows in one before moving on, and round again",
        Folder = "folder": "Pictures of any kind; DIR holds class/picture or group/class/picture",
        Rooms = "rooms": "The built-in world with the mask of the object attended to; needs no DIR",
        Things = "things": "Things without end, built and drawn by this program, each from all sides; needs no DIR",
    }
}

impl StreamKind {
    /// The preset whose settings suit it.
    pub fn preset(self) -> Preset {
        match self {
            Self::Omniglot | Self::Imbalance => Preset::Omniglot,
            Self::Objects | Self::ObjectsVideo | Self::ObjectsDays | Self::Things => Preset::Saycam,
            Self::Folder => Preset::Imagenet,
            Self::Rooms => Preset::Rooms,
        }
    }

    /// The settings of a file, or none, over those that suit the stream; those of the device's own stream depend on the weights
    /// that it starts from.
    pub fn settings(self, file: Option<&Path>, start: Option<&ModelCard>) -> Result<Settings> {
        if self.has_time() {
            return Settings::for_device(Some(self.preset()), file, start);
        }
        Settings::load_adjusted(Some(self.preset()), file, |settings| {
            if self == Self::Objects {
                // A window is a whole episode, as with Omniglot, whose sampler it is.
                let frames = Roaming::OMNIGLOT.frames();
                (settings.window, settings.stride, settings.slots) = (frames, frames, frames);
            }
        })
    }

    /// Whether its frames follow each other as a camera's do, so that the second view of a frame can be chosen.
    pub fn has_time(self) -> bool {
        matches!(self, Self::ObjectsVideo | Self::ObjectsDays)
    }

    /// The split that choices are made on: `val`, or `train` where there is none.
    pub fn choosing_split(self) -> Split {
        match self {
            Self::Objects | Self::ObjectsVideo | Self::ObjectsDays => Split::Train,
            _ => Split::Val,
        }
    }

    /// What is learned from, with pictures of the settings' size; the labels stay behind. `digits` are those of the imbalance
    /// stream, `second` is for streams with the flow of time.
    pub fn learning(
        self,
        data: Option<&Path>,
        settings: &Settings,
        shape: Shape,
        digits: Digits,
        second: SecondView,
    ) -> Result<Box<dyn LearningStream>> {
        let seed = settings.seed;
        let drawings = settings.augmentation.recipe().redrawn;
        let roaming = |set, roaming| RoamingStream { set, roaming, seed };
        Ok(match self {
            Self::Omniglot => {
                let set = fitting(
                    omniglot::load(self.folder(data)?, Split::Train, settings.reduction, drawings)?,
                    shape,
                )?;
                Box::new(roaming(set, Roaming::OMNIGLOT))
            }
            Self::Imbalance => {
                let folder = self.folder(data)?;
                let set = fitting(
                    omniglot::load(&folder.join("omniglot"), Split::Train, settings.reduction, drawings)?,
                    shape,
                )?;
                Box::new(ImbalancedStream {
                    characters: roaming(set, Roaming::OMNIGLOT),
                    digits: digits.among(mnist::load(&folder.join("mnist"), Split::Train)?)?,
                    share: digits.share,
                })
            }
            Self::Objects => {
                let set = coil::load(self.folder(data)?, Split::Train, shape)?;
                Box::new(roaming(set, Roaming::OMNIGLOT))
            }
            Self::ObjectsVideo | Self::ObjectsDays => {
                let set = coil::load(self.folder(data)?, Split::Train, shape)?;
                let places = if self == Self::ObjectsDays { Places::Rooms } else { Places::Anywhere };
                let (window, stride) = (settings.window, settings.stride);
                Box::new(VideoStream { set, places, second, window, stride, seed })
            }
            Self::Folder => {
                let set = folder::load(self.folder(data)?, Split::Train, shape)?;
                Box::new(roaming(set, Roaming::IMAGENET))
            }
            Self::Rooms => Box::new(RoomsStream::new(Split::Train, shape, settings.window, seed)?),
            Self::Things => Box::new(ThingsStream::new(Split::Train, shape, settings.window, seed)?),
        })
    }

    /// What is measured on: pictures, and the first `count` episodes of them.
    pub fn labelled(
        self,
        data: Option<&Path>,
        split: Split,
        settings: &Settings,
        shape: Shape,
        count: usize,
    ) -> Result<LabelledSet> {
        let reduction = settings.reduction;
        let drawn = |set: ImageSet, roaming: Roaming| {
            let episodes = (0..count as u64).map(|number| roaming.episode(&set, 0, number)).collect();
            LabelledSet { set, episodes }
        };
        Ok(match self {
            Self::Omniglot => drawn(
                fitting(omniglot::load(self.folder(data)?, split, reduction, false)?, shape)?,
                Roaming::OMNIGLOT,
            ),
            Self::Imbalance => {
                let folder = self.folder(data)?.join("omniglot");
                drawn(fitting(omniglot::load(&folder, split, reduction, false)?, shape)?, Roaming::OMNIGLOT)
            }
            Self::Objects | Self::ObjectsVideo | Self::ObjectsDays => {
                drawn(coil::load(self.folder(data)?, split, shape)?, Roaming::OMNIGLOT)
            }
            Self::Folder => drawn(folder::load(self.folder(data)?, split, shape)?, Roaming::IMAGENET),
            Self::Rooms => {
                let (set, episodes) = rooms::episodes(split, shape, count, 0)?;
                LabelledSet { set, episodes }
            }
            Self::Things => {
                let (set, episodes) = things::episodes(split, shape, count)?;
                LabelledSet { set, episodes }
            }
        })
    }

    fn folder(self, data: Option<&Path>) -> Result<&Path> {
        data.ok_or_else(|| {
            Error::input(format!("the stream {self} is read from a folder: name it with --data"))
        })
    }
}

/// Refuses a set whose pictures are not of the size that the encoder reads.
fn fitting(set: ImageSet, shape: Shape) -> Result<ImageSet> {
    if set.shape() == shape {
        return Ok(set);
    }
    let say = |shape: Shape| format!("{}x{}x{}", shape.height, shape.width, shape.channels);
    Err(Error::input(format!(
        "this stream's pictures are {}, but the encoder reads {}",
        say(set.shape()),
        say(shape)
    )))
}

/// Pictures with their classes, and episodes drawn from them.
#[derive(Debug)]
pub struct LabelledSet {
    /// The pictures.
    pub set: ImageSet,
    /// The episodes.
    pub episodes: Vec<Episode>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is measured is what a device does: one and the same settings.
    #[test]
    fn the_measured_stream_has_the_devices_settings() {
        let cards = ModelCard::known().unwrap();
        for card in cards.iter().map(Some).chain([None]) {
            for stream in [StreamKind::ObjectsVideo, StreamKind::ObjectsDays] {
                let measured = stream.settings(None, card).unwrap();
                assert_eq!(measured, Settings::for_device(None, None, card).unwrap());
            }
        }
    }
}
