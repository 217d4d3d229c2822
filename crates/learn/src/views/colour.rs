//! Colour: random changes of brightness, contrast, saturation and hue.

use super::recipe::Colour;
use crate::kernels::image::{grey, mean, saturate, stretch, turn_hue};
use crate::random::Random;

/// One change; the result is clipped to [0, 1].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    /// Multiplies all channels.
    Brightness(f32),
    /// Multiplies the distance of a channel from its mean over the image.
    Contrast(f32),
    /// Multiplies the saturation.
    Saturation(f32),
    /// Turns the hue by this part of a full turn.
    Hue(f32),
}

/// All changes of one view: the four in some order, or none, and then perhaps no colour at all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) jitter: Option<[Change; 4]>,
    pub(super) grey: bool,
}

impl Changes {
    pub(super) fn draw(colour: &Colour, random: &mut Random) -> Self {
        let reach = 0.8 * colour.strength;
        let mut factor = || random.between((1.0 - reach).max(0.0), 1.0 + reach);
        let mut jitter = [
            Change::Brightness(factor()),
            Change::Contrast(factor()),
            Change::Saturation(factor()),
            Change::Hue(0.0),
        ];
        let turn = 0.2 * colour.strength;
        jitter[3] = Change::Hue(random.between(-turn, turn));
        random.shuffle(&mut jitter);
        Self { jitter: random.chance(colour.jittered).then_some(jitter), grey: random.chance(colour.greyed) }
    }

    pub(super) fn apply(&self, [red, green, blue]: [&mut [f32]; 3]) {
        for change in self.jitter.iter().flatten() {
            match *change {
                Change::Brightness(factor) => {
                    for plane in [&mut *red, &mut *green, &mut *blue] {
                        stretch(plane, 0.0, factor);
                    }
                }
                Change::Contrast(factor) => {
                    for plane in [&mut *red, &mut *green, &mut *blue] {
                        stretch(plane, mean(plane), factor);
                    }
                }
                Change::Saturation(factor) => saturate(red, green, blue, factor),
                Change::Hue(turn) => turn_hue(red, green, blue, turn),
            }
        }
        if self.grey {
            grey(red, green, blue);
        }
    }
}
