//! What a recording says when it has ended.

use std::path::Path;

use serde_json::json;

use super::arguments::RunArgs;
use crate::cli::plain::plain;
use crate::cli::print;
use oupn_base::words;
use oupn_edge::Result;
use oupn_edge::run::{Ended, RunPlan};
use oupn_edge::trace::StopReason;

/// Prints the summary, for people or as JSON.
pub(super) fn summarise(args: &RunArgs, plan: &RunPlan, ended: &Ended) -> Result<()> {
    let trace = plan.data.join("trace");
    if args.json {
        let line = json!({
            "reason": ended.reason, "frames": ended.frames, "updates": ended.updates, "skipped_updates": ended.skipped,
            "comparisons": ended.compared.0, "publications": ended.compared.1,
            "bad_pictures": ended.corrupt, "missing": ended.missing, "categories": ended.categories, "merges": ended.merges, "created": ended.created, "founded": ended.created,
            "seconds": ended.seconds, "ami": ended.score.ami(), "ami_frames": ended.score.frames(),
            "things": ended.score.things(), "trace": trace,
        });
        return print(&format!("{line}\n"));
    }
    print(&in_words(plan, ended, &trace))
}

fn in_words(plan: &RunPlan, ended: &Ended, trace: &Path) -> String {
    let why = match ended.reason {
        StopReason::Signal => "stopped on request",
        StopReason::Frames => "as many frames as asked for",
        StopReason::Time => "the time asked for is over",
        StopReason::EndOfSource => "the source has no more frames",
        StopReason::Error | StopReason::Unknown => "something failed",
    };
    let mut text = format!(
        "\n{}, one every {} s, in {}: {why}\n\n",
        words::frames(ended.frames),
        plan.period.as_secs_f64(),
        words::duration(ended.seconds)
    );
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<12} {value}\n"));
    let joined =
        if ended.merges > 0 { format!(", {} joined into older ones", ended.merges) } else { String::new() };
    line("categories", format!("{} in memory, {} created so far{joined}", ended.categories, ended.created));
    let skipped = if ended.skipped > 0 { format!(", {} thrown away", ended.skipped) } else { String::new() };
    let compared = match ended.compared {
        (0, _) => String::new(),
        (comparisons, better) => {
            format!("; what was learned was better, and taken up, {better} of {comparisons} times")
        }
    };
    line("learning", format!("{} of the encoder{skipped}{compared}", words::updates(ended.updates)));
    if ended.corrupt > 0 {
        let pictures = words::counted(ended.corrupt, "picture", "pictures");
        line("left out", format!("{pictures} that could not be used"));
    }
    if let Some(missing) = &ended.missing {
        line("left out", plain(missing).into_owned());
    }
    if let Some(ami) = ended.score.ami() {
        line(
            "agreement",
            format!(
                "AMI {ami:.2} between categories and truth, last {} of {} (1: the same grouping, 0: chance)",
                words::frames(ended.score.frames() as u64),
                words::counted(ended.score.things() as u64, "thing", "things")
            ),
        );
    }
    line("trace", trace.display().to_string());
    line("look at it", format!("oupn-edge report {} -o report.html", plan.data.display()));
    line("go on", format!("oupn-edge record --data {}", plan.data.display()));
    text
}
