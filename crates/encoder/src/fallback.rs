//! An executor on a device that may fail, with the processor behind it.
//!
//! A graphics device can run out of memory that it shares with everything else, or fail for good in the middle of a day.
//! Learning must not end with it. Everything that a window needs is on the host (parameters, statistics, images, gradients
//! of features), so the call that failed is done again on the processor, and so is every call after it.
//!
//! Back to the device goes only the next start of the program: after a fault of the driver this process cannot use it
//! any more, and a device that ran out of memory once will do so again.

use std::sync::{Arc, Mutex, PoisonError};

use super::{NormMode, Parameters, Statistics, TrainingEncoder};
use crate::{Error, Result};

/// What trains, in words that stay true: shared by those who ask and by the executor that may change it.
#[derive(Clone, Debug)]
pub struct Computing(Arc<Mutex<Words>>);

#[derive(Debug)]
struct Words {
    now: String,
    reason: Option<String>,
}

impl Computing {
    /// This one trains.
    pub fn new(name: impl Into<String>) -> Self {
        Self(Arc::new(Mutex::new(Words { now: name.into(), reason: None })))
    }

    /// What trains now.
    pub fn name(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now.clone()
    }

    /// Why it is not what was there at first, if it is not.
    pub fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).reason.clone()
    }

    /// From now on something else trains.
    pub fn change(&self, name: &str, reason: &str) {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *words = Words { now: name.to_owned(), reason: Some(reason.to_owned()) };
    }
}

/// An executor.
pub type Executor = Box<dyn TrainingEncoder + Send>;

/// See the [module](self).
pub struct WithFallback {
    now: Executor,
    /// Makes the executor that takes over; gone once it has.
    host: Option<Box<dyn FnOnce() -> Result<Executor> + Send>>,
    computing: Computing,
    /// What the last forward call was given, for a backward call that fails.
    forwarded: Option<Forwarded>,
}

struct Forwarded {
    statistics: Statistics,
    count: usize,
    norm: NormMode,
    features: usize,
}

impl WithFallback {
    /// Runs on `device` and, once that fails, on what `host` makes.
    pub fn new(
        device: Executor,
        host: impl FnOnce() -> Result<Executor> + Send + 'static,
        computing: Computing,
    ) -> Self {
        Self { now: device, host: Some(Box::new(host)), computing, forwarded: None }
    }

    /// Puts the processor in the place of a device that failed. Any other error, and any after that, is passed on.
    fn give_way(&mut self, error: Error) -> Result<()> {
        let Error::Device(reason) = &error else { return Err(error) };
        let Some(host) = self.host.take() else { return Err(error) };
        log::warn!("the GPU failed ({reason}): learning goes on, on the CPU, until the next start");
        self.now = host()?;
        self.computing.change("the CPU", reason);
        Ok(())
    }
}

impl TrainingEncoder for WithFallback {
    fn forward(
        &mut self,
        parameters: &Parameters,
        statistics: &mut Statistics,
        images: &[f32],
        count: usize,
        norm: NormMode,
        features: &mut [f32],
    ) -> Result<()> {
        if self.host.is_none() {
            return self.now.forward(parameters, statistics, images, count, norm, features);
        }
        self.forwarded = None;
        let before = statistics.clone();
        if let Err(error) = self.now.forward(parameters, statistics, images, count, norm, features) {
            self.give_way(error)?;
            statistics.clone_from(&before);
            return self.now.forward(parameters, statistics, images, count, norm, features);
        }
        self.forwarded = Some(Forwarded { statistics: before, count, norm, features: features.len() });
        Ok(())
    }

    fn backward(
        &mut self,
        parameters: &Parameters,
        images: &[f32],
        d_features: &[f32],
        gradients: &mut Parameters,
        mut d_images: Option<&mut [f32]>,
    ) -> Result<()> {
        let Err(error) =
            self.now.backward(parameters, images, d_features, gradients, d_images.as_deref_mut())
        else {
            return Ok(());
        };
        let Some(Forwarded { mut statistics, count, norm, features }) = self.forwarded.take() else {
            return Err(error);
        };
        self.give_way(error)?;
        // The processor has not seen this window yet. Its features are the device's but for rounding, and so the gradients
        // of them that are at hand will do.
        let mut features = vec![0.0; features];
        self.now.forward(parameters, &mut statistics, images, count, norm, &mut features)?;
        self.now.backward(parameters, images, d_features, gradients, d_images)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::host_ops::HostOps;
    use crate::init::random_parameters;
    use crate::stepwise::StepwiseEncoder;
    use crate::{Architecture, BatchNorm, Padding, Plan, TrainingOptions};

    const COUNT: usize = 3;

    /// Works on the host until its calls are used up, and spoils what it was given when it fails.
    struct Failing {
        inside: Executor,
        calls: usize,
        error: fn() -> Error,
    }

    impl Failing {
        fn works(&mut self) -> Result<()> {
            self.calls = self.calls.checked_sub(1).ok_or_else(self.error)?;
            Ok(())
        }
    }

    impl TrainingEncoder for Failing {
        fn forward(
            &mut self,
            parameters: &Parameters,
            statistics: &mut Statistics,
            images: &[f32],
            count: usize,
            norm: NormMode,
            features: &mut [f32],
        ) -> Result<()> {
            self.inside.forward(parameters, statistics, images, count, norm, features)?;
            let works = self.works();
            if works.is_err() {
                features.fill(f32::NAN);
                statistics.values.fill(f32::NAN);
            }
            works
        }

        fn backward(
            &mut self,
            parameters: &Parameters,
            images: &[f32],
            d_features: &[f32],
            gradients: &mut Parameters,
            d_images: Option<&mut [f32]>,
        ) -> Result<()> {
            self.inside.backward(parameters, images, d_features, gradients, d_images)?;
            let works = self.works();
            if works.is_err() {
                gradients.values.fill(f32::NAN);
            }
            works
        }
    }

    fn plan() -> Arc<Plan> {
        let batch_norm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };
        Arc::new(Architecture::conv4(1, false).plan(16, 16, Padding::Same, batch_norm).unwrap())
    }

    fn host(plan: &Arc<Plan>) -> Executor {
        let options = TrainingOptions::default();
        Box::new(StepwiseEncoder::new(Arc::clone(plan), HostOps::<f32>::default(), options).unwrap())
    }

    /// Two windows: what training sees of them.
    fn train(plan: &Plan, encoder: &mut dyn TrainingEncoder) -> Result<Vec<f32>> {
        let parameters = random_parameters(Architecture::conv4(1, false), plan, 1);
        let mut statistics = plan.fresh_statistics();
        let mut seen = Vec::new();
        for window in 0..2 {
            let images: Vec<f32> =
                (0..COUNT * plan.image.len()).map(|at| ((at + window) as f32 * 0.37).sin()).collect();
            let mut features = vec![0.0; COUNT * plan.features];
            let mut gradients = plan.zero_parameters();
            encoder.forward(&parameters, &mut statistics, &images, COUNT, NormMode::Window, &mut features)?;
            encoder.backward(&parameters, &images, &features, &mut gradients, None)?;
            seen.extend(features);
            seen.extend(&gradients.values);
            seen.extend(&statistics.values);
        }
        Ok(seen)
    }

    fn falling(plan: &Arc<Plan>, calls: usize, error: fn() -> Error) -> (WithFallback, Arc<AtomicUsize>) {
        let made = Arc::new(AtomicUsize::new(0));
        let (count, spare) = (Arc::clone(&made), Arc::clone(plan));
        let device = Box::new(Failing { inside: host(plan), calls, error });
        let fallback = move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(host(&spare))
        };
        (WithFallback::new(device, fallback, Computing::new("a GPU")), made)
    }

    #[test]
    fn a_device_that_fails_anywhere_gives_way_and_nothing_is_lost() {
        let plan = plan();
        let right = train(&plan, host(&plan).as_mut()).unwrap();
        for calls in 0..=4 {
            let (mut encoder, made) = falling(&plan, calls, || Error::Device("out of memory".into()));
            let seen = train(&plan, &mut encoder).unwrap();
            assert_eq!(seen, right, "after {calls} calls");
            let fell = usize::from(calls < 4);
            assert_eq!(made.load(Ordering::Relaxed), fell);
            let (name, reason) = (encoder.computing.name(), encoder.computing.reason());
            if fell == 1 {
                assert_eq!((name.as_str(), reason.as_deref()), ("the CPU", Some("out of memory")));
            } else {
                assert_eq!((name.as_str(), reason), ("a GPU", None));
            }
        }
    }

    #[test]
    fn errors_that_are_not_the_devices_are_passed_on() {
        let plan = plan();
        let (mut encoder, made) = falling(&plan, 1, || Error::input("the encoder was given too little"));
        assert!(matches!(train(&plan, &mut encoder), Err(Error::Input(_))));
        assert_eq!(made.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn there_is_nothing_behind_the_processor() {
        let plan = plan();
        let device = |calls| {
            let error = || Error::Device("gone".into());
            Box::new(Failing { inside: host(&plan), calls, error })
        };
        let spare = device(1);
        let mut encoder = WithFallback::new(device(1), move || Ok(spare), Computing::new("a GPU"));
        assert_eq!(train(&plan, &mut encoder).unwrap_err().to_string(), "gone");
    }
}
