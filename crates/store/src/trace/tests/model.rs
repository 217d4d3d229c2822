//! The log against a model of it: any sequence of appends, syncs, failures, crashes and restarts.

use super::super::log::Log;
use super::*;
use crate::storage::Fault;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Append,
    Write,
    Sync,
    /// The n-th operation from here fails.
    Fail(u64, Fault),
    /// The disk holds only so many bytes, or as many as wanted again.
    Full(Option<u64>),
    /// The process is killed and starts again.
    Kill,
    /// The power goes and comes back.
    PowerCut(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fault = prop_oneof![Just(Fault::Error), Just(Fault::ShortWrite), Just(Fault::LostSync)];
    let step = prop_oneof![
        12 => Just(Step::Append),
        4 => Just(Step::Write),
        4 => Just(Step::Sync),
        3 => (1u64..6, fault).prop_map(|(n, fault)| Step::Fail(n, fault)),
        1 => prop_oneof![(0u64..6000).prop_map(|bytes| Step::Full(Some(bytes))), Just(Step::Full(None))],
        1 => Just(Step::Kill),
        1 => any::<u64>().prop_map(Step::PowerCut),
    ];
    prop::collection::vec(step, 1..120)
}

/// What must be true: the numbers of the frames in the trace, of which the first `durable` are promised.
#[derive(Debug, Default)]
struct Model {
    frames: Vec<u64>,
    durable: usize,
    next: u64,
}

impl Model {
    /// A restart may keep any number of frames beyond the durable ones, and no others.
    fn restart(&mut self, found: &[u64]) {
        assert!(found.len() >= self.durable, "{} of {} durable frames", found.len(), self.durable);
        assert_eq!(
            Some(found),
            self.frames.get(..found.len()),
            "what is there is what was written, in order"
        );
        self.frames.truncate(found.len());
        self.durable = self.frames.len();
    }
}

/// A failure while opening may be reported; the next attempt must succeed. A disk that is full *and* fails to sync at
/// that moment is beyond what is promised: there is no room for the copy that would be needed.
fn reopen(fs: &Simulated) -> Log {
    fs.set_capacity(None);
    open(fs).or_else(|_| open(fs)).map(|(log, _)| log).unwrap_or_else(|error| panic!("{error}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_log_does_as_the_model_says(steps in steps()) {
        let mut fs = Simulated::default();
        let mut log = reopen(&fs);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Append => {
                    log.append(at(model.next), frame(model.next));
                    model.frames.push(model.next);
                    model.next += 1;
                }
                Step::Write => drop(log.write()),
                Step::Sync => {
                    if log.sync().is_ok() {
                        model.durable = model.frames.len();
                        prop_assert_eq!(log.durable_seq() + 1, log.next_seq());
                    }
                }
                Step::Fail(n, fault) => fs.fail_at(n, fault),
                Step::Full(bytes) => fs.set_capacity(bytes),
                Step::Kill => {
                    drop(log);
                    log = reopen(&fs);
                    model.restart(&frames(&read(&fs).0));
                }
                Step::PowerCut(seed) => {
                    drop(log);
                    fs = fs.after_power_cut(seed);
                    log = reopen(&fs);
                    model.restart(&frames(&read(&fs).0));
                }
            }
            let (entries, summary) = read(&fs);
            let found = frames(&entries);
            prop_assert!(found.len() >= model.durable);
            prop_assert_eq!(&found[..], &model.frames[..found.len()]);
            prop_assert_eq!(summary.missing, 0, "{:?}", summary);
        }
        fs.set_capacity(None);
        fs.heal();
        log.sync().unwrap();
        let (entries, summary) = read(&fs);
        prop_assert_eq!(frames(&entries), model.frames);
        prop_assert_eq!(summary.missing, 0);
        prop_assert_eq!(summary.last_seq + 1, log.next_seq());
    }
}
