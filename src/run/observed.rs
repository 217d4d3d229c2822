//! What the trace says of one recognised frame.

use crate::memory::Observation;
use crate::trace::{Frame, RunnerUp};

/// The record of an observation by the live memory; capture times and truth are the caller's to add.
pub(super) fn observed(frame: u64, observation: &Observation) -> Frame {
    let own = |category: u64| !observation.created && category == observation.category;
    let candidates = || observation.top.iter();
    let runners_up = candidates().filter(|c| !own(c.category));
    let runners_up =
        runners_up.map(|c| RunnerUp { category: c.category, share: c.share, similarity: c.similarity });
    Frame {
        frame,
        category: observation.category,
        created: observation.created,
        evicted: observation.evicted,
        u_hat: observation.new_probability,
        similarity: observation.similarity,
        share: candidates().find(|c| own(c.category)).map(|c| c.share),
        runners_up: runners_up.collect(),
        captured_ns: None,
        source_ns: None,
        camera_sequence: None,
        latency_ms: None,
        truth: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_becomes_a_record_with_its_category_apart_from_the_runners_up() {
        use crate::memory::live::Candidate;
        let candidate = |category, share| Candidate { category, share, similarity: share / 2.0 };
        let mut observation = Observation {
            category: 7,
            created: false,
            evicted: None,
            new_probability: 0.125,
            similarity: 0.25,
            top: [candidate(7, 0.5), candidate(3, 0.25)].into_iter().collect(),
        };
        let record = observed(12, &observation);
        assert_eq!((record.frame, record.category, record.share, record.u_hat), (12, 7, Some(0.5), 0.125));
        assert_eq!(record.runners_up, [RunnerUp { category: 3, share: 0.25, similarity: 0.125 }]);

        observation = Observation { category: 8, created: true, evicted: Some(2), ..observation };
        let record = observed(13, &observation);
        assert_eq!((record.category, record.share, record.evicted), (8, None, Some(2)));
        assert_eq!(record.runners_up.iter().map(|c| c.category).collect::<Vec<_>>(), [7, 3]);
    }
}
