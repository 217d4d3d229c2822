//! How a running recording is doing, for people: what `status` answers, in words and units.

use serde_json::Value;

use super::plain::plain;
use oupn_base::words;

/// The answer as a few lines. What the recording does not know is left out.
pub(super) fn for_people(answer: &Value) -> String {
    let text = |key: &str| plain(answer[key].as_str().unwrap_or_default());
    let whole = |key: &str| answer[key].as_u64().unwrap_or_default();
    let number = |key: &str| answer[key].as_f64();
    let is = |key: &str| answer[key] == Value::Bool(true);

    let running = number("running_s").map(|seconds| format!(" for {}", words::duration(seconds)));
    let doing = if is("paused") { "paused, started" } else { "recording" };
    let since = match is("paused") {
        true => number("running_s").map(|seconds| format!(" {} ago", words::duration(seconds))),
        false => running,
    };
    let done = number("progress").map(|share| format!(", {:.0} % done", 100.0 * share));
    let mut lines =
        format!("{}: {doing}{}{}\n", text("device"), since.unwrap_or_default(), done.unwrap_or_default());
    let mut line = |name: &str, parts: &[Option<String>]| {
        let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
        if !parts.is_empty() {
            lines.push_str(&format!("  {name:<11} {}\n", parts.join(", ")));
        }
    };

    let camera = &answer["camera"];
    let rate = camera["rate"].as_f64().filter(|rate| *rate > 0.0);
    let some = |count: &Value, what: &str| {
        count.as_u64().filter(|count| *count > 0).map(|count| format!("{count} {what}"))
    };
    line(
        "camera",
        &[
            (camera["present"] == false).then(|| "LOST, being tried again".to_owned()),
            camera["description"].as_str().map(|source| plain(source).into_owned()),
            rate.map(|rate| format!("{rate:.1} pictures/s")),
            some(&camera["missed"], "missed"),
            some(&camera["corrupt"], "damaged"),
        ],
    );
    let newest =
        answer["newest"]["category"].as_u64().map(|category| format!("the newest in category {category}"));
    line(
        "frames",
        &[
            Some(whole("frames").to_string()),
            number("period_s").map(|period| format!("one every {period} s")),
            newest,
        ],
    );
    line(
        "categories",
        &[
            Some(format!("{} in memory", whole("categories"))),
            Some(format!("{} created so far", whole("created").max(whole("founded")))),
            some(&answer["merges"], "joined into older ones"),
        ],
    );
    line(
        "learning",
        &[
            Some(words::updates(whole("updates"))),
            Some(format!("one every {}", words::frames(whole("stride")))),
            some(&answer["comparisons"], "comparisons with the weights in use")
                .map(|comparisons| format!("{comparisons}, {} better", whole("publications"))),
            answer["compute"].as_str().map(|compute| format!("on {}", plain(compute))),
            some(&answer["skipped_updates"], "thrown away"),
            number("learning_s").map(|_| "one is being computed".to_owned()),
            is("collapsed").then(|| "COLLAPSED: all frames look alike to the encoder".to_owned()),
        ],
    );
    let level = match &*text("disk") {
        "low" => Some("LOW: only what must be kept is written".to_owned()),
        "critical" => Some("CRITICAL: nothing but the trace is written".to_owned()),
        _ => None,
    };
    let health = &answer["health"];
    let free = health["free_bytes"].as_u64().map(|free| format!("{} free", words::bytes(free)));
    let trouble = &answer["disk_trouble"];
    let trouble = trouble["what"].as_str().map(|what| {
        let lasting = words::duration(trouble["seconds"].as_f64().unwrap_or_default());
        format!("IN TROUBLE for {lasting} ({})", plain(what))
    });
    line("disk", &[trouble, free, level, Some(format!("safe up to record {}", whole("durable_seq")))]);
    line(
        "machine",
        &[
            health["celsius"].as_f64().map(|celsius| format!("{celsius:.0} °C")),
            health["watts"].as_f64().map(|watts| format!("{watts:.1} W")),
            health["resident_bytes"].as_u64().map(|held| format!("{} of memory", words::bytes(held))),
        ],
    );
    line("data", &[answer["data"].as_str().map(|data| plain(data).into_owned())]);
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_grouped_and_has_units() {
        let mut answer = json!({
            "device": "p07", "paused": false, "running_s": 3725.2, "progress": 0.25, "period_s": 4.0, "frames": 1,
            "camera": {
                "description": "USB Camera, MJPG 640x480@30", "present": true, "rate": 29.97, "missed": 2, "corrupt": 0,
            },
            "newest": {"category": 3}, "categories": 4, "created": 5, "updates": 1, "stride": 15,
            "skipped_updates": 0, "compute": "the CPU", "learning_s": 1.5, "collapsed": false, "durable_seq": 54,
            "disk": "ample",
            "health": {"free_bytes": 118_u64 << 30, "resident_bytes": 300 << 20, "celsius": 48.4},
            "disk_trouble": null, "data": "walk-1",
        });
        assert_eq!(
            for_people(&answer),
            "p07: recording for 1 h 2 min, 25 % done\n\
             \x20 camera      USB Camera, MJPG 640x480@30, 30.0 pictures/s, 2 missed\n\
             \x20 frames      1, one every 4 s, the newest in category 3\n\
             \x20 categories  4 in memory, 5 created so far\n\
             \x20 learning    1 update, one every 15 frames, on the CPU, one is being computed\n\
             \x20 disk        118 GiB free, safe up to record 54\n\
             \x20 machine     48 °C, 300 MiB of memory\n\
             \x20 data        walk-1\n"
        );
        answer["merges"] = json!(2);
        answer["comparisons"] = json!(9);
        answer["publications"] = json!(3);
        answer["paused"] = json!(true);
        answer["camera"]["present"] = json!(false);
        answer["disk"] = json!("low");
        answer["disk_trouble"] = json!({"what": "No space left", "seconds": 90});
        let words = for_people(&answer);
        assert!(
            words.contains("paused, started 1 h 2 min ago")
                && words.contains("5 created so far, 2 joined into older ones")
                && words.contains("9 comparisons with the weights in use, 3 better")
                && words.contains("LOST")
                && words.contains("LOW")
                && words.contains("IN TROUBLE for 1 min 30 s (No space left)"),
            "{words}"
        );
        // An older recording knows less.
        assert!(!for_people(&json!({ "device": "x" })).contains("null"));
    }
}
