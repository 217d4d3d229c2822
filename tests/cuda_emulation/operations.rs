//! Every operation of the encoder on the emulated device against the host.

use oupn_cuda::Element;
use oupn_edge::encoder::Storage;
use oupn_edge::encoder::gpu_ops::GpuOps;
use oupn_edge::encoder::host_ops::HostOps;
use oupn_edge::encoder::ops::{NormSize, Product, Tail, Windows};
use oupn_edge::encoder::plan::{Activation, Padding, Pool, PoolEdge, Pooling, Shape};

use crate::case::Case;
use crate::device::{Build, Emulated, Order, executable};

/// Largest difference, relative to the largest number of the right answer.
pub(crate) fn distance(answer: &[f32], right: &[f32]) -> f32 {
    assert_eq!(answer.len(), right.len());
    let scale = right.iter().filter(|x| x.is_finite()).fold(0.0f32, |scale, x| scale.max(x.abs()));
    let differences = answer.iter().zip(right).map(|(answer, right)| {
        if answer == right { 0.0 } else { (answer - right).abs() / scale.max(f32::MIN_POSITIVE) }
    });
    // A NaN must count as far away, and `max` would drop it.
    differences.fold(0.0, |largest, x| if x > largest || x.is_nan() { x } else { largest })
}

/// Emulated devices of both thread orders, for one precision.
struct Devices(Element, [GpuOps<Emulated>; 2]);

impl Devices {
    /// `None` where nothing can be emulated.
    fn start(element: Element) -> Option<Self> {
        let program = executable(Build::Sound)?;
        let device = |order| GpuOps::new(Emulated::start(&program, order), element).unwrap();
        Some(Self(element, [Order::Forward, Order::Reverse].map(device)))
    }

    /// Runs a case in both orders and returns the answer, on which they must agree to the bit.
    fn run(&mut self, case: Case) -> Vec<f32> {
        let [forward, reverse] = self.1.each_mut().map(|ops| match case.run(ops) {
            Ok(answer) => answer,
            Err(error) => panic!("{case:?} in {:?}: {error}", self.0),
        });
        let bits = |answer: &[f32]| answer.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert!(bits(&forward) == bits(&reverse), "{case:?}: the order of threads shows in the result");
        forward
    }
}

/// Compares cases with the host, in both precisions. f32: sums of up to some thousand terms of size one, in another
/// order than the host's f64. f16: the same arithmetic, then one rounding of 2⁻¹¹ to the stored value, or one of the
/// weight of a product, whose errors average out.
fn check(cases: impl IntoIterator<Item = Case>) {
    let (Some(singles), Some(halves)) = (Devices::start(Element::F32), Devices::start(Element::F16)) else {
        return;
    };
    let mut all = [(singles, 5e-6), (halves, 1e-3)];
    for case in cases {
        let right = case.run(&mut HostOps::<f64>::default()).unwrap();
        assert!(right.iter().any(|&x| x != 0.0), "{case:?} is not much of a test");
        for (devices, tolerance) in &mut all {
            let distance = distance(&devices.run(case), &right);
            assert!(distance < *tolerance, "{case:?} in {:?} is off by {distance:e}", devices.0);
        }
    }
}

/// Windows of every stride and padding over even and odd sizes, one pixel wide ones among them. Channels around the
/// 32 lanes of a warp; frames that do not fill a block.
fn windows() -> Vec<Windows> {
    let mut all = Vec::new();
    for (height, width, channels, frames) in
        [(8, 8, 24, 2), (7, 19, 3, 3), (6, 10, 40, 1), (1, 1, 33, 5), (5, 2, 1, 1), (2, 17, 32, 2)]
    {
        for stride in [1usize, 2] {
            for padding in [Padding::Same, Padding::Symmetric] {
                let output = Shape {
                    height: usize::div_ceil(height, stride),
                    width: usize::div_ceil(width, stride),
                    channels,
                };
                let pad = (padding.before(height, stride), padding.before(width, stride));
                all.push(Windows { frames, image: Shape { height, width, channels }, output, stride, pad });
            }
        }
    }
    all
}

fn tails() -> Vec<Tail> {
    let mut all = Vec::new();
    for (height, width, channels, frames) in [(6, 8, 16, 2), (7, 5, 3, 3), (4, 4, 40, 1)] {
        let shape = Shape { height, width, channels };
        for activation in [Activation::None, Activation::Relu, Activation::Relu6] {
            all.push(Tail { frames, shape, output: shape, pool: None, activation });
            for (size, edge) in
                [(2, PoolEdge::Same), (2, PoolEdge::Valid), (3, PoolEdge::Same), (3, PoolEdge::Valid)]
            {
                let pool = Pool { size, edge };
                let output = Shape { height: pool.output(height), width: pool.output(width), channels };
                all.push(Tail { frames, shape, output, pool: Some(pool), activation });
            }
        }
    }
    all
}

const PRODUCTS: [Product; 3] = [
    Product { rows: 37, from: 24, to: 5 },
    Product { rows: 1, from: 3, to: 64 },
    Product { rows: 130, from: 17, to: 17 },
];

#[test]
fn matrix_products_reach_the_library_with_the_right_extents() {
    check(PRODUCTS.into_iter().flat_map(|size| {
        [Case::Product(size), Case::ProductInputGradient(size), Case::ProductWeightGradient(size)]
    }));
}

#[test]
fn depthwise_convolutions_and_both_gradients() {
    check(windows().into_iter().flat_map(|windows| {
        [
            Case::Depthwise(windows),
            Case::DepthwiseInputGradient(windows),
            Case::DepthwiseWeightGradient(windows),
        ]
    }));
    // Enough rows for several groups and several rows a thread.
    let image = Shape { height: 64, width: 3, channels: 24 };
    let windows = Windows { frames: 9, image, output: image, stride: 1, pad: (1, 1) };
    check([Case::DepthwiseWeightGradient(windows)]);
}

#[test]
fn windows_to_columns_and_back() {
    check(windows().into_iter().flat_map(|windows| [Case::Gather(windows), Case::Scatter(windows)]));
}

/// A mean of 100 and a deviation of 0.6: E[x²] − E[x]² in f32 would be off by thousandths.
#[test]
fn moments_keep_their_digits_beside_a_large_mean() {
    check(
        [(1, 5), (50, 24), (700, 3), (5000, 33)]
            .into_iter()
            .flat_map(|(rows, channels)| [0.0, 100.0].map(|mean| Case::Moments { rows, channels, mean })),
    );
}

#[test]
fn normalisation_addition_pool_and_activation() {
    check(tails().into_iter().flat_map(|tail| {
        [false, true]
            .into_iter()
            .flat_map(move |add| [Case::Normalise { tail, add }, Case::TailGradient { tail, add }])
    }));
}

#[test]
fn batch_norm_backward() {
    check([(1, 5), (50, 24), (3000, 33)].into_iter().flat_map(|(rows, channels)| {
        [Activation::None, Activation::Relu, Activation::Relu6].into_iter().flat_map(move |activation| {
            let size = NormSize { rows, channels, activation };
            [Case::NormSums(size), Case::NormInputGradient(size)]
        })
    }));
}

#[test]
fn mean_pool_and_addition() {
    check([(1, 7, 7, 40), (3, 1, 1, 5), (300, 2, 3, 1)].into_iter().flat_map(
        |(frames, height, width, channels)| {
            let shape = Shape { height, width, channels };
            [Pooling::Mean, Pooling::Centre].into_iter().flat_map(move |pooling| {
                [Case::MeanPool { frames, shape, pooling }, Case::MeanPoolGradient { frames, shape, pooling }]
            })
        },
    ));
    check([Case::Add { len: 1000 }]);
}

/// To the bit, in f32: the host's rounding is the `half` crate's.
#[test]
fn values_are_kept_as_the_host_keeps_them() {
    let (Some(mut singles), Some(mut halves)) = (Devices::start(Element::F32), Devices::start(Element::F16))
    else {
        return;
    };
    for storage in [Storage::F32, Storage::F16, Storage::Bf16] {
        let case = Case::Kept { len: 777, storage };
        let right = case.run(&mut HostOps::<f32>::default()).unwrap();
        let bits = |x: &f32| x.to_bits();
        assert!(singles.run(case).iter().map(bits).eq(right.iter().map(bits)), "{storage:?} from f32");
        // From f16 there is a rounding more: bf16's is 2⁻⁹ of a number, and f16's steps are 6e-8 at the least.
        for (answer, right) in halves.run(case).iter().zip(&right) {
            let near = (answer - right).abs() <= right.abs() / 500.0 + 6e-8;
            assert!(near || answer == right, "{storage:?} from f16 makes {answer} of {right}");
        }
    }
}
