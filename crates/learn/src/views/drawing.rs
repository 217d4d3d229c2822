//! Views of a drawing in the resolution that it was drawn in.
//!
//! Omniglot's drawings are 105 pixels wide, the encoder reads 28, and the released reduction looks at single pixels: where a thin line
//! falls between them it breaks. A second drawing breaks in other places, so a view that is bent after the reduction would teach
//! the wrong thing. Here the drawing is bent first, drawn again with a pen of the same breadth, and then reduced like every
//! other.

use super::reduction::Reduction;
use super::warp::Warp;

/// A drawing as its data set has it.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'a> {
    /// Ink = 255, softened by [`soften`], row by row.
    pub ink: &'a [u8],
    /// Pixels along each side.
    pub side: usize,
    /// Quarter turns to the left that its class has.
    pub turns: u8,
    /// How it becomes as small as the encoder wants it.
    pub reduction: Reduction,
}

/// Pixels between two points at which a change of shape is computed; between them it is interpolated.
const STEP: usize = 4;
/// How steeply ink rises at the edge of a line that is drawn again.
const GAIN: f32 = 2.0;
/// By how much the grey that becomes one half rises with the logarithm of the enlargement, so that the pen keeps its breadth.
const LEVEL_RISE: f32 = 0.6;

/// Softens a drawing by (1 2 1)/4 along both axes: how dark a place is then tells how deep in a line it lies.
pub fn soften(ink: &[u8], side: usize) -> Vec<u8> {
    let along = |image: &[u8], step: usize, limit: usize| -> Vec<u8> {
        let place = |at: usize| (at / step) % limit;
        let sum = |at: usize| {
            let before = if place(at) > 0 { u32::from(image[at - step]) } else { 0 };
            let after = if place(at) + 1 < limit { u32::from(image[at + step]) } else { 0 };
            u8::try_from((before + 2 * u32::from(image[at]) + after).div_ceil(4)).unwrap_or(u8::MAX)
        };
        (0..image.len()).map(sum).collect()
    };
    along(&along(ink, 1, side), side, side)
}

impl Drawing<'_> {
    /// Draws it again, as all characters of a window are changed (`mirrored`, `script`) and then as another hand would (`hand`), and
    /// reduces it to a square of `small` pixels with ink = 1.
    pub(super) fn render(
        &self,
        mirrored: bool,
        script: Option<&Warp>,
        hand: Option<&Warp>,
        small: usize,
        out: &mut [f32],
    ) {
        let side = self.side;
        let points = (side - 1).div_ceil(STEP).max(1) + 1;
        let lattice: Vec<[f32; 2]> = (0..points * points)
            .map(|point| {
                let start = [point % points, point / points].map(|index| (index * STEP) as f32);
                self.origin(start, mirrored, script, hand, small)
            })
            .collect();
        let warps = [script, hand].into_iter().flatten();
        let level = warps.clone().map(|warp| LEVEL_RISE * warp.enlargement()).sum::<f32>()
            + warps.last().map_or(0.5, Warp::base_level);
        // Below it, paper would turn grey.
        let level = level.max(0.5 / GAIN);

        let mix =
            |a: [f32; 2], b: [f32; 2], share: f32| [0, 1].map(|axis| a[axis] + share * (b[axis] - a[axis]));
        // The point of the lattice before a pixel, and how far it is on the way to the next.
        let before = |pixel: usize| {
            let point = (pixel / STEP).min(points.saturating_sub(2));
            (point, (pixel - point * STEP) as f32 / STEP as f32)
        };
        let mut drawn = vec![0u8; side * side];
        for (row, line) in drawn.chunks_exact_mut(side).enumerate() {
            let (point, down) = before(row);
            let rows = lattice[point * points..].iter().zip(&lattice[(point + 1) * points..]);
            let places: Vec<[f32; 2]> =
                rows.take(points).map(|(above, below)| mix(*above, *below, down)).collect();
            for (column, value) in line.iter_mut().enumerate() {
                let (point, along) = before(column);
                let place = mix(places[point], places[point + 1], along);
                let ink = (self.look_up(place) / 255.0 - level) * GAIN + 0.5;
                // Paper is 255 while it is reduced, as in the data.
                *value = 255 - (255.0 * ink.clamp(0.0, 1.0)) as u8;
            }
        }
        let (from, to) = (side as u32, small as u32);
        let reduced = self.reduction.apply(&drawn, (from, from), (to, to)).unwrap_or_default();
        for (out, value) in out.iter_mut().zip(reduced) {
            *out = f32::from(255 - value) / 255.0;
        }
    }

    /// Where in the drawing a place of the view comes from.
    fn origin(
        &self,
        place: [f32; 2],
        mirrored: bool,
        script: Option<&Warp>,
        hand: Option<&Warp>,
        small: usize,
    ) -> [f32; 2] {
        let size = [self.side as f32; 2];
        let warped = |place, warp: Option<&Warp>| warp.map_or(place, |warp| warp.origin(place, size));
        let mut place = warped(warped(place, hand), script);
        if mirrored {
            place[0] = size[0] - 1.0 - place[0];
        }
        // The small picture is turned about its pixel (14, 14), a half of it off its middle on either side.
        let pivot = size[0] + size[0] / small as f32 - 1.0;
        for _ in 0..self.turns % 4 {
            place = [pivot - place[1], place[0]];
        }
        place
    }

    /// The softened ink at a place, from 0 to 255; outside there is none.
    fn look_up(&self, [x, y]: [f32; 2]) -> f32 {
        let last = (self.side - 1) as f32;
        if !(x >= 0.0 && y >= 0.0 && x < last && y < last) {
            return 0.0;
        }
        let (column, row) = (x as usize, y as usize);
        let (right, down) = (x - column as f32, y - row as f32);
        let at = row * self.side + column;
        let ink = |at: usize| f32::from(self.ink[at]);
        let mix = |a: f32, b: f32, share: f32| a + share * (b - a);
        mix(mix(ink(at), ink(at + 1), right), mix(ink(at + self.side), ink(at + self.side + 1), right), down)
    }
}

#[cfg(test)]
mod tests {
    use super::super::recipe::{Augmentation, Warping};
    use super::*;
    use crate::random::{Purpose, Random};

    const SIDE: usize = 105;

    /// A ring and a stroke of three pixels' breadth, ink = 255.
    fn drawn() -> Vec<u8> {
        let ink = |at: usize| {
            let (x, y) = ((at % SIDE) as f32, (at / SIDE) as f32);
            let ring = ((x - 45.0).hypot(y - 50.0) - 24.0).abs() < 1.5;
            let stroke = (x - 78.0).abs() < 1.5 && (25.0..80.0).contains(&y);
            if ring || stroke { 255 } else { 0 }
        };
        (0..SIDE * SIDE).map(ink).collect()
    }

    fn drawing(ink: &[u8], turns: u8) -> Drawing<'_> {
        Drawing { ink, side: SIDE, turns, reduction: Reduction::Released }
    }

    fn rendered(
        drawing: Drawing<'_>,
        mirrored: bool,
        script: Option<&Warp>,
        hand: Option<&Warp>,
    ) -> Vec<f32> {
        let mut out = vec![7.0; 28 * 28];
        drawing.render(mirrored, script, hand, 28, &mut out);
        out
    }

    fn difference(a: &[f32], b: &[f32]) -> f32 {
        let sum: f32 = a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum();
        sum / a.iter().sum::<f32>()
    }

    /// Unchanged, it is nearly what the data have: the pen draws the same lines.
    #[test]
    fn an_unchanged_drawing_stays_what_it_was() {
        let ink = drawn();
        let paper: Vec<u8> = ink.iter().map(|ink| 255 - ink).collect();
        let clean = Reduction::Released.apply(&paper, (105, 105), (28, 28)).unwrap();
        let mut clean: Vec<u8> = clean.iter().map(|value| 255 - value).collect();
        let soft = soften(&ink, SIDE);
        for turns in 0..4u8 {
            let expected: Vec<f32> = clean.iter().map(|value| f32::from(*value) / 255.0).collect();
            let found = rendered(drawing(&soft, turns), false, None, None);
            let apart = difference(&expected, &found);
            assert!(apart < 0.2, "{turns} turns: {apart}");
            let turned = rendered(drawing(&soft, (turns + 1) % 4), false, None, None);
            assert!(difference(&expected, &turned) > 0.5, "a turn shows");
            // The data's own quarter turn about pixel (14, 14).
            clean = (0..28 * 28)
                .map(|at| if at / 28 == 0 { 0 } else { clean[at % 28 * 28 + 28 - at / 28] })
                .collect();
        }
        let mirrored = rendered(drawing(&soft, 0), true, None, None);
        let back: Vec<f32> = mirrored.chunks_exact(28).flat_map(|row| row.iter().rev()).copied().collect();
        assert!(difference(&rendered(drawing(&soft, 0), false, None, None), &back) < 0.35);
    }

    /// A larger drawing has longer lines, not broader ones. Where a line falls between the pixels that are looked at decides how much
    /// of it is seen, so many places are averaged over.
    #[test]
    fn the_pen_keeps_its_breadth() {
        let soft = soften(&drawn(), SIDE);
        let hand = Augmentation::Handwriting.recipe().warp.unwrap();
        let still = Warping {
            rotation: 0.0,
            shear: 0.0,
            zoom: 0.0,
            scale: 0.0,
            shift: 0.04,
            bend: 0.0,
            jitter: 0.0,
            level: (0.5, 0.5),
            ..hand
        };
        // Ink per length of line, on average over the draws whose enlargement is asked for.
        let breadth = |warping: &Warping, wanted: fn(f32) -> bool| {
            let of = |number| {
                let warp = Warp::draw(warping, &mut Random::new(1, Purpose::Views, number));
                let image = rendered(drawing(&soft, 0), false, None, Some(&warp));
                (image.iter().sum::<f32>() / warp.enlargement().exp(), warp.enlargement())
            };
            let found: Vec<f32> =
                (0..120).map(of).filter(|(_, larger)| wanted(*larger)).map(|(ink, _)| ink).collect();
            found.iter().sum::<f32>() / found.len() as f32
        };
        let plain = breadth(&still, |_| true);
        let zoomed = Warping { zoom: 0.35, ..still };
        for wanted in [|larger: f32| larger > 0.15, |larger: f32| larger < -0.15] {
            let share = breadth(&zoomed, wanted) / plain;
            assert!((share - 1.0).abs() < 0.12, "lines {share} as broad");
        }
    }

    #[test]
    fn paper_stays_white() {
        let recipe = Augmentation::Scripts.recipe();
        let blank = vec![0; SIDE * SIDE];
        for number in 0..20 {
            let mut random = Random::new(2, Purpose::Views, number);
            let script = Warp::draw(&recipe.script.unwrap().warping, &mut random);
            let hand = Warp::draw(&recipe.warp.unwrap(), &mut random);
            let image = rendered(drawing(&blank, 1), false, Some(&script), Some(&hand));
            assert!(image.iter().all(|value| *value == 0.0));
        }
    }
}
