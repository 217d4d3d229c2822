//! Recorded sources through the real binary: whose times frames have, what goes on in a used folder, whose commands are run.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::recording::{Place, records, said};

const TWENTY: [&str; 20] = [
    "1.png", "2.png", "3.png", "4.png", "5.png", "6.png", "7.png", "8.png", "9.png", "10.png", "11.png",
    "12.png", "13.png", "14.png", "15.png", "16.png", "17.png", "18.png", "19.png", "20.png",
];

fn exported(place: &Place, words: &[&str]) -> String {
    let output = place.call(&[&["export"], words, &["-o", "-"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn pictures_without_times_take_a_period_each_and_no_wall_time() {
    let place = Place::new();
    place.pictures("photos", &TWENTY);
    let output = place.record(&["--camera", "photos", "--period", "1s", "--data", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("each counts as one --period, 1 s"), "{}", said(&output));
    let frames = rows(&exported(&place, &["run", "--format", "jsonl"]));
    let seconds: Vec<f64> = frames.iter().map(|row| row["seconds"].as_f64().unwrap()).collect();
    assert_eq!(seconds, (0..20).map(f64::from).collect::<Vec<_>>());
    // Neither the trace nor any table has the time of the processing for a frame.
    assert!(records(&place.path("run"), "frame").iter().all(|frame| frame.get("wall").is_none()));
    for what in ["frames", "segments", "updates", "events"] {
        let rows = rows(&exported(&place, &["run", "--format", "jsonl", "--what", what]));
        assert!(!rows.is_empty() && rows.iter().all(|row| row["wall"].is_null()), "{what}");
    }
    exported(&place, &["run", "--format", "csv"]);
    let report = place.call(&["report", "run", "-o", "report.html"]);
    assert!(report.status.success(), "{}", said(&report));
    let html = std::fs::read_to_string(place.path("report.html")).unwrap();
    assert!(html.contains("not known: the source does not tell"));
}

#[test]
fn a_rate_and_a_start_time_give_pictures_their_times() {
    let place = Place::new();
    place.pictures("photos", &TWENTY);
    place.recorded(&[
        "--camera",
        "photos",
        "--rate",
        "2",
        "--period",
        "1s",
        "--start-time",
        "2026-03-05T11:00:00+01:00",
        "--data",
        "run",
    ]);
    let frames = rows(&exported(&place, &["run", "--format", "jsonl"]));
    assert_eq!(frames.len(), 10, "two pictures a second, one sample a second");
    let wall: Vec<&str> = frames.iter().map(|row| row["wall"].as_str().unwrap()).collect();
    assert_eq!((wall[0], wall[9]), ("2026-03-05T10:00:00Z", "2026-03-05T10:00:09Z"));
    let report = place.call(&["report", "run", "-o", "report.html"]);
    assert!(report.status.success(), "{}", said(&report));
    let html = std::fs::read_to_string(place.path("report.html")).unwrap();
    assert!(html.contains("2026-03-05 10:00:00 to 2026-03-05 10:00:09 UTC"), "{html}");

    let live = "pipe:printf 'YUV4MPEG2 W16 H16 F20:1 Cmono\\nFRAME\\n'; head -c 256 /dev/urandom; sleep 100";
    let refused = place.record(&["--camera", live, "--data", "live", "--start-time", "2026-03-05T11:00:00Z"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("--start-time is for recordings"), "{}", said(&refused));
}

#[test]
fn a_list_of_times_tells_the_date() {
    let place = Place::new();
    place.pictures("tum/rgb", &["a.png", "b.png"]);
    std::fs::write(place.path("tum/rgb.txt"), "1305031452.5 rgb/a.png\n1305031460.75 rgb/b.png\n").unwrap();
    place.recorded(&["--camera", "tum", "--data", "run"]);
    let frames = records(&place.path("run"), "frame");
    assert_eq!(
        (&frames[0]["wall"], &frames[1]["wall"]),
        (&"2011-05-10T12:44:12.5Z".into(), &"2011-05-10T12:44:20.75Z".into())
    );
    assert_eq!(frames[0]["synced"], false, "nobody has checked that clock");
}

/// Begin and end of each annotation, by tier.
fn elan(text: &str) -> BTreeMap<String, Vec<(f64, f64)>> {
    let mut tiers: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [tier, begin, end, _] = fields[..] else { panic!("{line}") };
        tiers.entry(tier.to_owned()).or_default().push((begin.parse().unwrap(), end.parse().unwrap()));
    }
    tiers
}

#[test]
fn another_source_or_name_goes_on_only_when_asked_and_annotations_never_overlap() {
    let place = Place::new();
    place.pictures("photos", &TWENTY);
    let rooms = ["--camera", "rooms:5", "--realtime", "off", "--frames", "20", "--period", "1s"];
    // Without --data, as in the folder that everybody gets.
    place.recorded(&["--camera", "photos", "--period", "1s"]);
    let refused = place.record(&rooms);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    for word in ["photos", "rooms:5", "--data", "--continue-with"] {
        assert!(said(&refused).contains(word), "{word}: {}", said(&refused));
    }
    let data = place.path("oupn-edge-data");
    assert_eq!(records(&data, "frame").len(), 20, "nothing was added");
    let refused = place.record(&["--camera", "photos", "--name", "ben"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    for word in ["ben", "--data", "--continue-with"] {
        assert!(said(&refused).contains(word), "{word}: {}", said(&refused));
    }

    place.recorded(&[&rooms[..], &["--continue-with", "--name", "ben"]].concat());
    // The same words again just go on, also by the folder alone.
    place.recorded(&[&rooms[..], &["--name", "ben"]].concat());
    place.recorded(&["--frames", "5"]);
    assert_eq!(records(&data, "frame").len(), 65);

    let frames = rows(&exported(&place, &["oupn-edge-data", "--format", "jsonl"]));
    let seconds: Vec<f64> = frames.iter().map(|row| row["seconds"].as_f64().unwrap()).collect();
    assert!(seconds.windows(2).all(|pair| pair[0] < pair[1]), "{seconds:?}");
    assert_eq!((seconds[19], seconds[20], seconds[40]), (19.0, 20.0, 40.0));
    assert_eq!((&frames[60]["device"], &frames[60]["session"]), (&"ben".into(), &4.into()));
    assert_ne!(frames[0]["device"], "ben");
    for what in ["segments", "events"] {
        let text = exported(&place, &["oupn-edge-data", "--format", "elan", "--what", what]);
        for (tier, mut annotations) in elan(&text) {
            annotations.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(annotations.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{tier}: {annotations:?}");
        }
    }
    // BORIS has no rule of its own against it, but states that overlap would be as wrong.
    let boris = exported(&place, &["oupn-edge-data", "--format", "boris"]);
    let times: Vec<f64> =
        boris.lines().map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
    let report = place.call(&["report", "oupn-edge-data", "-o", "report.html"]);
    assert!(report.status.success());
    let html = std::fs::read_to_string(place.path("report.html")).unwrap();
    assert!(html.contains("photos: 20 pictures") && html.contains("seed 5"), "both sources are named");
}

#[test]
fn a_source_that_cannot_be_opened_does_not_take_the_folder() {
    let place = Place::new();
    place.pictures("photos", &["1.png"]);
    assert_eq!(place.record(&["--camera", "absent", "--data", "run"]).status.code(), Some(2));
    place.recorded(&["--camera", "photos", "--data", "run"]);
    // Another name of the same thing is the same thing.
    place.recorded(&["--camera", "./photos/../photos", "--data", "run"]);
}

#[test]
fn a_command_from_a_foreign_data_folder_is_not_run() {
    let place = Place::new();
    let frame = "printf 'YUV4MPEG2 W16 H16 F20:1 Cmono\\n'; for i in 1 2 3; do printf 'FRAME\\n'; head -c 256 /dev/zero; done";
    let command = format!("pipe:{frame}");
    let first = ["--camera", &command, "--realtime", "off", "--data", "run"];
    place.recorded(&first);
    // One's own folder goes on by itself.
    place.recorded(&["--data", "run"]);

    let file = place.path("run/run.toml");
    let own = std::fs::read_to_string(&file).unwrap();
    let foreign = |text: String| {
        std::fs::write(&file, text).unwrap();
        let output = place.record(&["--data", "run"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("it is not run"), "{}", said(&output));
        assert!(!place.path("PWNED").exists());
    };
    // Another command with this machine's mark, and the same command with another's or none.
    let camera = own.lines().find(|line| line.starts_with("camera = ")).unwrap();
    foreign(own.replace(camera, &format!("camera = \"pipe:touch {}; cat\"", place.path("PWNED").display())));
    let mark = own.lines().find(|line| line.starts_with("command_mark = ")).unwrap();
    foreign(own.replace(mark, &format!("command_mark = \"{}\"", "0".repeat(64))));
    foreign(own.replace(mark, ""));
    // Said again by the user, it runs.
    place.recorded(&first);
    place.recorded(&["--data", "run"]);
}
