//! The paper's read-outs by name: k-NN and linear accuracy of a network's features on labelled pictures.
//!
//! All pictures are shuffled by the seed; the first half is labelled, the second asked for (`saycam-10x` does so with a tenth of them).
//! Splitting by place, such as every other picture, would put neighbours in a video on both sides.

use super::NearestNeighbours;
use super::embed::Embed;
use super::linear::{Fit, LinearReadout, Optimiser};
use crate::random::{Purpose, Random};
use crate::streams::ImageSet;
use crate::{Error, Result, choices};

choices! {
    /// A protocol of the paper.
    pub enum Protocol {
        Rooms = "rooms": "RoamingRooms: 39 neighbours; linear by Adam at 0.001, 20 epochs, batches of 128",
        Saycam = "saycam":
            "SAYCam: one neighbour; linear by gradient descent at 1, 0.1 or 0.01, 100 epochs, batches of 256",
        Saycam10x = "saycam-10x": "The same with a random tenth of the pictures",
    }
}

/// The rates that SAYCam's linear read-out chooses from.
const RATES: [f32; 3] = [1.0, 0.1, 0.01];
/// Of the labelled pictures, one in so many decides which rate is taken.
const HELD_BACK: usize = 10;

/// Accuracies, as fractions with their standard errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readout {
    /// Neighbours that voted.
    pub neighbours: usize,
    /// By their vote.
    pub knn: (f64, f64),
    /// By one layer.
    pub linear: (f64, f64),
    /// The rate that layer was trained with.
    pub rate: f32,
    /// Classes to choose from.
    pub classes: usize,
    /// Pictures asked for; as many were labelled.
    pub asked: usize,
}

impl Protocol {
    /// Neighbours that vote, unless the user wants another number.
    pub fn neighbours(self) -> usize {
        if self == Self::Rooms { 39 } else { 1 }
    }

    /// Reads out the classes of a set.
    ///
    /// # Errors
    /// If there are too few pictures, or an embedding is not finite.
    pub fn read_out(
        self,
        encoder: &dyn Embed,
        set: &ImageSet,
        neighbours: Option<usize>,
        seed: u64,
    ) -> Result<Readout> {
        let mut class_of = vec![0; set.len()];
        for (number, class) in set.classes().iter().enumerate() {
            class_of[class.images.clone()].fill(number);
        }
        let [labelled, asked] = self.halves(set.len(), seed)?;
        let rows = |images: &[usize]| -> Result<Rows> {
            let labels = images.iter().map(|image| class_of[*image]).collect();
            Ok(Rows { features: encoder.embed(set, images)?, labels })
        };
        let (labelled, asked) = (rows(&labelled)?, rows(&asked)?);
        let (dimension, classes) = (encoder.dimension(), set.classes().len());
        let neighbours = neighbours.unwrap_or(self.neighbours());
        let nearest = NearestNeighbours::new(&labelled.features, dimension, &labelled.labels)?;
        let knn = accuracy(&nearest.classify(&asked.features, neighbours)?, &asked.labels);
        let (linear, rate) = self.linear(&labelled, &asked, dimension, classes, seed)?;
        Ok(Readout { neighbours, knn, linear, rate, classes, asked: asked.labels.len() })
    }

    /// Which pictures are labelled, and which are asked for.
    fn halves(self, pictures: usize, seed: u64) -> Result<[Vec<usize>; 2]> {
        let mut order: Vec<usize> = (0..pictures).collect();
        Random::new(seed, Purpose::Episodes, 0).shuffle(&mut order);
        let half = if self == Self::Saycam10x { pictures / 20 } else { pictures / 2 };
        if half < 2 {
            return Err(Error::input(format!(
                "the read-out {self} halves its pictures at random, and {pictures} are too few for that"
            )));
        }
        Ok([order[..half].to_vec(), order[half..2 * half].to_vec()])
    }

    fn linear(
        self,
        labelled: &Rows,
        asked: &Rows,
        dimension: usize,
        classes: usize,
        seed: u64,
    ) -> Result<((f64, f64), f32)> {
        let score = |known: &Rows, asked: &Rows, fit: &Fit| -> Result<(f64, f64)> {
            let readout = LinearReadout::train(&known.features, dimension, &known.labels, classes, fit)?;
            Ok(accuracy(&readout.classify(&asked.features), &asked.labels))
        };
        if self == Self::Rooms {
            let rate = 1e-3;
            let fit = Fit { optimiser: Optimiser::Adam(rate), epochs: 20, batch: 128, seed };
            return Ok((score(labelled, asked, &fit)?, rate));
        }
        let fit = |rate| Fit { optimiser: Optimiser::Sgd(rate), epochs: 100, batch: 256, seed };
        // The paper does not say on what it chose the rate. Here it is a part of the labelled pictures, never those asked for.
        let (chosen_on, rest) = labelled.parted(labelled.labels.len().div_ceil(HELD_BACK), dimension);
        let mut best = (f64::NEG_INFINITY, RATES[0]);
        for rate in RATES {
            let (share, _) = score(&rest, &chosen_on, &fit(rate))?;
            if share > best.0 {
                best = (share, rate);
            }
        }
        Ok((score(labelled, asked, &fit(best.1))?, best.1))
    }
}

/// Feature rows with their classes.
struct Rows {
    features: Vec<f32>,
    labels: Vec<usize>,
}

impl Rows {
    /// The first `count` rows, and the others.
    fn parted(&self, count: usize, dimension: usize) -> (Self, Self) {
        let (features, other_features) = self.features.split_at(count * dimension);
        let (labels, other_labels) = self.labels.split_at(count);
        (
            Self { features: features.to_vec(), labels: labels.to_vec() },
            Self { features: other_features.to_vec(), labels: other_labels.to_vec() },
        )
    }
}

/// The share that is right, and its standard error.
fn accuracy(found: &[usize], truth: &[usize]) -> (f64, f64) {
    let count = found.len().max(1) as f64;
    let share = found.iter().zip(truth).filter(|(found, truth)| found == truth).count() as f64 / count;
    (share, (share * (1.0 - share) / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::plan::Shape;

    /// Embeds a picture of one pixel as a point on a circle, so that classes are apart.
    struct Circle;

    impl Embed for Circle {
        fn dimension(&self) -> usize {
            2
        }

        fn embed(&self, set: &ImageSet, images: &[usize]) -> Result<Vec<f32>> {
            let place = |image: &usize| {
                let (sin, cos) = (f32::from(set.image(*image)[0]) / 40.0).sin_cos();
                [cos, sin]
            };
            Ok(images.iter().flat_map(place).collect())
        }
    }

    fn three_classes(pictures: u8) -> ImageSet {
        let mut set = ImageSet::new(Shape { height: 1, width: 1, channels: 1 });
        for class in 0..3u8 {
            let pixels: Vec<u8> = (0..pictures).map(|picture| 80 * class + picture % 20).collect();
            set.push(class.to_string(), None, &pixels).unwrap();
        }
        set
    }

    #[test]
    fn classes_apart_are_read_out_by_every_protocol() {
        let set = three_classes(200);
        for protocol in [Protocol::Rooms, Protocol::Saycam, Protocol::Saycam10x] {
            let found = protocol.read_out(&Circle, &set, None, 0).unwrap();
            assert!(found.knn.0 > 0.99 && found.linear.0 > 0.9, "{protocol}: {found:?}");
            assert_eq!(found.asked, if protocol == Protocol::Saycam10x { 30 } else { 300 });
            assert_eq!(found.neighbours, protocol.neighbours());
        }
        assert_eq!(Protocol::Saycam.read_out(&Circle, &set, Some(5), 0).unwrap().neighbours, 5);
        let few = Protocol::Saycam10x.read_out(&Circle, &three_classes(2), None, 0).unwrap_err();
        assert!(few.to_string().contains("too few"), "{few}");
    }

    /// The halves share no picture, follow from the seed, and neighbours in time fall on both sides only by chance.
    #[test]
    fn the_halves_are_random_and_apart() {
        let [labelled, asked] = Protocol::Saycam.halves(1001, 3).unwrap();
        assert_eq!((labelled.len(), asked.len()), (500, 500));
        assert!(labelled.iter().all(|image| !asked.contains(image)));
        assert_eq!(Protocol::Saycam.halves(1001, 3).unwrap(), [labelled.clone(), asked]);
        assert_ne!(Protocol::Saycam.halves(1001, 4).unwrap()[0], labelled);
        let even = labelled.iter().filter(|image| **image % 2 == 0).count();
        assert!((200..300).contains(&even), "{even}");
    }
}
