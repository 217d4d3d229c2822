//! `oupn-edge paper`: tables of the paper on small data, through the real binary.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::program::{oupn_edge, text};
use crate::support::small_omniglot;

fn paper(folder: &Path, table: &str, more: &[&str]) -> Output {
    let (data, out) = (folder.join("data"), folder.join("out"));
    let fixed = ["--data", data.to_str().unwrap(), "--output", out.to_str().unwrap(), "--episodes", "2"];
    oupn_edge(&[&["paper", table][..], &fixed, more].concat())
}

fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Every row of the table learns and is scored, once; what is done is not computed again, and shares become one table.
#[test]
fn a_table_is_computed_row_by_row_and_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    small_omniglot::write(&folder.path().join("data"));
    let small = ["--budget", "2", "--seeds", "1"];
    let with = |more: &[&'static str]| paper(folder.path(), "omniglot", &[&small[..], more].concat());
    let list = done(&with(&["--list"]));
    assert_eq!(list.matches("to do").count(), 8, "{list}");

    // Two machines, a half each.
    let half = done(&with(&["--share", "1/2"]));
    assert!(half.contains("4 of 8 cells are done") && half.contains("(1 to do)"), "{half}");
    let whole = done(&with(&["--share", "2/2"]));
    assert!(!whole.contains("to do"), "{whole}");
    for (row, published) in [
        ("Pretrain-Supervised", "84.48 | 93.83"),
        ("Online ProtoNet", "89.64 | 92.58"),
        ("Random network", "17.66 | 17.01"),
        ("SimCLR", "59.06 | 73.50"),
        ("SwAV", "62.09 | 75.93"),
        ("SwAV + queue", "67.25 | 81.96"),
        ("SimSiam", "45.57 | 56.12"),
        ("OUPN", "84.42 | 92.84"),
    ] {
        let line = whole.lines().find(|line| line.starts_with(&format!("| {row} |")));
        let line = line.unwrap_or_else(|| panic!("{row}: {whole}"));
        assert!(line.contains(published) && !line.contains('–'), "{line}");
    }
    let out = folder.path().join("out");
    let list = done(&with(&["--list"]));
    assert_eq!(list.matches("done").count(), 8, "{list}");
    let mut models = Vec::new();
    for id in list.lines().filter_map(|line| line.split_whitespace().next()) {
        let cell = out.join("cells").join(id);
        let result: Value = serde_json::from_slice(&fs::read(cell.join("result.json")).unwrap()).unwrap();
        for key in ["ami", "ap", "ami_first_ten"] {
            assert!((0.0..=1.0).contains(&result[key].as_f64().unwrap().abs()), "{key}: {result}");
        }
        models.push(fs::read(cell.join("model.safetensors")).unwrap());
        assert!(!cell.join("checkpoints").exists());
    }
    models.sort();
    models.dedup();
    // In two windows the queue does not fill, so SwAV is the same with it.
    assert_eq!(models.len(), 7, "each other row has learned something of its own");

    // The whole table again says the same and computes nothing: no data are looked for.
    fs::remove_dir_all(folder.path().join("data")).unwrap();
    let again = done(&with(&[]));
    let rows =
        |said: &str| said.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rows(&again), rows(&whole));
    assert_eq!(rows(&fs::read_to_string(out.join("omniglot.md")).unwrap()), rows(&whole));
    let csv = fs::read_to_string(out.join("omniglot.csv")).unwrap();
    assert_eq!(csv.lines().count(), 9, "{csv}");
    // The ablations' preset is the OUPN row of this table, wherever it was computed.
    let shared = done(&paper(folder.path(), "K", &[&small[..], &["--list"]].concat()));
    assert_eq!(shared.lines().filter(|line| line.contains("done")).count(), 1, "{shared}");
}

/// A cell that is told to stop keeps what it has learned, and comes to the same weights as one that never stopped.
#[test]
fn a_stopped_table_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    small_omniglot::write(&at("data"));
    let arguments = |out: &str| {
        let (data, out) = (at("data").display().to_string(), at(out).display().to_string());
        // The fourth cell is SimCLR's.
        let what =
            ["paper", "omniglot", "--budget", "12", "--seeds", "1", "--episodes", "1", "--share", "4/8"];
        let places = ["--data", &data, "--output", &out].map(str::to_owned);
        what.map(str::to_owned).into_iter().chain(places).collect::<Vec<_>>()
    };
    let command = |out: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oupn-edge"));
        command.args(arguments(out)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let child = command("stopped").spawn().unwrap();
    let cells = at("stopped").join("cells");
    let begun = || {
        let mut cells = fs::read_dir(&cells).ok()?;
        let cell = cells.next()?.ok()?.path();
        cell.join("cell.json").exists().then_some(cell)
    };
    let cell = (0..1200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        begun()
    });
    let cell = cell.unwrap();
    // It has signals in hand before it opens a cell.
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let said = done(&child.wait_with_output().unwrap());
    assert!(said.contains("0 of 8 cells are done; the same command goes on"), "{said}");
    assert!(fs::read_dir(cell.join("checkpoints")).unwrap().count() > 0, "what was learned is kept");
    assert!(!cell.join("result.json").exists());

    assert!(done(&command("stopped").output().unwrap()).contains("1 of 8 cells are done"));
    done(&command("whole").output().unwrap());
    let name = cell.file_name().unwrap();
    let model = |out: &str| fs::read(at(out).join("cells").join(name).join("model.safetensors")).unwrap();
    assert!(model("stopped") == model("whole"), "not the same weights");
}

#[test]
fn what_cannot_be_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |table: &str, more: &[&str]| {
        let output = paper(folder.path(), table, more);
        assert_eq!(output.status.code(), Some(2), "{table} {more:?}");
        text(&output.stderr)
    };
    assert!(refused("cifar", &[]).contains("lambda-new"), "the tables are listed");
    assert!(refused("mu", &["--share", "3/2"]).contains("as 2/4"));
    refused("mu", &["--budget", "0"]);
    assert!(refused("mu", &["--budget", "1"]).contains("data"), "the folder is not there");
    let no_data = oupn_edge(&["paper", "mu", "--output", folder.path().to_str().unwrap()]);
    assert!(text(&no_data.stderr).contains("--data"));
}
