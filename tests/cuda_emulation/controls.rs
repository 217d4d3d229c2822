//! Negative controls: the emulation must be able to fail.

use oupn_cuda::{Argument, Element, Geometry, Gpu};
use oupn_edge::encoder::gpu_ops::GpuOps;
use oupn_edge::encoder::host_ops::HostOps;
use oupn_edge::encoder::ops::{NormSize, Windows};
use oupn_edge::encoder::plan::{Activation, Shape};

use crate::case::Case;
use crate::device::{Buffer, Build, Emulated, Order, executable};
use crate::operations::distance;

/// Without their barriers the reductions must go wrong, or the emulation would not notice a forgotten
/// one.
#[test]
fn a_forgotten_barrier_is_noticed() {
    let (rows, channels) = (500, 24);
    let image = Shape { height: 8, width: 8, channels };
    let windows = Windows { frames: 9, image, output: image, stride: 1, pad: (1, 1) };
    for case in [
        Case::Moments { rows, channels, mean: 0.0 },
        Case::NormSums(NormSize { rows, channels, activation: Activation::Relu }),
        Case::DepthwiseWeightGradient(windows),
    ] {
        let right = case.run(&mut HostOps::<f64>::default()).unwrap();
        let Some(program) = executable(Build::WithoutBarriers) else { return };
        let mut ops = GpuOps::new(Emulated::start(&program, Order::Forward), Element::F32).unwrap();
        let answer = case.run(&mut ops).unwrap();
        let distance = distance(&answer, &right);
        assert!(distance.is_nan() || distance > 0.1, "{case:?} without barriers is off by only {distance:e}");
    }
}

/// Launches one kernel and returns what the emulator says of it.
fn complaint(
    kernel: &str,
    shared_floats: u32,
    arguments: impl FnOnce(&mut Buffer) -> Vec<Argument<'_, Buffer>>,
) -> Option<String> {
    let mut device = Emulated::start(&executable(Build::Sound)?, Order::Forward);
    let mut buffer = device.allocate(Element::F32, 100).unwrap();
    let geometry = Geometry { grid: [1, 1], block: [128, 1], shared_floats };
    let launched = device.launch(kernel, geometry, &mut arguments(&mut buffer));
    let outcome = launched.and_then(|()| device.download(&buffer, 0, &mut [0.0]));
    Some(outcome.err().map_or_else(String::new, |error| error.to_string()))
}

/// Faults that the emulation promises to stop at.
#[test]
fn divergent_barriers_foreign_memory_and_wrong_arguments_are_noticed() {
    let Some(message) = complaint("control_divergent_barrier", 1, |_| vec![Argument::Int(5)]) else { return };
    assert!(message.contains("not all threads of the block reached"), "{message}");

    let message = complaint("control_divergent_barrier", 0, |_| vec![Argument::Int(5)]).unwrap();
    assert!(message.contains("without shared memory"), "{message}");

    let message = complaint("control_out_of_bounds", 0, |buffer| vec![Argument::Output(buffer, 0)]).unwrap();
    let sanitized = !message.is_empty();
    assert!(!sanitized || message.contains("heap-buffer-overflow"), "{message}");

    let message = complaint("control_out_of_bounds", 0, |buffer| vec![Argument::Input(buffer, 0)]).unwrap();
    assert!(message.contains("should be an output buffer"), "{message}");

    let message =
        complaint("control_divergent_barrier", 1, |buffer| vec![Argument::Input(buffer, 0)]).unwrap();
    assert!(message.contains("should be an integer"), "{message}");

    let message = complaint("no_such_kernel", 0, |_| vec![]).unwrap();
    assert!(message.contains("no kernel is called no_such_kernel"), "{message}");
}
