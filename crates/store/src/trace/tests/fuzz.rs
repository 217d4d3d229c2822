//! Arbitrary bytes: neither reading nor opening panics, hangs or takes more memory than it may.

use super::super::line::{LONGEST_LINE, decode, encode};
use super::*;
use crate::storage::write_atomically;
use proptest::prelude::*;

/// Bytes that look like a trace here and there: whole lines, their pieces, wild numbers under a right checksum, noise.
fn trace_like() -> impl Strategy<Value = Vec<u8>> {
    let line = |seq: u64| {
        let mut line = Vec::new();
        encode(&Entry { seq, at: at(seq % 1000), record: frame(seq) }, &mut line).unwrap();
        line
    };
    let whole = prop_oneof![0u64..40, any::<u64>()].prop_map(line);
    let piece = prop_oneof![
        4 => whole.clone(),
        2 => (whole, any::<prop::sample::Index>()).prop_map(|(line, cut)| line[..cut.index(line.len())].to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
        1 => Just(vec![0; 5000]),
        1 => Just(b"\n".to_vec()),
        1 => sealed(),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// Any text between braces under a checksum that fits.
fn sealed() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just("1e999".to_owned()),
        Just("[".repeat(500)),
        Just("null".to_owned()),
        Just("18446744073709551615".to_owned()),
        "[ -~]{0,40}",
    ];
    let field = ("(seq|boot|mono_ns|wall|synced|kind|by|missing_from|crc)", value);
    prop::collection::vec(field, 0..8).prop_map(|fields| {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let body = format!("{{{}", fields.join(","));
        format!("{body},\"crc\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes())).into_bytes()
    })
}

fn disk_with(segments: &[Vec<u8>]) -> Simulated {
    let fs = Simulated::default();
    crate::storage::Filesystem::create_dir_all(&fs, Path::new(DIR)).unwrap();
    for (number, bytes) in segments.iter().enumerate() {
        let name = format!("trace-v1-{:08}.jsonl", number + 1);
        write_atomically(&fs, &Path::new(DIR).join(name), bytes).unwrap();
    }
    fs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_line_makes_the_decoder_fail(bytes in prop_oneof![sealed(), prop::collection::vec(any::<u8>(), 0..400)]) {
        let _ = decode(&bytes);
        let _ = decode(bytes.strip_suffix(b"\n").unwrap_or(&bytes));
    }

    #[test]
    fn no_file_makes_the_reader_or_a_restart_fail(segments in prop::collection::vec(trace_like(), 1..4)) {
        let fs = disk_with(&segments);
        let (entries, summary) = read(&fs);
        prop_assert_eq!(entries.len() as u64, summary.records);
        prop_assert!(entries.windows(2).all(|pair| pair[0].seq < pair[1].seq), "each number once, and in order");
        prop_assert!(summary.gaps.len() <= 1000);

        let (mut log, recovery) = open(&fs).unwrap();
        prop_assert!(recovery.cut_bytes <= segments.last().map_or(0, Vec::len) as u64);
        if recovery.last_seq < u64::MAX - 1000 {
            log.append(at(1), frame(77));
            log.sync().unwrap();
            let (after, summary_after) = read(&fs);
            // Lines out of order, of which a trace of ours has none, may outnumber the new one.
            let found = frames(&after).last() == Some(&77);
            prop_assert!(found || summary.repeated_lines > 0);
            prop_assert_eq!(summary_after.unfinished_bytes, 0);
            prop_assert!(after.len() >= entries.len() + usize::from(found), "a restart loses nothing readable");
        }
        // Forgetting goes over the same bytes.
        if log.begin_forget(at(500), Duration::from_secs(100_000), None).unwrap().is_some() {
            log.finish_forget(at(500)).unwrap();
            // Lines out of order come to light when those before them are gone.
            prop_assert!(summary.repeated_lines > 0 || frames(&read(&fs).0).is_empty());
        }
    }
}

/// A file without an end of line must not be read into memory. (The allocation is bounded by construction: the
/// longest that the buffer of lines can get is one line.)
#[test]
fn a_file_of_one_endless_line_is_one_damaged_line() {
    let fs = disk_with(&[vec![b'x'; 40 * LONGEST_LINE], Vec::new()]);
    let (entries, summary) = read(&fs);
    assert_eq!((entries.len(), summary.damaged_lines), (0, 1));
}
