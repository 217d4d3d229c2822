//! Tensors as a pickle describes them: name, type, shape, and where in which storage their numbers lie.

use half::{bf16, f16};

use super::pickle::{Object, Pickle, Place};

/// Keys under which training scripts put the dictionary of tensors beside other things.
const WITHIN: [&str; 2] = ["state_dict", "model"];

/// How deep the dictionary of tensors is looked for.
const DEEPEST: usize = 4;

/// Dimensions of a tensor.
const MOST_DIMENSIONS: usize = 8;

/// How a number is stored.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    F64,
    F32,
    F16,
    Bf16,
    I64,
    I32,
    I16,
    I8,
    U8,
}

impl Kind {
    /// By the name of the storage's class.
    fn named(class: &str) -> Option<Self> {
        Some(match class {
            "DoubleStorage" => Self::F64,
            "FloatStorage" => Self::F32,
            "HalfStorage" => Self::F16,
            "BFloat16Storage" => Self::Bf16,
            "LongStorage" => Self::I64,
            "IntStorage" => Self::I32,
            "ShortStorage" => Self::I16,
            "CharStorage" => Self::I8,
            "ByteStorage" | "BoolStorage" => Self::U8,
            _ => return None,
        })
    }

    /// Bytes of a number.
    pub(super) fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::I8 | Self::U8 => 1,
        }
    }

    /// The numbers that bytes stand for.
    pub(super) fn values(self, bytes: &[u8]) -> Vec<f32> {
        fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> Vec<f32> {
            bytes.as_chunks().0.iter().map(|chunk| value(*chunk)).collect()
        }
        match self {
            Self::F64 => each(bytes, |chunk| f64::from_le_bytes(chunk) as f32),
            Self::F32 => each(bytes, f32::from_le_bytes),
            Self::F16 => each(bytes, |chunk| f16::from_le_bytes(chunk).to_f32()),
            Self::Bf16 => each(bytes, |chunk| bf16::from_le_bytes(chunk).to_f32()),
            Self::I64 => each(bytes, |chunk| i64::from_le_bytes(chunk) as f32),
            Self::I32 => each(bytes, |chunk| i32::from_le_bytes(chunk) as f32),
            Self::I16 => each(bytes, |chunk| i16::from_le_bytes(chunk).into()),
            Self::I8 => each(bytes, |chunk| i8::from_le_bytes(chunk).into()),
            Self::U8 => each(bytes, |chunk| u8::from_le_bytes(chunk).into()),
        }
    }
}

/// A tensor without its numbers.
#[derive(Debug)]
pub(super) struct Described<'b> {
    pub(super) name: &'b str,
    pub(super) kind: Kind,
    /// The name of its storage.
    pub(super) storage: &'b str,
    /// Numbers of the storage before its first.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
}

impl Described<'_> {
    /// How many numbers it has.
    pub(super) fn numbers(&self) -> Option<usize> {
        self.shape.iter().try_fold(1_usize, |product, &side| product.checked_mul(side))
    }
}

/// The tensors of the dictionary that a pickle is about, or of one within it under a usual key.
pub(super) fn tensors<'b>(pickle: &Pickle<'b>) -> Result<Vec<Described<'b>>, String> {
    let mut dictionary = pickle.top();
    for _ in 0..DEEPEST {
        let Object::Dict(entries) = dictionary else { break };
        let mut found = Vec::new();
        let mut within = None;
        for &(name, value) in entries {
            let Object::Text(name) = *pickle.get(name) else { continue };
            if WITHIN.contains(&name) {
                within = Some(pickle.get(value));
            } else if let Some(tensor) = described(pickle, name, pickle.get(value))? {
                found.push(tensor);
            }
        }
        match within {
            Some(inner) if found.is_empty() => dictionary = inner,
            _ => return Ok(found),
        }
    }
    Ok(Vec::new())
}

/// The tensor that an object is, if it is one.
fn described<'b>(
    pickle: &Pickle<'b>,
    name: &'b str,
    object: &Object<'b>,
) -> Result<Option<Described<'b>>, String> {
    let Some((function, arguments)) = call(pickle, object) else { return Ok(None) };
    let malformed = || format!("tensor {name} is described as PyTorch does not");
    // Parameters, and tensors of own classes, are wrapped once.
    let plain = match function {
        ("torch._utils", "_rebuild_parameter") => {
            arguments.first().and_then(|&inner| call(pickle, pickle.get(inner)))
        }
        ("torch._tensor", "_rebuild_from_type_v2") => match arguments {
            &[function, _, arguments, ..] => named(pickle, function).zip(tuple(pickle, arguments)),
            _ => None,
        },
        _ => Some((function, arguments)),
    };
    match plain.ok_or_else(malformed)? {
        (("torch._utils", "_rebuild_tensor_v2"), &[storage, offset, shape, strides, ..]) => {
            let (kind, storage) = stored(pickle, storage)
                .ok_or_else(|| format!("tensor {name} has numbers of an unknown type"))?;
            let shape = sizes(pickle, shape).ok_or_else(malformed)?;
            let strides = sizes(pickle, strides).ok_or_else(malformed)?;
            if !lies_in_one_piece(&shape, &strides) {
                return Err(format!("tensor {name} does not lie in one piece"));
            }
            let offset = size(pickle, offset).ok_or_else(malformed)?;
            Ok(Some(Described { name, kind, storage, offset, shape }))
        }
        (("torch._utils", "_rebuild_tensor_v2"), _) => Err(malformed()),
        _ => Ok(None),
    }
}

type Function<'b> = (&'b str, &'b str);

fn call<'p, 'b>(pickle: &'p Pickle<'b>, object: &Object<'b>) -> Option<(Function<'b>, &'p [Place])> {
    let Object::Made { by, from } = *object else { return None };
    named(pickle, by).zip(tuple(pickle, from))
}

fn named<'b>(pickle: &Pickle<'b>, place: Place) -> Option<Function<'b>> {
    if let Object::Name(module, name) = *pickle.get(place) { Some((module, name)) } else { None }
}

fn tuple<'p>(pickle: &'p Pickle<'_>, place: Place) -> Option<&'p [Place]> {
    if let Object::Tuple(parts) = pickle.get(place) { Some(parts) } else { None }
}

fn size(pickle: &Pickle<'_>, place: Place) -> Option<usize> {
    if let Object::Int(number) = *pickle.get(place) { usize::try_from(number).ok() } else { None }
}

fn sizes(pickle: &Pickle<'_>, place: Place) -> Option<Vec<usize>> {
    let parts = tuple(pickle, place).filter(|parts| parts.len() <= MOST_DIMENSIONS)?;
    parts.iter().map(|&part| size(pickle, part)).collect()
}

/// A storage: `("storage", its class, its name, device, length)`.
fn stored<'b>(pickle: &Pickle<'b>, place: Place) -> Option<(Kind, &'b str)> {
    let Object::Outside(known) = *pickle.get(place) else { return None };
    let &[_, class, name, ..] = tuple(pickle, known)? else { return None };
    let (_, class) = named(pickle, class)?;
    let Object::Text(name) = *pickle.get(name) else { return None };
    Some((Kind::named(class)?, name))
}

fn lies_in_one_piece(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1_usize;
    shape.len() == strides.len()
        && shape.iter().zip(strides).rev().all(|(&side, &stride)| {
            let fits = side <= 1 || stride == expected;
            expected = expected.saturating_mul(side);
            fits
        })
}
