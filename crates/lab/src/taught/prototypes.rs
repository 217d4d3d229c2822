//! Online ProtoNet (Ren et al. 2021): a window is an episode, and the mean of what a class has shown so far is its prototype.
//!
//! Each frame is first asked, then written under its class. Frames of a known class are to find its prototype (cross-entropy
//! over the known ones, of −1/τ times the cosine), and whether a class is new is to be told from the largest cosine (binary
//! cross-entropy of ℓ_u = (−max cosine/τ − β)/γ). Empty slots have the cosine 0, as in the released code. The means are plain:
//! nothing decays. Each view is an episode of its own; the loss is the average of both. 1/τ, β and γ are the objective's own.

use candle_core::{D, Device, Result as Computed, Tensor as Values};

use super::Labels;
use crate::config::Settings;
use crate::objective::autograd::{ByAutograd, Loss};
use crate::objective::head::{Bound, Layout, Slot, Weights, directions, log_softmax};

/// 1/τ and −β at the start.
const START: f64 = 10.0;

/// Takes a prototype that is not known yet out of the choice.
const UNKNOWN: f32 = -1e9;

/// See the [module](self).
pub(super) struct OnlineProtoNet {
    labels: Labels,
    /// 1/τ, −β and γ, each as a multiple of its start.
    control: Slot,
}

impl OnlineProtoNet {
    pub(super) fn objective(settings: &Settings, labels: Labels) -> ByAutograd<Self> {
        let mut layout = Layout::default();
        let control = layout.vector("control", 3, true);
        ByAutograd::new(settings, Self { labels, control }, Weights::new(layout, settings.seed))
    }
}

/// What the classes of an episode say before anything is embedded.
struct Episode {
    /// Classes in it.
    classes: usize,
    /// Frames x classes x frames: the share that each earlier frame has in a prototype.
    shares: Values,
    /// Frames x classes: 1 where a prototype is known.
    known: Values,
    /// The same for a softmax: 0 where it is known, else far below.
    mask: Values,
    /// Frames x 1: the class.
    class: Values,
    /// Frames: 1 where the class was known.
    met: Values,
}

impl Episode {
    fn new(labels: &[usize]) -> Computed<Self> {
        let mut names: Vec<usize> = Vec::new();
        let frames = labels.len();
        let slots: Vec<usize> = labels
            .iter()
            .map(|label| {
                names.iter().position(|name| name == label).unwrap_or_else(|| {
                    names.push(*label);
                    names.len() - 1
                })
            })
            .collect();
        let classes = names.len();
        let mut shares = vec![0.0f32; frames * classes * frames];
        let (mut known, mut met) = (vec![0.0f32; frames * classes], vec![0.0f32; frames]);
        let mut counts = vec![0usize; classes];
        for (frame, &slot) in slots.iter().enumerate() {
            for (earlier, &of) in slots[..frame].iter().enumerate() {
                shares[(frame * classes + of) * frames + earlier] = 1.0 / counts[of] as f32;
                known[frame * classes + of] = 1.0;
            }
            met[frame] = f32::from(u8::from(counts[slot] > 0));
            counts[slot] += 1;
        }
        let mask = known.iter().map(|known| if *known > 0.0 { 0.0 } else { UNKNOWN }).collect();
        let class = slots.iter().map(|&slot| slot as u32).collect();
        let cpu = &Device::Cpu;
        Ok(Self {
            classes,
            shares: Values::from_vec(shares, (frames * classes, frames), cpu)?,
            known: Values::from_vec(known, (frames, classes), cpu)?,
            mask: Values::from_vec::<_, f32>(mask, (frames, classes), cpu)?,
            class: Values::from_vec::<_, u32>(class, (frames, 1), cpu)?,
            met: Values::from_vec(met, frames, cpu)?,
        })
    }

    /// The two terms of one view.
    fn terms(&self, rows: &Values, control: &[Values; 3]) -> Computed<[Values; 2]> {
        let [inv_tau, minus_beta, gamma] = control;
        let (frames, dimension) = rows.dims2()?;
        let prototypes = directions(&self.shares.matmul(rows)?)?;
        let prototypes = prototypes.reshape((frames, self.classes, dimension))?;
        let cosines = prototypes.broadcast_mul(&directions(rows)?.unsqueeze(1)?)?.sum(D::Minus1)?;
        let told = log_softmax(&(cosines.broadcast_mul(inv_tau)? + &self.mask)?)?.gather(&self.class, 1)?;
        let met = (told.squeeze(1)? * &self.met)?.sum_all()?;
        let count = self.met.sum_all()?.to_scalar::<f32>()?.max(1.0);
        let class = (met / -f64::from(count))?;

        let nearest = (cosines * &self.known)?.max(D::Minus1)?.relu()?;
        let logit = nearest.broadcast_mul(inv_tau)?.neg()?.broadcast_add(minus_beta)?.broadcast_div(gamma)?;
        // Binary cross-entropy with logits x: softplus(x) − x where the class is new, softplus(x) where it is known.
        let softplus = ((logit.abs()?.neg()?.exp()? + 1.0)?.log()? + logit.relu()?)?;
        let new = (1.0 - &self.met)?;
        let unknown = ((softplus - (logit * new)?)?.sum_all()? / frames as f64)?;
        Ok([class, unknown])
    }
}

impl Loss for OnlineProtoNet {
    fn name(&self) -> &'static str {
        "prototypes"
    }

    fn terms(&self) -> &'static [&'static str] {
        &["class", "unknown"]
    }

    fn loss(&mut self, rows: &Values, frames: usize, _step: u64, weights: &Bound) -> Computed<Vec<Values>> {
        let episode = Episode::new(&self.labels.of(frames)?)?;
        let scalar = |at: usize, start: f64| weights.get(self.control).narrow(0, at, 1)? * start;
        let control = [scalar(0, START)?, scalar(1, START)?, scalar(2, 1.0)?];
        let [first, second] =
            [0, 1].map(|view| episode.terms(&rows.narrow(0, view * frames, frames)?, &control));
        let both = first?.into_iter().zip(second?);
        both.map(|(first, second)| ((first + second)? * 0.5)?.reshape(())).collect()
    }
}
