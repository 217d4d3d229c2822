//! The objectives by name: what `--objective` and the setting `objective` can be.

use serde::{Deserialize, Serialize};

use super::simclr::SimClr;
use super::simsiam::SimSiam;
use super::swav::SwAv;
use super::{Objective, Oupn};
use crate::config::Settings;
use crate::{Result, choices};

choices! {
    /// A method of learning without labels.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Method {
        #[default]
        Oupn = "oupn": "Online unsupervised prototypical networks: the paper's own",
        #[serde(rename = "simclr")]
        SimClr = "simclr": "SimCLR: each view finds the other view of its frame among all of the window",
        #[serde(rename = "swav")]
        SwAv = "swav": "SwAV: one view tells to which of 1,000 balanced prototypes the other belongs",
        #[serde(rename = "swav-queue")]
        SwAvQueue = "swav-queue": "The same, balanced over the 2,000 frames before too",
        #[serde(rename = "simsiam")]
        SimSiam = "simsiam": "SimSiam: from one view the other's projection is predicted",
    }
}

impl Method {
    /// The objective with nothing learned yet, for embeddings of so many numbers.
    ///
    /// # Errors
    /// If the settings ask for a memory or window that cannot be.
    pub fn objective(self, settings: &Settings, dimension: usize) -> Result<Box<dyn Objective>> {
        Ok(match self {
            Self::Oupn => Box::new(Oupn::new(settings, dimension)?),
            Self::SimClr => Box::new(SimClr::objective(settings, dimension)),
            Self::SwAv => Box::new(SwAv::objective(settings, dimension, false)),
            Self::SwAvQueue => Box::new(SwAv::objective(settings, dimension, true)),
            Self::SimSiam => Box::new(SimSiam::objective(settings, dimension)),
        })
    }

    /// Whether it learns 1/τ, β, γ. Without them û is not calibrated, and the threshold of new categories has to be measured.
    pub fn learns_control(self) -> bool {
        self == Self::Oupn
    }
}
