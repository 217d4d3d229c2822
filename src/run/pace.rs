//! How often to learn: the stride grows when learning cannot keep up, and shrinks back when it can.
//!
//! A window that was due while the learner was still busy is late. A late window doubles the stride, up to the window's
//! length (consecutive windows, the least that still learns from every frame). After [`CALM`] windows in a row that were
//! on time with the learner idle for more than half of the stride, it is halved again, down to the stride that was
//! asked for. While the machine is too hot, windows are consecutive.

use crate::trace;

/// Windows on time that must follow each other before the stride shrinks.
const CALM: u32 = 3;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct StridePace {
    wanted: usize,
    window: usize,
    stride: usize,
    calm: u32,
    hot: bool,
    /// The share of the last stride that the learner was busy for.
    busy_share: f64,
}

impl StridePace {
    /// Starts with `stride`; `wanted` is what was asked for.
    pub fn new(wanted: usize, window: usize, stride: usize) -> Self {
        Self { wanted, window, stride: stride.clamp(wanted, window), calm: 0, hot: false, busy_share: 0.0 }
    }

    /// Frames from the window that begins now to the next one.
    pub fn stride(&self) -> usize {
        if self.hot { self.window } else { self.stride }
    }

    /// Notes for how much of its stride's time an update kept the learner busy.
    pub fn took(&mut self, seconds: f64, period_s: f64) {
        self.busy_share = seconds / (self.stride() as f64 * period_s).max(f64::MIN_POSITIVE);
    }

    /// Notes a window that was handed over `late` frames after it was due; the change of stride, if there is one.
    pub fn launched(&mut self, late: usize, left_out: u64) -> Option<trace::Stride> {
        let from = self.stride;
        let reason = if late > 0 {
            self.calm = 0;
            self.stride = (2 * self.stride).min(self.window);
            match left_out {
                0 => format!("a window was {late} frames late: learning cannot keep up"),
                _ => format!(
                    "a window was {late} frames late and {left_out} frames were left out: learning cannot keep up"
                ),
            }
        } else {
            self.calm = if self.busy_share < 0.5 { self.calm + 1 } else { 0 };
            if self.calm >= CALM && self.stride > self.wanted {
                self.calm = 0;
                self.stride = (self.stride / 2).max(self.wanted);
            }
            "learning keeps up again".to_owned()
        };
        change(from, self.stride, reason)
    }

    /// Notes whether the machine is too hot; the change of stride, if there is one.
    pub fn set_hot(&mut self, hot: bool) -> Option<trace::Stride> {
        let from = self.stride();
        self.hot = hot;
        let reason = if hot { "the machine is too hot" } else { "the machine has cooled down" };
        change(from, self.stride(), reason.to_owned())
    }
}

#[allow(clippy::cast_possible_truncation)]
fn change(from: usize, to: usize, reason: String) -> Option<trace::Stride> {
    (from != to).then_some(trace::Stride { from: from as u32, to: to as u32, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_windows_lengthen_the_stride_and_calm_ones_shorten_it() {
        let mut pace = StridePace::new(15, 75, 15);
        assert!(pace.launched(0, 0).is_none());
        let strides: Vec<_> = (0..4).map(|_| pace.launched(2, 0).map(|change| change.to)).collect();
        assert_eq!(strides, [Some(30), Some(60), Some(75), None]);
        pace.took(100.0, 4.0);
        let strides: Vec<_> = (0..9).map(|_| pace.launched(0, 0).map(|change| change.to)).collect();
        assert_eq!(strides[2..], [Some(37), None, None, Some(18), None, None, Some(15)]);
        assert!(pace.launched(0, 0).is_none());
    }

    #[test]
    fn a_learner_that_is_just_fast_enough_keeps_its_stride() {
        let mut pace = StridePace::new(15, 75, 60);
        for _ in 0..20 {
            pace.took(200.0, 4.0);
            assert!(pace.launched(0, 0).is_none());
        }
    }

    #[test]
    fn heat_asks_for_consecutive_windows() {
        let mut pace = StridePace::new(15, 75, 15);
        assert_eq!(pace.set_hot(true).unwrap().to, 75);
        assert_eq!((pace.stride(), pace.set_hot(true)), (75, None));
        assert_eq!(pace.set_hot(false).unwrap().to, 15);
    }
}
