//! Files that PyTorch wrote, damaged ones, and ones made to do harm.

use super::*;

/// Files that PyTorch 2.15 wrote: `torch.save({"state_dict": OrderedDict(weight=…, half=…, count=…), "epoch": 3}, name)`,
/// the second with `_use_new_zipfile_serialization=False`.
const FILES: [&[u8]; 2] = [
    include_bytes!("../../../../tests/data/archive.pth"),
    include_bytes!("../../../../tests/data/older.pth"),
];

#[test]
fn both_formats_are_read() {
    for bytes in FILES {
        let tensors = parse(bytes).unwrap();
        assert_eq!(tensors.keys().collect::<Vec<_>>(), ["count", "half", "weight"]);
        let weight = &tensors["weight"];
        assert_eq!(weight.shape, [2, 3]);
        assert_eq!(weight.values, [0.5, -1.25, 3.0, 1e-3, -7.0, 42.0]);
        assert_eq!((&tensors["half"].shape[..], &tensors["half"].values[..]), (&[2][..], &[0.5, -2.0][..]));
        assert_eq!((tensors["count"].shape.len(), &tensors["count"].values[..]), (0, &[9.0][..]));
    }
}

#[test]
fn damage_is_an_error_and_no_panic() {
    for bytes in FILES {
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length]).is_err(), "cut at {length}");
        }
        let mut damaged = bytes.to_vec();
        for at in 0..bytes.len() {
            damaged[at] ^= 0x5a;
            // A number may have changed without a trace in the older format, which has no checksums.
            let _ = parse(&damaged);
            damaged[at] ^= 0x5a;
        }
    }
}
/// The opcodes that make a name, such as of a function.
fn name(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// A tensor in storage `0`: the opcodes of its offset, shape and strides.
fn tensor(place: &[u8]) -> Vec<u8> {
    let storage = [&text("storage")[..], &name("torch", "FloatStorage"), &text("0"), &text("cpu")].concat();
    let function = name("torch._utils", "_rebuild_tensor_v2");
    [&function[..], b"((", &storage, b"K\x04tQ", place, b"\x89}tR"].concat()
}

/// A dictionary of entries: names, and the opcodes that make their values.
fn dictionary(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let entries: Vec<Vec<u8>> = entries.iter().map(|(name, value)| [&text(name), *value].concat()).collect();
    [b"}(", &entries.concat()[..], b"u"].concat()
}

fn pickle(program: &[u8]) -> Vec<u8> {
    [b"\x80\x02", program, b"."].concat()
}

/// A zip archive of plain entries; each is a name and a content.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let (start, len) = (bytes.len() as u32, (content.len() as u32).to_le_bytes());
        let sizes = [&crc32fast::hash(content).to_le_bytes()[..], &len, &len].concat();
        let lengths = [&(name.len() as u16).to_le_bytes()[..], &[0, 0]].concat();
        bytes.extend([b"PK\x03\x04", &[0; 10][..], &sizes, &lengths, name.as_bytes(), content].concat());
        let (rest, start) = (&[0; 10][..], &start.to_le_bytes()[..]);
        directory
            .extend([b"PK\x01\x02", &[0; 12][..], &sizes, &lengths, rest, start, name.as_bytes()].concat());
    }
    let count = (entries.len() as u16).to_le_bytes();
    let [len, start] = [directory.len(), bytes.len()].map(|number| (number as u32).to_le_bytes());
    bytes.extend(&directory);
    bytes.extend([b"PK\x05\x06", &[0; 4][..], &count, &count, &len, &start, &[0, 0]].concat());
    bytes
}

/// Both formats of a file whose dictionary is made by `program`, with one storage of four numbers.
fn files(program: &[u8]) -> [Vec<u8>; 2] {
    let numbers: Vec<u8> = [1.0, 2.0, 3.0, 4.0_f32].iter().flat_map(|number| number.to_le_bytes()).collect();
    let list = [b"](", &text("0")[..], b"e"].concat();
    let older = [
        &OLDER[..],
        &pickle(b"M\xe9\x03"),
        &pickle(b"}"),
        &pickle(program),
        &pickle(&list),
        &4_u64.to_le_bytes(),
        &numbers,
    ];
    [archive(&[("a/data.pkl", &pickle(program)), ("a/data/0", &numbers)]), older.concat()]
}

/// Three of the storage's numbers, from the second on.
const THREE: &[u8] = b"K\x01K\x03\x85K\x01\x85";

#[test]
fn the_writer_of_this_test_writes_as_pytorch_does() {
    for file in files(&dictionary(&[("w", &tensor(THREE))])) {
        let tensors = parse(&file).unwrap();
        assert_eq!((&tensors["w"].shape[..], &tensors["w"].values[..]), (&[3][..], &[2.0, 3.0, 4.0][..]));
    }
}

/// One sentence, whatever the format.
fn refused(program: &[u8]) -> String {
    let [new, older] = files(program).map(|file| parse(&file).unwrap_err());
    for message in [&new, &older] {
        assert!(message.len() < 120 && !message.contains('\n'), "{message}");
    }
    new
}

#[test]
fn a_pickle_that_doubles_itself_is_not_unfolded() {
    // A hundred times a pair of the last: 2^100 objects for a reader that copies them.
    let doubled: Vec<u8> = (0..100).flat_map(|number| [b'q', number, b'h', number, 0x86]).collect();
    let laughs = [b"N", &doubled[..]].concat();
    assert_eq!(refused(&laughs), "no tensor in it");
    let beside = dictionary(&[("laughs", &laughs), ("w", &tensor(THREE))]);
    assert!(files(&beside).iter().all(|file| parse(file).unwrap().len() == 1));
}

#[test]
fn deep_nesting_takes_no_stack() {
    const DEPTH: usize = 1_000_000;
    let nestings: [(&[u8], &[u8]); 5] =
        [(b"", b"\x85"), (b"", b"Q"), (b"(", b"t"), (b"", b"NR"), (b"]", b"a")];
    for (opening, closing) in nestings {
        let program = [&opening.repeat(DEPTH)[..], b"N", &closing.repeat(DEPTH)].concat();
        assert_eq!(refused(&program), "no tensor in it");
    }
    let inside_itself = [b"}q\0", &text("model")[..], b"h\0s"].concat();
    assert_eq!(refused(&inside_itself), "no tensor in it");
}

#[test]
fn a_pickle_without_an_end_is_given_up() {
    assert!(refused(&b"N".repeat(3 << 20)).contains("steps"));
    assert!(refused(&b"(".repeat(3 << 20)).contains("steps"));
}

#[test]
fn tensors_may_share_numbers_but_not_without_end() {
    let tensor = tensor(THREE);
    let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let entries = |count: usize| -> Vec<u8> {
        dictionary(&names[..count].iter().map(|name| (name.as_str(), &tensor[..])).collect::<Vec<_>>())
    };
    assert!(files(&entries(4)).iter().all(|file| parse(file).unwrap().len() == 4));
    // A megabyte of numbers, a thousand times.
    let numbers = vec![0; 1 << 20];
    let whole = self::tensor(b"K\0J\0\0\x04\0\x85K\x01\x85");
    let many = dictionary(&names.iter().map(|name| (name.as_str(), &whole[..])).collect::<Vec<_>>());
    let file = archive(&[("a/data.pkl", &pickle(&many)), ("a/data/0", &numbers)]);
    assert!(parse(&file).unwrap_err().contains("more numbers than the file holds"));
}

#[test]
fn lying_shapes_are_refused() {
    for (place, message) in [
        (&b"K\0J\xff\xff\xff\x7f\x85K\x01\x85"[..], "ends within tensor w"),
        (b"J\xff\xff\xff\x7fK\x01\x85K\x01\x85", "ends within tensor w"),
        (b"K\0J\xff\xff\xff\xff\x85K\x01\x85", "described as PyTorch does not"),
        (b"K\0K\x02K\x02\x86K\x01K\x02\x86", "not lie in one piece"),
        (b"K\0(K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01t)", "described as PyTorch does not"),
        (b"K\0)", "described as PyTorch does not"),
    ] {
        let message_given = refused(&dictionary(&[("w", &tensor(place))]));
        assert!(message_given.contains(message), "{message_given}");
    }
}

#[test]
fn entries_that_overlap_are_refused() {
    let mut file =
        archive(&[("a/data.pkl", &pickle(&dictionary(&[("w", &tensor(THREE))]))), ("a/data/0", &[0; 16])]);
    let directory = file.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    let longer = (file.len() as u32).to_le_bytes();
    file[directory + 20..directory + 24].copy_from_slice(&longer);
    assert_eq!(parse(&file).unwrap_err(), "its entries are longer than the file");
}
