//! The measures against numbers of scikit-learn and of the published evaluation rule.

use oupn_edge::eval::{ami, average_precision};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    ami: Vec<Ami>,
    ap: Vec<Ap>,
}

#[derive(Deserialize)]
struct Ami {
    truth: Vec<i64>,
    pred: Vec<i64>,
    ami: f64,
}

#[derive(Deserialize)]
struct Ap {
    unknown: i64,
    truth: Vec<i64>,
    pred: Vec<i64>,
    unknown_score: Vec<f64>,
    ap: f64,
}

#[test]
fn golden_metrics() {
    let golden: Golden = serde_json::from_str(include_str!("../golden/metrics.json")).unwrap();
    assert!(golden.ami.len() >= 9 && golden.ap.len() >= 3);
    for (index, case) in golden.ami.iter().enumerate() {
        let score = ami(&case.truth, &case.pred).unwrap();
        assert!((score - case.ami).abs() < 1e-9, "AMI {index}: {score}, not {}", case.ami);
    }
    for (index, case) in golden.ap.iter().enumerate() {
        let truth: Vec<Option<i64>> =
            case.truth.iter().map(|&label| (label != case.unknown).then_some(label)).collect();
        let score = average_precision(&case.unknown_score, &case.pred, &truth).unwrap();
        assert!((score - case.ap).abs() < 1e-9, "AP {index}: {score}, not {}", case.ap);
    }
}
