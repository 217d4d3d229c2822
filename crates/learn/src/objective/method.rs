//! The objectives by name: what `--objective` and the setting `objective` can be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::head::carried_name;
use super::oupn::check_slots;
use super::simclr::SimClr;
use super::simsiam::SimSiam;
use super::swav::SwAv;
use super::{Objective, Oupn, other_objective};
use crate::config::Settings;
use crate::tensors::Tensor;
use crate::{Choice, Result, choices};

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

    /// Refuses what another objective, or this one with other settings, carried from window to window.
    ///
    /// # Errors
    /// In one sentence that names both.
    pub fn check(self, carried: &BTreeMap<String, Tensor>, settings: &Settings) -> Result<()> {
        let known = match self {
            Self::Oupn => carried.contains_key("memory.counts"),
            _ => carried.contains_key(&carried_name(self.name(), "weights")),
        };
        match self {
            _ if !known => Err(other_objective(carried, self.name())),
            Self::Oupn => check_slots(carried, settings.slots),
            _ => Ok(()),
        }
    }

    /// Whether it learns 1/τ, β, γ. Without them û is not calibrated, and the threshold of new categories has to be measured.
    pub fn learns_control(self) -> bool {
        self == Self::Oupn
    }
}
