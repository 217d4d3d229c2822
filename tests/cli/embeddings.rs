//! `oupn-edge eval --embeddings`: what another program has embedded, scored by the same code.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use oupn_edge::tensors::{Tensor, write};
use serde_json::Value;

use crate::support::program::{oupn_edge, text};

/// Two episodes of three classes along the axes; every fourth row of a class lies halfway to the next one if `blurred`.
fn embed(path: &Path, blurred: bool) {
    let (mut rows, mut labels, mut episodes) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..48u16 {
        let class = usize::from(row % 3);
        let mut z = [0.0f32; 4];
        z[class] = 1.0 + f32::from(row) / 100.0;
        if blurred && (row / 3) % 4 == 3 {
            z[(class + 1) % 3] = z[class];
        }
        rows.extend(z);
        labels.push(class as f32);
        episodes.push(f32::from(row / 24));
    }
    let tensor = |shape: Vec<usize>, values: Vec<f32>| Tensor { shape, values };
    let tensors = BTreeMap::from([
        ("embeddings".to_owned(), tensor(vec![48, 4], rows)),
        ("labels".to_owned(), tensor(vec![48], labels)),
        ("episodes".to_owned(), tensor(vec![48], episodes)),
    ]);
    write(path, &tensors, HashMap::new()).unwrap();
}

#[test]
fn embeddings_of_others_are_scored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("z.safetensors");
    let file = path.to_str().unwrap();
    let scored = |blurred: bool| -> Value {
        embed(&path, blurred);
        let output = oupn_edge(&["eval", "--embeddings", file, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let clear = scored(false);
    // AP is a sum of trapezoids, which rounds.
    for key in ["ami", "ap"] {
        assert!((clear[key].as_f64().unwrap() - 1.0).abs() < 1e-12, "{clear}");
    }
    assert_eq!((clear["episodes"].as_u64(), clear["frames"].as_u64()), (Some(2), Some(48)));
    assert_eq!(
        (&clear["model"], &clear["stream"], &clear["sweep"]),
        (&"z.safetensors".into(), &Value::Null, &"similarity".into())
    );
    let blurred = scored(true);
    assert!(blurred["ami"].as_f64().unwrap() < 0.95 && blurred["ap"].as_f64().unwrap() < 0.99, "{blurred}");
    let said = text(&oupn_edge(&["eval", "--embeddings", file]).stdout);
    assert!(said.starts_with("z.safetensors on 2 episodes (48 frames)\n"), "{said}");

    let refused = |arguments: &[&str], why: &str| {
        let output = oupn_edge(&[&["eval"], arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    };
    refused(&["--embeddings", file, "--stream", "omniglot"], "cannot be used with");
    refused(&[], "--stream");
    std::fs::write(&path, b"not a file of tensors").unwrap();
    refused(&["--embeddings", file], "z.safetensors: not a whole safetensors file");
}
