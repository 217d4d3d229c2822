//! `oupn-edge model fetch` and `model list`, the real binary, against a server in this process that serves what the publishers do:
//! the same paths, names, formats and headers, with other numbers.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

use oupn_edge::encoder::init::random_parameters;
use oupn_edge::encoder::{ModelCard, TensorSpec};
use oupn_edge::tensors::{self, Tensor, TensorFile};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::program::text;
use crate::support::web_server::{Reply, WebServer};

pub(crate) const NAME: &str = "mobilenetv2_050.lamb_in1k";
pub(crate) const PATH: &str = "/timm/mobilenetv2_050.lamb_in1k/resolve/main/model.safetensors";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The program with a home of its own, and no way to the world but the server's.
pub(crate) fn program(home: &Path, hub: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oupn-edge"));
    for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "STATE_DIRECTORY"] {
        command.env_remove(variable).env_remove(variable.to_lowercase());
    }
    command.env("XDG_DATA_HOME", home).env("HF_ENDPOINT", hub).args(arguments).output().unwrap()
}

pub(crate) fn fetch(home: &Path, hub: &str, more: &[&str]) -> Output {
    program(home, hub, &[&["model", "fetch", NAME], more].concat())
}

/// The names in the model folder, hidden ones, too; none if there is no folder.
pub(crate) fn kept(home: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(home.join("oupn-edge/models")) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A network of timm's: its own names and shapes, which `tests/golden/make_timm.py` wrote down.
pub(crate) fn timm_file(name: &str) -> Vec<u8> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/timm.safetensors");
    let shapes: BTreeMap<String, Vec<usize>> = TensorFile::read(golden).unwrap().setting(name).unwrap();
    let tensor = |shape: Vec<usize>| {
        let length: usize = shape.iter().product();
        let values = (0..length).map(|at| (at * 37 % 101) as f32 / 1e3 + 0.01).collect();
        Tensor { shape, values }
    };
    let named = shapes.into_iter().map(|(name, shape)| (name, tensor(shape))).collect();
    tensors::serialize(&named, HashMap::new()).unwrap()
}

/// The one that most tests fetch.
pub(crate) fn published() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| timm_file(NAME))
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An answer as the hub's, if it had the file itself.
pub(crate) fn answered(status: u16, body: &[u8]) -> Reply {
    Reply::new(status, body).header("x-linked-etag", format!("\"{}\"", sha256(published())))
}

/// The hub, which sends one on to where its files are.
fn hub() -> WebServer {
    WebServer::start(|asked| match asked.path.as_str() {
        PATH => answered(302, b"").header("Location", "/files/abc?sign=ed").header("x-repo-commit", COMMIT),
        "/files/abc?sign=ed" => Reply::new(200, published()).header("ETag", "\"of another kind\""),
        _ => Reply::new(404, "Entry not found"),
    })
}

#[test]
fn a_fetched_model_is_found_by_its_name() {
    let home = tempfile::tempdir().unwrap();
    let server = hub();
    let run = fetch(home.path(), &server.url, &[]);
    let said = text(&run.stdout);
    assert!(run.status.success(), "{}", text(&run.stderr));
    for word in [
        "2.7 MiB from http://",
        "MobileNet-V2 width 0.5",
        &sha256(published()),
        "--model mobilenetv2_050.lamb_in1k\n",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let files = ["mobilenetv2_050.lamb_in1k.safetensors", "mobilenetv2_050.lamb_in1k.toml"];
    assert_eq!(kept(home.path()), files, "and nothing of the way there");
    let folder = home.path().join("oupn-edge/models");
    for file in files {
        let mode = std::fs::metadata(folder.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "a service may read it");
    }
    let beside = std::fs::read_to_string(folder.join(files[1])).unwrap();
    let card = ModelCard::parse(&beside, files[1]).unwrap();
    assert_eq!(card.sha256, Some(sha256(published())));
    assert!(card.source.contains(&server.url) && card.source.ends_with(COMMIT), "{}", card.source);

    let (theirs, ours) = (
        TensorFile::parse(Path::new("theirs"), published()).unwrap(),
        TensorFile::read(folder.join(files[0])).unwrap(),
    );
    for (timm, torchvision) in [
        ("conv_stem.weight", "features.0.0.weight"),
        ("blocks.0.0.conv_pw.weight", "features.1.conv.1.weight"),
        ("blocks.3.2.bn3.running_var", "features.9.conv.3.running_var"),
        ("bn2.bias", "features.18.1.bias"),
    ] {
        assert_eq!(theirs.require(timm).unwrap(), ours.require(torchvision).unwrap(), "{timm}");
    }

    let asked = server.asked().len();
    let again = fetch(home.path(), &server.url, &[]);
    assert!(again.status.success() && text(&again.stdout).contains("nothing was downloaded"));
    for name in [NAME, "mobilenetv2_050"] {
        let info = program(home.path(), "http://nowhere.invalid", &["model", "info", name, "--json"]);
        let info: Value = serde_json::from_slice(&info.stdout).unwrap();
        assert_eq!((info["card"]["name"].as_str(), info["features"].as_u64()), (Some(NAME), Some(1280)));
    }
    let data = home.path().join("walk");
    let camera = ["record", "--camera", "rooms", "--realtime", "off", "--frames", "2", "--reserve", "0"];
    let model = ["--data", data.to_str().unwrap(), "--model", "mobilenetv2_050"];
    let run = program(home.path(), &server.url, &[&camera[..], &model].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    let remembered = std::fs::read_to_string(data.join("run.toml")).unwrap();
    assert!(remembered.contains(folder.join(files[0]).to_str().unwrap()), "{remembered}");
    assert_eq!(server.asked().len(), asked, "only a fetch asks, and not for what is there");
}

#[test]
fn what_can_be_had_and_what_is_here_is_listed() {
    let home = tempfile::tempdir().unwrap();
    let list = |more: &[&str]| {
        let run = program(home.path(), "", &[&["model", "list"], more].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
        text(&run.stdout)
    };
    let said = list(&[]);
    for word in [
        "mobilenet_v2_torchvision_v1  MobileNet-V2 width 1.0   224×224  BSD-3-Clause   14 MB  https://download.pytorch.org/",
        "mobilenetv2_140.ra_in1k      MobileNet-V2 width 1.4   224×224  Apache-2.0     25 MB  https://huggingface.co/timm/",
        "not mobilenetv2_110d.ra_in1k",
        "  none\n",
        "models/conv4_omniglot.safetensors",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let folder = home.path().join("oupn-edge/models");
    std::fs::create_dir_all(&folder).unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/conv4_omniglot.safetensors");
    std::fs::copy(shipped, folder.join("mine.safetensors")).unwrap();
    std::fs::write(folder.join("bad.safetensors"), "no weights").unwrap();
    let said = list(&[]);
    assert!(said.contains("  mine  ") && said.contains("bad") && said.contains("cannot be used"), "{said}");
    let listed: Value = serde_json::from_str(&list(&["--json"])).unwrap();
    assert_eq!(listed["fetchable"].as_array().unwrap().len(), 5);
    assert_eq!(
        (&listed["kept"][1]["name"], &listed["kept"][1]["card"]["licence"]),
        (&"mine".into(), &"Apache-2.0".into())
    );
    assert!(listed["kept"][0]["fault"].as_str().unwrap().contains("not a whole safetensors file"));
}

/// The opcodes of a text in a pickle.
fn pickled(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A PyTorch file of tensors, as `torch.save` writes it: a pickle that describes them, and an entry of numbers for each.
fn pth_file(named: &BTreeMap<String, Tensor>) -> Vec<u8> {
    let number = |number: usize| [b"J", &(number as u32).to_le_bytes()[..]].concat();
    let tuple = |numbers: &[usize]| {
        [b"(", &numbers.iter().flat_map(|&at| number(at)).collect::<Vec<u8>>()[..], b"t"].concat()
    };
    let mut program = b"\x80\x02}(".to_vec();
    for (key, (name, tensor)) in named.iter().enumerate() {
        let strides: Vec<usize> =
            (0..tensor.shape.len()).map(|axis| tensor.shape[axis + 1..].iter().product()).collect();
        program.extend(pickled(name));
        program.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        program.extend([pickled("storage"), b"ctorch\nFloatStorage\n".to_vec()].concat());
        program.extend([pickled(&key.to_string()), pickled("cpu"), number(tensor.values.len())].concat());
        program.extend(
            [b"tQK\x00".to_vec(), tuple(&tensor.shape), tuple(&strides), b"\x89}tR".to_vec()].concat(),
        );
    }
    program.extend(b"u.");
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let plain = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut put = |name: &str, bytes: &[u8]| {
        archive.start_file(name, plain).unwrap();
        archive.write_all(bytes).unwrap();
    };
    put("archive/data.pkl", &program);
    for (key, tensor) in named.values().enumerate() {
        let bytes: Vec<u8> = tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        put(&format!("archive/data/{key}"), &bytes);
    }
    archive.finish().unwrap().into_inner()
}

/// torchvision's file cannot be made here with the SHA-256 in its name, so it is given.
#[test]
fn torchvisions_file_is_fetched_and_converted() {
    let name = "mobilenet_v2_torchvision_v2";
    let card = ModelCard::known().unwrap().into_iter().find(|card| card.name == name).unwrap();
    let plan = card.plan(224, 224, 0.1).unwrap();
    let (parameters, statistics) = (random_parameters(card.encoder, &plan, 1), plan.fresh_statistics());
    let tensor = |spec: &TensorSpec, values: &[f32]| {
        (spec.name.clone(), Tensor { shape: spec.shape.clone(), values: values.to_vec() })
    };
    let learned = parameters.specs().iter().enumerate().map(|(at, spec)| tensor(spec, parameters.tensor(at)));
    let counted = statistics.specs().iter().enumerate().map(|(at, spec)| tensor(spec, statistics.tensor(at)));
    let named: BTreeMap<String, Tensor> = learned.chain(counted).collect();
    let file = pth_file(&named);

    let home = tempfile::tempdir().unwrap();
    let (digits, served) = (sha256(&file), file.clone());
    let server = WebServer::start(move |asked| match asked.path.as_str() {
        "/mirror/mobilenet_v2-7ebf99e0.pth" => Reply::new(200, served.clone()),
        _ => Reply::new(404, ""),
    });
    let mirror = format!("{}/mirror/", server.url);
    let to = home.path().join("a folder/to be made");
    let arguments =
        ["model", "fetch", name, "--from", &mirror, "--to", to.to_str().unwrap(), "--sha256", &digits];
    let run = program(home.path(), "", &arguments);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let path = to.join(format!("{name}.safetensors"));
    assert!(text(&run.stdout).contains(&format!("--model {}\n", path.display())), "{}", text(&run.stdout));
    assert_eq!(TensorFile::read(&path).unwrap().into_tensors(), named);

    // The name's eight digits are what counts where no others are given.
    let other = home.path().join("other");
    let run = program(
        home.path(),
        "",
        &["model", "fetch", name, "--from", &mirror, "--to", other.to_str().unwrap()],
    );
    let message = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{message}");
    assert!(message.contains(&digits) && message.contains("should begin with 7ebf99e0"), "{message}");
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0, "nothing was kept");
}
