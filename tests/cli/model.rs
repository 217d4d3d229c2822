//! `oupn-edge model`, the real binary: weights in, weights out, and files that do not fit.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use oupn_edge::encoder::ModelCard;
use oupn_edge::encoder::init::random_parameters;
use oupn_edge::tensors::{self, Tensor, TensorFile};

const CARD: &str = "mobilenet_v2_0.35_imagenet";

fn model(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oupn-edge")).arg("model").args(arguments).output().unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let run = model(arguments);
    let message = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

/// Weights of width 0.35 as torchvision would save them, with a classifier and counters of batches.
fn torchvision_tensors() -> BTreeMap<String, Tensor> {
    let card = ModelCard::known().unwrap().into_iter().find(|card| card.name == CARD).unwrap();
    let plan = card.plan(224, 224, 0.1).unwrap();
    let parameters = random_parameters(card.encoder, &plan, 1);
    let statistics = plan.fresh_statistics();
    let mut named = BTreeMap::new();
    let mut put = |name: &str, shape: &[usize], values: &[f32]| {
        named.insert(name.to_owned(), Tensor { shape: shape.to_vec(), values: values.to_vec() });
    };
    for (index, spec) in parameters.specs().iter().enumerate() {
        put(&spec.name, &spec.shape, parameters.tensor(index));
    }
    for (index, spec) in statistics.specs().iter().enumerate() {
        put(&spec.name, &spec.shape, statistics.tensor(index));
        put(
            &spec
                .name
                .replace("running_mean", "num_batches_tracked")
                .replace("running_var", "num_batches_tracked"),
            &[],
            &[5.0],
        );
    }
    put("classifier.1.weight", &[2, 1280], &[0.0; 2560]);
    put("classifier.1.bias", &[2], &[0.0; 2]);
    named
}

fn write(folder: &Path, name: &str, named: &BTreeMap<String, Tensor>) -> PathBuf {
    let path = folder.join(name);
    tensors::write(&path, named, HashMap::new()).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn imported_weights_carry_their_card() {
    let folder = tempfile::tempdir().unwrap();
    let named = torchvision_tensors();
    let (input, out) =
        (write(folder.path(), "mine.safetensors", &named), folder.path().join("out.safetensors"));
    let message = refused(&["import", text(&input), "-o", text(&out)]);
    assert!(message.contains("no model card") && message.contains("--card"), "{message}");
    let run = model(&["import", text(&input), "-o", text(&out), "--card", CARD]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));

    let run = model(&["info", text(&out), "--json"]);
    let info: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(info["card"]["name"], CARD);
    assert_eq!(info["parameters"], 396_128);
    assert_eq!(info["statistics"], 14_080);
    assert_eq!(info["features"], 1280);
    let run = model(&["info", text(&out)]);
    let summary = String::from_utf8(run.stdout).unwrap();
    assert!(
        summary.contains("MobileNet-V2 width 0.35") && summary.contains("396128 parameters"),
        "{summary}"
    );

    let imported = TensorFile::read(&out).unwrap();
    assert_eq!(imported.tensors().len(), 260);
    assert!(imported.tensors().iter().all(|(name, tensor)| named[name] == *tensor));
    let again = folder.path().join("again.safetensors");
    assert!(model(&["import", text(&out), "-o", text(&again)]).status.success());
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&out).unwrap());
}

/// What was learned of 1/τ, β and γ on one stream may be wrong for another.
#[test]
fn control_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/models/conv4_64_omniglot.safetensors");
    let out = folder.path().join("out.safetensors");
    assert!(model(&["import", shipped, "-o", text(&out), "--without-control"]).status.success());
    let (before, after) = (TensorFile::read(shipped).unwrap(), TensorFile::read(&out).unwrap());
    let left_out: Vec<&String> = before.tensors().keys().filter(|name| after.get(name).is_none()).collect();
    assert_eq!(left_out, ["control.beta", "control.gamma", "control.inv_tau"]);
    assert!(after.tensors().iter().all(|(name, tensor)| before.get(name) == Some(tensor)));
}

#[test]
fn a_card_beside_the_weights_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let input = write(folder.path(), "mine.safetensors", &torchvision_tensors());
    let card = ModelCard::known().unwrap().into_iter().find(|card| card.name == CARD).unwrap();
    let card = ModelCard { name: "mine".to_owned(), files: Vec::new(), ..card };
    std::fs::write(folder.path().join("mine.toml"), card.to_toml().unwrap()).unwrap();
    let run = model(&["info", text(&input)]);
    let summary = String::from_utf8(run.stdout).unwrap();
    assert!(summary.contains("model       mine"), "{summary}");
    std::fs::write(folder.path().join("mine.toml"), "name = 3\n").unwrap();
    let message = refused(&["info", text(&input)]);
    assert!(message.contains("mine.toml: line 1"), "{message}");
}

#[test]
fn what_does_not_fit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let check = |change: &dyn Fn(&mut BTreeMap<String, Tensor>), expected: &[&str]| {
        let mut named = torchvision_tensors();
        change(&mut named);
        let input = write(folder.path(), "bad.safetensors", &named);
        let message = refused(&["info", text(&input), "--card", CARD]);
        assert!(expected.iter().all(|expected| message.contains(expected)), "{message}");
    };
    check(
        &|named| {
            named.remove("features.3.conv.1.1.running_var");
            named.get_mut("features.18.0.weight").unwrap().shape = vec![112, 1280, 1, 1];
        },
        &[
            "1 missing: `features.3.conv.1.1.running_var`",
            "1 of the wrong shape: `features.18.0.weight` [112, 1280, 1, 1] instead of [1280, 112, 1, 1]",
        ],
    );
    check(
        &|named| named.get_mut("features.0.0.weight").unwrap().values[7] = f32::NAN,
        &["1 invalid: `features.0.0.weight` (NaN at element 7)"],
    );
    check(
        &|named| named.get_mut("features.0.1.running_var").unwrap().values[0] = -2.0,
        &["`features.0.1.running_var` (a negative variance)"],
    );
    check(
        &|named| drop(named.insert("head.weight".into(), Tensor { shape: vec![1], values: vec![0.0] })),
        &["1 not known: `head.weight`"],
    );
    let input = write(folder.path(), "narrow.safetensors", &torchvision_tensors());
    let message = refused(&["import", text(&input), "--card", "mobilenet_v2_torchvision_v1", "-o", "x"]);
    assert!(message.contains("MobileNet-V2 width 1.0") && message.contains("and "), "{message}");
    let message = refused(&["import", text(&input), "--card", CARD]);
    assert!(message.contains("written over itself"), "{message}");
    let message = refused(&["info", text(&input), "--card", "nonsense"]);
    assert!(message.contains("neither a model card's file nor one of"), "{message}");
}

#[test]
fn pytorch_files_are_read_and_checked() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/archive.pth");
    let message = refused(&["info", text(&file), "--card", CARD]);
    assert!(message.contains("260 missing: `features.0.0.weight`"), "{message}");
    assert!(message.contains("3 not known: `count`, `half`, `weight`"), "{message}");
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.pth");
    std::fs::write(&cut, &std::fs::read(&file).unwrap()[..900]).unwrap();
    let message = refused(&["import", text(&cut), "--card", CARD]);
    assert!(message.contains("cut.pth: not a whole PyTorch file of tensors"), "{message}");
}

/// What a stranger's file may cost: 1 GB of address space, which the program's own 200 MB or so leave room in.
fn refused_within_a_gigabyte(path: &Path) -> String {
    let run = Command::new("sh")
        .args(["-c", "ulimit -v 1000000; exec \"$0\" model info \"$1\"", env!("CARGO_BIN_EXE_oupn-edge")])
        .arg(path)
        .output()
        .unwrap();
    let message = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{}: {message}", path.display());
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn a_file_made_to_do_harm_costs_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let older = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02K\x01.\x80\x02}.\x80\x02";
    let doubled: Vec<u8> = (0..39).flat_map(|number| [b'q', number, b'h', number, 0x86]).collect();
    for (name, program) in [
        ("laughs.pth", [b"N", &doubled[..]].concat()),
        ("tuple1.pth", [b"N", &b"\x85".repeat(1_000_000)[..]].concat()),
        ("marks.pth", b"(".repeat(5_000_000)),
        ("endless.pth", b"N".repeat(5_000_000)),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, [&older[..], &program, b".\x80\x02]."].concat()).unwrap();
        assert!(refused_within_a_gigabyte(&path).contains("not a whole PyTorch file"), "{name}");
    }
    for name in ["zero.pth", "zero.safetensors"] {
        let path = folder.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(refused_within_a_gigabyte(&path).contains("expected a plain file"));
    }
    let sparse = folder.path().join("sparse.pth");
    std::fs::File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
    assert!(refused_within_a_gigabyte(&sparse).contains("longer than 2 GiB"));
}
