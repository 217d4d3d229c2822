//! The learning window against its plain oracle, finite differences and the specification's worked example.

use oupn_edge::memory::{
    Control, EntropyOf, Noise, Prototypes, PseudoLabel, Rules, Variant, Window, WindowInput,
};
use proptest::prelude::*;

use crate::support::plain_window::{self, Problem};

/// Runs the library's window in `f64` on a problem.
fn solve(problem: &Problem, stride: usize) -> Window<f64> {
    let (frames, dimension) = (problem.views[0].len(), problem.views[0][0].len());
    let memory =
        Prototypes::from_parts(dimension, problem.prototypes.concat(), problem.counts.clone()).unwrap();
    let flat = problem.views.each_ref().map(|view| view.concat());
    let creation = problem.creation_noise.each_ref().map(|n| n.iter().map(|n| *n as f32).collect::<Vec<_>>());
    let assignment =
        problem.assignment_noise.each_ref().map(|n| n.concat().iter().map(|n| *n as f32).collect::<Vec<_>>());
    let mut window = Window::new(frames + 2, problem.counts.len(), dimension).unwrap();
    window
        .run(&WindowInput {
            embeddings: [&flat[0], &flat[1]],
            memory: &memory,
            control: problem.control,
            rules: &problem.rules,
            kappa: problem.kappa,
            noise: Some(Noise {
                creation: [&creation[0], &creation[1]],
                assignment: [&assignment[0], &assignment[1]],
            }),
            stride,
        })
        .unwrap();
    window
}

fn rules() -> impl Strategy<Value = Rules> {
    let label =
        prop_oneof![Just(PseudoLabel::OneHot), (0.1..1.0f64).prop_map(|ratio| PseudoLabel::Soft { ratio })];
    let numbers = (0.9..1.0f64, 0.4..0.6f64, 0.3..0.7f64, 0.0..1.0f64, 0.0..1.0f64);
    (any::<[bool; 4]>(), label, numbers).prop_map(
        |(
            [paper, straight_through, symmetric, known],
            pseudo_label,
            (decay, threshold, mean, entropy, creation),
        )| Rules {
            variant: if paper { Variant::Paper } else { Variant::Reference },
            decay,
            threshold,
            prior_mean: mean,
            entropy_weight: entropy,
            entropy_of: if known { EntropyOf::Known } else { EntropyOf::All },
            creation_weight: creation,
            pseudo_label,
            straight_through,
            symmetric,
        },
    )
}

/// Small windows in which some frames found categories and some do not; noise is representable in f32.
fn problem() -> impl Strategy<Value = Problem> {
    (2..6usize, 2..5usize, 2..5usize, rules(), 0..4usize).prop_flat_map(
        |(frames, slots, dimension, rules, used)| {
            let vector = || prop::collection::vec(-1.0..1.0f64, dimension);
            let view = || prop::collection::vec(vector(), frames);
            let noise = || prop::collection::vec((-3.0..3.0f32).prop_map(f64::from), frames);
            let noises = || {
                prop::collection::vec(
                    prop::collection::vec((-2.0..2.0f32).prop_map(f64::from), slots),
                    frames,
                )
            };
            let control = (2.0..8.0f64, -5.0..1.0f64, 0.6..1.5f64)
                .prop_map(|(inv_tau, beta, gamma)| Control { inv_tau, beta, gamma });
            let memory = (prop::collection::vec(vector(), slots), prop::collection::vec(0.2..3.0f64, slots));
            ((view(), view()), memory, control, 0.4..2.0f64, (noise(), noise()), (noises(), noises()))
                .prop_map(
                    move |(views, (mut prototypes, mut counts), control, kappa, creation, assignment)| {
                        for slot in used.min(slots)..slots {
                            prototypes[slot].fill(0.0);
                            counts[slot] = 0.0;
                        }
                        Problem {
                            views: [views.0, views.1],
                            prototypes,
                            counts,
                            control,
                            rules,
                            kappa,
                            creation_noise: [creation.0, creation.1],
                            assignment_noise: [assignment.0, assignment.1],
                        }
                    },
                )
        },
    )
}

/// ∂loss/∂x by central differences, with every detached value frozen at its base.
fn slope(problem: &Problem, frozen: &plain_window::Frozen, change: impl Fn(&mut Problem, f64)) -> f64 {
    let h = 1e-5;
    let at = |h| {
        let mut moved = problem.clone();
        change(&mut moved, h);
        plain_window::loss(&moved, frozen)
    };
    // Fourth order: the curvature at sharp pseudo-labels is large.
    (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn loss_memory_and_every_gradient_agree_with_the_oracle(problem in problem()) {
        let (expected, frozen) = plain_window::record(&problem);
        // Away from decision boundaries, where the loss has a derivative, and away from zero-length vectors.
        prop_assume!(expected.margin > 1e-3);
        let short = |v: &Vec<f64>| v.iter().map(|x| x * x).sum::<f64>() < 1e-2;
        prop_assume!(!problem.views.iter().flatten().any(short));

        let frames = problem.views[0].len();
        let window = solve(&problem, frames);
        let close = |ours: f64, theirs: f64, what: &str| {
            let tolerance = 1e-6 * (1.0 + theirs.abs());
            prop_assert!((ours - theirs).abs() < tolerance, "{what}: {ours} against {theirs}");
            Ok(())
        };
        close(window.losses().total, expected.loss, "loss")?;
        let created: Vec<bool> = window.outcomes().iter().map(|outcome| outcome.created).collect();
        prop_assert_eq!(created, expected.created);
        for (ours, theirs) in window.memory_after().vectors().iter().zip(expected.prototypes.concat()) {
            close(*ours, theirs, "prototype")?;
        }
        for (ours, theirs) in window.memory_after().counts().iter().zip(&expected.counts) {
            close(*ours, *theirs, "count")?;
            prop_assert!(*ours >= 0.0);
        }

        let d = window.d_control();
        close(d.inv_tau, slope(&problem, &frozen, |p, h| p.control.inv_tau += h), "d 1/τ")?;
        close(d.beta, slope(&problem, &frozen, |p, h| p.control.beta += h), "d β")?;
        close(d.gamma, slope(&problem, &frozen, |p, h| p.control.gamma += h), "d γ")?;
        let dimension = problem.views[0][0].len();
        for view in 0..2 {
            for frame in 0..frames {
                for i in 0..dimension {
                    let ours = window.d_embeddings(view)[frame * dimension + i];
                    let theirs = slope(&problem, &frozen, |p, h| p.views[view][frame][i] += h);
                    close(ours, theirs, &format!("d h{}[{frame}][{i}]", view + 1))?;
                }
            }
        }
    }

    /// Continuity of rolling windows: the memory after `stride` frames is the memory after a window of those frames.
    #[test]
    fn the_memory_after_the_stride_is_that_of_a_shorter_window(problem in problem(), stride in 1..6usize) {
        let stride = stride.min(problem.views[0].len());
        let long = solve(&problem, stride);
        let mut short = problem.clone();
        for view in 0..2 {
            short.views[view].truncate(stride);
            short.creation_noise[view].truncate(stride);
            short.assignment_noise[view].truncate(stride);
        }
        let short = solve(&short, stride);
        prop_assert_eq!(long.memory_after_stride(), short.memory_after());
    }
}

/// The worked example of the algorithm's description: three slots, six frames, both loss weightings.
#[test]
fn the_worked_example_comes_out() {
    let pairs = |values: &[(f64, f64)]| values.iter().map(|(x, y)| vec![*x, *y]).collect::<Vec<_>>();
    let mut problem = Problem {
        views: [
            pairs(&[(1.0, 0.0), (0.9, 0.1), (0.6, 0.8), (0.8, 0.6), (-1.0, 0.2), (0.0, -2.0)]),
            pairs(&[(0.95, 0.05), (0.8, 0.3), (0.5, 0.9), (0.9, 0.5), (-0.9, 0.1), (0.1, -1.0)]),
        ],
        prototypes: vec![vec![0.0; 2]; 3],
        counts: vec![0.0; 3],
        control: Control { inv_tau: 10.0, beta: -9.0, gamma: 1.0 },
        rules: Rules {
            variant: Variant::Reference,
            decay: 0.99,
            threshold: 0.5,
            prior_mean: 0.5,
            entropy_weight: 1.0,
            entropy_of: EntropyOf::All,
            creation_weight: 1.0,
            pseudo_label: PseudoLabel::Soft { ratio: 0.1 },
            straight_through: false,
            symmetric: false,
        },
        kappa: 1.0,
        creation_noise: [vec![0.0; 6], vec![0.0; 6]],
        assignment_noise: [vec![vec![0.0; 3]; 6], vec![vec![0.0; 3]; 6]],
    };
    let close = |ours: f64, theirs: f64| assert!((ours - theirs).abs() < 1e-6, "{ours} against {theirs}");
    let window = solve(&problem, 4);
    let outcomes = window.outcomes();
    for (outcome, (u, created, slot)) in outcomes.iter().zip([
        (1.0, true, 0),
        (0.281178, false, 0),
        (0.934315, true, 1),
        (0.354388, false, 1),
        (0.999999, true, 2),
        (0.999949, true, 2),
    ]) {
        close(outcome.new_probability, u);
        assert_eq!((outcome.created, outcome.slot), (created, slot));
    }
    let after_four = [0.946275, 0.083255, 0.668186, 0.731814, 0.0, 0.0];
    for (ours, theirs) in window.memory_after_stride().vectors().iter().zip(after_four) {
        close(*ours, theirs);
    }
    for (ours, theirs) in window.memory_after().counts().iter().zip([1.754607, 1.457500, 0.990000]) {
        close(*ours, theirs);
    }
    let losses = window.losses();
    close(losses.self_supervised, 0.090663);
    close(losses.entropy, 0.374230);
    close(losses.mean_creation, 0.761638);
    close(losses.creation, -0.085511);
    close(losses.total, 0.379383);
    let d = window.d_control();
    close(d.inv_tau, -0.019389);
    close(d.beta, -0.225985);
    close(d.gamma, 0.070811);
    let first = [
        -0.041632, 0.579332, -0.030229, 0.420644, -0.200280, 0.161274, 0.263505, -0.321473, -0.073223,
        -0.366120, -0.335953, 0.0,
    ];
    let second = [0.0, 0.0, 0.0, 0.0, 0.009392, -0.005218, 0.236103, -0.424986, 0.0, 0.0, 0.000098, 0.000010];
    for (ours, theirs) in window.d_embeddings(0).iter().zip(first) {
        close(*ours, theirs);
    }
    for (ours, theirs) in window.d_embeddings(1).iter().zip(second) {
        close(*ours, theirs);
    }

    problem.rules.entropy_weight = 0.0;
    problem.rules.creation_weight = 0.0;
    let window = solve(&problem, 6);
    close(window.d_control().inv_tau, -0.004745);
    close(window.d_control().beta, 0.000374);
    close(window.d_control().gamma, -0.000657);
    close(window.d_embeddings(0)[1], 0.207039);
}

#[test]
fn what_does_not_fit_is_refused() {
    let memory = Prototypes::<f32>::new(3, 2).unwrap();
    let rules = Rules {
        variant: Variant::Reference,
        decay: 0.99,
        threshold: 0.5,
        prior_mean: 0.5,
        entropy_weight: 0.0,
        entropy_of: EntropyOf::All,
        creation_weight: 0.0,
        pseudo_label: PseudoLabel::OneHot,
        straight_through: false,
        symmetric: true,
    };
    let sampled = Rules { straight_through: true, ..rules };
    let good = [0.5f32; 8];
    let base = WindowInput {
        embeddings: [&good, &good],
        memory: &memory,
        control: Control::default(),
        rules: &rules,
        kappa: 1.0,
        noise: None,
        stride: 4,
    };
    let mut window = Window::new(4, 3, 2).unwrap();
    window.run(&base).unwrap();
    let other = Prototypes::<f32>::new(2, 2).unwrap();
    let bad = [0.5, f32::NAN, 0.5, 0.5];
    let zero_gamma = Control { gamma: 0.0, ..Control::default() };
    for (input, word) in [
        (WindowInput { embeddings: [&good[..7], &good[..7]], ..base }, "7 and 7"),
        (WindowInput { embeddings: [&good[..6], &good[..8]], ..base }, "6 and 8"),
        (WindowInput { embeddings: [&[], &[]], ..base }, "0 frames"),
        (WindowInput { embeddings: [&bad, &bad], stride: 2, ..base }, "frame 0, view 1"),
        (WindowInput { memory: &other, ..base }, "2×2"),
        (WindowInput { stride: 5, ..base }, "stride of 5"),
        (WindowInput { rules: &sampled, ..base }, "noise"),
        (WindowInput { control: zero_gamma, ..base }, "γ"),
    ] {
        let error = window.run(&input).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}
