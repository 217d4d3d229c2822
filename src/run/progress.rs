//! How much of a recording is done, where its length is known.

use super::session::Session;

impl Session {
    /// The share that is done, from 0 to 1, of whatever ends first: the frames or the time that were asked for, or the
    /// source. Nothing for a recording that goes on until it is stopped.
    pub(super) fn progress(&self) -> Option<f32> {
        let (options, state) = (&self.options, &self.state);
        let frames = options.frames.map(|frames| state.frames as f64 / frames.max(1) as f64);
        let seen = state.last_time.saturating_sub(state.first_time.unwrap_or(state.last_time));
        let time = options.time.map(|time| seen as f64 / 1e9 / time.as_secs_f64().max(1e-9));
        let source = self.feed.length().map(|length| self.feed.next_sequence() as f64 / length.max(1) as f64);
        let known = [frames, time, source].into_iter().flatten();
        #[allow(clippy::cast_possible_truncation)]
        known.reduce(f64::max).map(|share| share.clamp(0.0, 1.0) as f32)
    }
}
