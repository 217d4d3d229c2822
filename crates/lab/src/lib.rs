//! The laboratory: labelled streams, training on them, and scores beside the paper's. A device does without it.

pub mod eval;
pub mod paper;
pub mod streams;
pub mod taught;
pub mod training;
pub mod walk;

#[cfg(test)]
use oupn_base::Choice;
use oupn_base::{Error, Result, choices, random};
use oupn_encoder::{self as encoder, tensors};
use oupn_kernels as kernels;
use oupn_learn::{calibration, config, learner, memory, model, objective, views, windows};
use oupn_sources::{camera, frame};
use oupn_store::storage;
