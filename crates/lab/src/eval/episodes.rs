//! An encoder's embeddings scored as the paper scores them: episodes of frames, a cleared memory before each.
//!
//! Without labels the memory finds its own categories, which the [AMI](super::ami()) compares with the true ones. With labels
//! every frame is first named and then written under its true class, and the [average
//! precision](super::average_precision()) asks whether known objects were recognised and new ones noticed.

use rayon::prelude::*;

use super::{ami, average_precision};
use crate::memory::{Control, LiveMemory, Rules};
use crate::{Error, Result};

/// Frames of one episode, embedded.
#[derive(Clone, Debug)]
pub struct EmbeddedEpisode {
    /// Embeddings, one after the other.
    pub embeddings: Vec<f32>,
    /// Their classes, numbered by first appearance.
    pub labels: Vec<usize>,
}

/// How the decision threshold of the AMI is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sweep {
    /// The best one on the first ten episodes, as the paper's code does.
    #[default]
    FirstTen,
    /// The best one on all episodes, as the paper's text says.
    Full,
    /// None: the memory's own.
    Off,
    /// As [`Sweep::FirstTen`], but over the similarity at which û is one half (that is, over β) at the memory's own
    /// threshold: for encoders whose β was never learned. The paper's sweep reaches similarities near 1 only.
    Similarity,
}

impl Sweep {
    /// The sweep for an encoder whose β was learned, or was not.
    pub fn usual(beta_is_learned: bool) -> Self {
        if beta_is_learned { Self::FirstTen } else { Self::Similarity }
    }
}

/// What is known of the memory under test.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Numbers in an embedding.
    pub dimension: usize,
    /// Prototypes that the memory holds; an episode that is longer may evict.
    pub slots: usize,
    /// The learned scalars.
    pub control: Control,
    /// Everything else.
    pub rules: Rules,
}

/// The scores of a set of episodes, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// Mean AMI over the episodes.
    pub ami: f64,
    /// Its standard error.
    pub ami_error: f64,
    /// The threshold it was found with.
    pub threshold: f64,
    /// The β it was found with.
    pub beta: f64,
    /// Average precision over the frames of all episodes.
    pub ap: f64,
    /// Its standard error, by leaving out each of ten parts of the episodes in turn.
    pub ap_error: f64,
    /// Categories created, on average over the episodes.
    pub categories: f64,
    /// True classes, on average over the episodes.
    pub classes: f64,
    /// Episodes scored.
    pub episodes: usize,
    /// Frames in them.
    pub frames: usize,
}

const SWEEP_EPISODES: usize = 10;
const JACKKNIFE: usize = 10;

/// Scores episodes by AMI and AP.
///
/// # Errors
/// If there is no episode, or an embedding is not finite.
pub fn score(episodes: &[EmbeddedEpisode], setting: &Setting, sweep: Sweep) -> Result<Scores> {
    if episodes.is_empty() {
        return Err(Error::input("there is no episode to score"));
    }
    let first = &episodes[..episodes.len().min(SWEEP_EPISODES)];
    let tuned = match sweep {
        Sweep::Off => *setting,
        Sweep::FirstTen => best(first, thresholds(setting))?,
        Sweep::Full => best(episodes, thresholds(setting))?,
        Sweep::Similarity => best(first, similarities(setting))?,
    };
    let setting = &tuned;
    let found = episodes.par_iter().map(|e| categorise(e, setting)).collect::<Result<Vec<_>>>()?;
    let amis =
        episodes.iter().zip(&found).map(|(e, found)| ami(&e.labels, found)).collect::<Result<Vec<_>>>()?;
    let named = episodes.par_iter().map(|episode| recognise(episode, setting)).collect::<Result<Vec<_>>>()?;
    let ap = pooled(&named, |_| true)?;
    let count = episodes.len() as f64;
    let average =
        |values: &dyn Fn(usize) -> usize| (0..episodes.len()).map(values).sum::<usize>() as f64 / count;
    let distinct = |found: &[u64]| found.iter().max().map_or(0, |last| *last as usize + 1);
    let (ami, ami_error) = mean_and_error(&amis);
    Ok(Scores {
        ami,
        ami_error,
        threshold: setting.rules.threshold,
        beta: setting.control.beta,
        ap,
        ap_error: jackknife(&named)?,
        categories: average(&|e| distinct(&found[e])),
        classes: average(&|e| episodes[e].labels.iter().max().map_or(0, |last| last + 1)),
        episodes: episodes.len(),
        frames: episodes.iter().map(|episode| episode.labels.len()).sum(),
    })
}

/// Mean and standard error of the mean.
pub fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, (variance / count).sqrt())
}

/// The memory with each of 100 thresholds between 0.01 and 0.99.
fn thresholds(setting: &Setting) -> Vec<Setting> {
    let rules = |step| Rules { threshold: 0.01 + 0.98 * f64::from(step) / 99.0, ..setting.rules };
    (0..100u32).map(|step| Setting { rules: rules(step), ..*setting }).collect()
}

/// The memory with each of 100 similarities from 0 to 0.99 as the least that is not new.
fn similarities(setting: &Setting) -> Vec<Setting> {
    let beta = |step| -setting.control.inv_tau * f64::from(step) / 100.0;
    let control = |step| Control { beta: beta(step), ..setting.control };
    (0..100u32).map(|step| Setting { control: control(step), ..*setting }).collect()
}

/// The candidate with the highest mean AMI; the first of equals.
fn best(episodes: &[EmbeddedEpisode], candidates: Vec<Setting>) -> Result<Setting> {
    let scored = candidates.into_par_iter().map(|setting| {
        let amis = episodes.iter().map(|e| ami(&e.labels, &categorise(e, &setting)?));
        Ok((amis.sum::<Result<f64>>()?, setting))
    });
    let scored = scored.collect::<Result<Vec<_>>>()?;
    let mut best: Option<(f64, Setting)> = None;
    for (sum, setting) in scored {
        if best.is_none_or(|(highest, _)| sum > highest) {
            best = Some((sum, setting));
        }
    }
    best.map(|(_, setting)| setting).ok_or_else(|| Error::input("there is nothing to choose from"))
}

/// The category that the memory gives to each frame of an episode, starting empty.
pub fn categorise(episode: &EmbeddedEpisode, setting: &Setting) -> Result<Vec<u64>> {
    let mut memory = LiveMemory::new(setting.slots, setting.dimension)?;
    let frames = episode.embeddings.chunks_exact(setting.dimension);
    frames.map(|frame| Ok(memory.observe(frame, &setting.control, &setting.rules)?.category)).collect()
}

/// What a labelled memory said of the frames of an episode.
struct Named {
    /// −1/τ times the largest cosine: it ranks as ℓ_u does, whatever β and γ > 0 are.
    scores: Vec<f64>,
    named: Vec<usize>,
    /// `None` at first appearance.
    truth: Vec<Option<usize>>,
}

/// Names every frame, then writes it under its true class.
fn recognise(episode: &EmbeddedEpisode, setting: &Setting) -> Result<Named> {
    let classes = episode.labels.iter().max().map_or(0, |last| last + 1);
    let mut prototypes = vec![0.0f64; classes * setting.dimension];
    let mut counts = vec![0.0f64; classes];
    let mut out = Named { scores: Vec::new(), named: Vec::new(), truth: Vec::new() };
    for (frame, &label) in episode.embeddings.chunks_exact(setting.dimension).zip(&episode.labels) {
        let z: Vec<f64> = frame.iter().map(|&x| f64::from(x)).collect();
        let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt() + 1e-5;
        let z_norm = norm(&z);
        if !z_norm.is_finite() {
            return Err(Error::input("an embedding is not finite: it cannot be scored"));
        }
        let mut best = (f64::NEG_INFINITY, 0);
        for (class, prototype) in prototypes.chunks_exact(setting.dimension).enumerate() {
            if counts[class] > 0.0 {
                let inner: f64 = prototype.iter().zip(&z).map(|(p, z)| p * z).sum();
                let cosine = inner / (norm(prototype) * z_norm);
                if cosine > best.0 {
                    best = (cosine, class);
                }
            }
        }
        out.scores.push(-setting.control.inv_tau * best.0);
        out.named.push(best.1);
        out.truth.push((counts[label] > 0.0).then_some(label));
        let count = counts[label];
        for (p, z) in prototypes[label * setting.dimension..].iter_mut().zip(&z) {
            *p = (count * *p + z) / (count + 1.0);
        }
        counts[label] = count + 1.0;
        counts.iter_mut().for_each(|count| *count *= setting.rules.decay);
    }
    Ok(out)
}

/// The average precision over the frames of the episodes whose number is chosen.
fn pooled(named: &[Named], chosen: impl Fn(usize) -> bool) -> Result<f64> {
    let (mut scores, mut names, mut truth) = (Vec::new(), Vec::new(), Vec::new());
    for (_, episode) in named.iter().enumerate().filter(|(number, _)| chosen(*number)) {
        scores.extend_from_slice(&episode.scores);
        names.extend_from_slice(&episode.named);
        truth.extend_from_slice(&episode.truth);
    }
    average_precision(&scores, &names, &truth)
}

/// Standard error of the pooled AP, which is no mean over episodes: by the spread of its values without each part.
fn jackknife(named: &[Named]) -> Result<f64> {
    let parts = named.len().min(JACKKNIFE);
    if parts < 2 {
        return Ok(0.0);
    }
    let without = (0..parts).map(|part| pooled(named, |e| e % parts != part)).collect::<Result<Vec<_>>>()?;
    let mean = without.iter().sum::<f64>() / parts as f64;
    let squares: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
    Ok((squares * (parts - 1) as f64 / parts as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

    /// Frames of classes that stand at these angles, a little off by turns.
    fn episode(labels: &[usize], apart: f32) -> EmbeddedEpisode {
        let place = |(frame, &label): (usize, &usize)| {
            let (sin, cos) = (label as f32 * apart + 0.01 * (frame % 3) as f32).sin_cos();
            [3.0 * cos, 3.0 * sin]
        };
        let embeddings = labels.iter().enumerate().flat_map(place).collect();
        EmbeddedEpisode { embeddings, labels: labels.to_vec() }
    }

    fn setting() -> Setting {
        let settings = Preset::Omniglot.settings();
        let control = Control { inv_tau: 10.0, beta: -9.0, gamma: 1.0 };
        Setting { dimension: 2, slots: 16, control, rules: settings.rules() }
    }

    const LABELS: [usize; 12] = [0, 1, 0, 2, 1, 1, 2, 0, 3, 2, 3, 0];

    #[test]
    fn classes_far_apart_are_found_and_recognised() {
        let episodes = vec![episode(&LABELS, 1.3), episode(&LABELS, 1.4)];
        let scores = score(&episodes, &setting(), Sweep::Off).unwrap();
        assert_eq!((scores.ami, scores.ap, scores.categories), (1.0, 1.0, 4.0));
        assert_eq!((scores.episodes, scores.frames, scores.ami_error), (2, 24, 0.0));
    }

    /// Classes 0.3 apart have a cosine of 0.955: with β = −9 (cosine 0.9) they fall together, and only a sweep parts them.
    #[test]
    fn a_sweep_finds_the_threshold_that_the_memory_lacks() {
        let episodes = vec![episode(&LABELS, 0.3); 3];
        let own = score(&episodes, &setting(), Sweep::Off).unwrap();
        assert!(own.ami < 0.9, "{}", own.ami);
        for sweep in [Sweep::FirstTen, Sweep::Full, Sweep::Similarity] {
            let swept = score(&episodes, &setting(), sweep).unwrap();
            assert!(swept.ami > 0.99, "{sweep:?}: {}", swept.ami);
            assert_eq!(swept.ap, own.ap, "AP knows neither threshold nor β");
        }
    }

    #[test]
    fn what_cannot_be_scored_is_refused() {
        assert!(score(&[], &setting(), Sweep::Off).is_err());
        let mut bad = episode(&LABELS, 1.0);
        bad.embeddings[3] = f32::NAN;
        assert!(score(&[bad], &setting(), Sweep::Off).is_err());
    }

    #[test]
    fn errors_are_standard_errors() {
        let (mean, error) = mean_and_error(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(mean, 2.5);
        assert!((error - (5.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-15);
        assert_eq!(mean_and_error(&[2.0]), (2.0, 0.0));
    }
}
