//! `oupn-edge cameras` as a user runs it, on whatever machine this is.

use crate::support::program::oupn_edge;

#[test]
fn text_and_json_tell_of_the_same_cameras() {
    let json = oupn_edge(&["cameras", "--json"]);
    assert_eq!(json.status.code(), Some(0));
    let cameras: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let cameras = cameras.as_array().unwrap();

    let text = oupn_edge(&["cameras"]);
    assert_eq!(text.status.code(), Some(0));
    let text = String::from_utf8(text.stdout).unwrap();
    if cameras.is_empty() {
        assert!(text.starts_with("No camera found.") && text.contains("docs/CAMERAS.md"), "{text}");
    }
    for camera in cameras {
        for key in ["path", "stable_path"] {
            assert!(text.contains(camera[key].as_str().unwrap()), "{text}");
        }
    }
}

#[test]
fn an_unknown_flag_is_bad_usage() {
    assert_eq!(oupn_edge(&["cameras", "--jsn"]).status.code(), Some(2));
}
