//! As much of Python's pickle format as PyTorch's dictionaries of tensors need: the opcodes that `torch.save` writes.
//!
//! Nothing is executed. Objects lie side by side in one table and refer to each other by their places in it, so an object
//! that is used a million times is stored once, and no nesting is too deep: nothing here recurses. Text is not copied.
//! With at most [`MOST_STEPS`] opcodes a pickle, memory is bounded whatever a file says.

use std::collections::HashMap;

/// Opcodes in a pickle. A tensor takes about 30, a number in a list one.
const MOST_STEPS: usize = 2 << 20;

/// The place of an object in its pickle's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

/// An object, as far as tensors are concerned.
#[derive(Debug)]
pub(super) enum Object<'b> {
    /// A whole number of at most 64 bits.
    Int(i64),
    Text(&'b str),
    /// The name of a class or function: its module and its own.
    Name(&'b str, &'b str),
    Tuple(Vec<Place>),
    List(Vec<Place>),
    Dict(Vec<(Place, Place)>),
    /// What a class or function makes of its arguments, a tuple.
    Made {
        by: Place,
        from: Place,
    },
    /// Something outside of the pickle, by what is known of it: a storage of numbers.
    Outside(Place),
    /// Anything else: `None`, a truth value, a float.
    Other,
}

/// A pickle that was read: its table, and the object that it is about.
#[derive(Debug)]
pub(super) struct Pickle<'b> {
    objects: Vec<Object<'b>>,
    top: Place,
}

impl<'b> Pickle<'b> {
    /// Reads one pickle, and leaves `bytes` behind it.
    pub(super) fn read(bytes: &mut &'b [u8]) -> Result<Self, String> {
        let mut machine = Machine { rest: bytes, ..Machine::default() };
        for _ in 0..MOST_STEPS {
            if let Some(top) = machine.step()? {
                *bytes = machine.rest;
                return Ok(Self { objects: machine.objects, top });
            }
        }
        Err(format!("its pickle has more than {MOST_STEPS} steps, which no network needs"))
    }

    /// What the pickle is about.
    pub(super) fn top(&self) -> &Object<'b> {
        self.get(self.top)
    }

    /// An object by its place.
    pub(super) fn get(&self, place: Place) -> &Object<'b> {
        self.objects.get(place.0 as usize).unwrap_or(&Object::Other)
    }
}

/// The machine that a pickle is a program for.
#[derive(Default)]
struct Machine<'b> {
    rest: &'b [u8],
    objects: Vec<Object<'b>>,
    stack: Vec<Place>,
    /// Heights of the stack that were marked.
    marks: Vec<usize>,
    memo: HashMap<u32, Place>,
}

impl<'b> Machine<'b> {
    /// Does what the next opcode says; the last one gives the object that is left.
    fn step(&mut self) -> Result<Option<Place>, String> {
        let [opcode] = self.bytes()?;
        match opcode {
            b'.' => return self.pop().map(Some),
            // The version of the format.
            0x80 => {
                self.take(1)?;
            }
            b'(' => self.marks.push(self.stack.len()),
            b'N' | 0x88 | 0x89 => self.push(Object::Other),
            b'G' => {
                self.take(8)?;
                self.push(Object::Other);
            }
            b'K' => {
                let number = self.bytes().map(u8::from_le_bytes)?;
                self.push(Object::Int(number.into()));
            }
            b'M' => {
                let number = self.bytes().map(u16::from_le_bytes)?;
                self.push(Object::Int(number.into()));
            }
            b'J' => {
                let number = self.bytes().map(i32::from_le_bytes)?;
                self.push(Object::Int(number.into()));
            }
            0x8a => {
                let [len] = self.bytes()?;
                let number = self.take(len.into())?;
                self.push(long(number));
            }
            b'X' => {
                let len = self.bytes().map(u32::from_le_bytes)?;
                let text = self.take(len as usize)?;
                self.push(Object::Text(utf8(text)?));
            }
            // Text of Python 2, which may be bytes as well.
            b'U' => {
                let [len] = self.bytes()?;
                let text = std::str::from_utf8(self.take(len.into())?);
                self.push(text.map_or(Object::Other, Object::Text));
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Object::Name(module, name));
            }
            b')' => self.push(Object::Tuple(Vec::new())),
            b']' => self.push(Object::List(Vec::new())),
            b'}' => self.push(Object::Dict(Vec::new())),
            b't' => {
                let parts = self.pop_to_mark()?;
                self.push(Object::Tuple(parts));
            }
            0x85..=0x87 => {
                let mut parts = Vec::new();
                for _ in 0x85..=opcode {
                    parts.insert(0, self.pop()?);
                }
                self.push(Object::Tuple(parts));
            }
            b'Q' => {
                let known = self.pop()?;
                self.push(Object::Outside(known));
            }
            b'R' | 0x81 => {
                let (from, by) = (self.pop()?, self.pop()?);
                let made = match self.objects.get(by.0 as usize) {
                    Some(Object::Name("collections", "OrderedDict" | "defaultdict")) => {
                        Object::Dict(Vec::new())
                    }
                    _ => Object::Made { by, from },
                };
                self.push(made);
            }
            // Attributes of the object before them: no tensors of a dictionary.
            b'b' => {
                self.pop()?;
            }
            b'a' => {
                let value = self.pop()?;
                self.append(&[value])?;
            }
            b'e' => {
                let values = self.pop_to_mark()?;
                self.append(&values)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.set(&items)?;
            }
            b'q' => {
                let [number] = self.bytes()?;
                self.remember(number.into())?;
            }
            b'r' => {
                let number = self.bytes().map(u32::from_le_bytes)?;
                self.remember(number)?;
            }
            b'h' => {
                let [number] = self.bytes()?;
                self.recall(number.into())?;
            }
            b'j' => {
                let number = self.bytes().map(u32::from_le_bytes)?;
                self.recall(number)?;
            }
            other => return Err(format!("opcode {other:#04x}, which no dictionary of tensors has")),
        }
        Ok(None)
    }

    fn push(&mut self, object: Object<'b>) {
        // There are fewer objects than steps, which are counted.
        let place = Place(self.objects.len() as u32);
        self.objects.push(object);
        self.stack.push(place);
    }

    fn pop(&mut self) -> Result<Place, String> {
        // What lies below a mark is taken by `pop_to_mark` alone.
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = if self.stack.len() > floor { self.stack.pop() } else { None };
        top.ok_or_else(|| "its pickle takes what is not there".to_owned())
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Place>, String> {
        let mark = self.marks.pop().ok_or("its pickle lacks a mark")?;
        Ok(self.stack.split_off(mark))
    }

    fn last(&mut self) -> Result<&mut Object<'b>, String> {
        let last = self.stack.last().and_then(|place| self.objects.get_mut(place.0 as usize));
        last.ok_or_else(|| "its pickle takes what is not there".to_owned())
    }

    fn append(&mut self, values: &[Place]) -> Result<(), String> {
        match self.last()? {
            Object::List(list) => list.extend_from_slice(values),
            _ => return Err("its pickle appends to what is no list".to_owned()),
        }
        Ok(())
    }

    fn set(&mut self, items: &[Place]) -> Result<(), String> {
        match self.last()? {
            Object::Dict(dict) if items.len().is_multiple_of(2) => {
                dict.extend(items.chunks_exact(2).map(|item| (item[0], item[1])));
            }
            // A dictionary of another kind, such as `Counter`: no tensors are looked for in it.
            Object::Made { .. } => {}
            _ => return Err("its pickle sets items of what is no dictionary".to_owned()),
        }
        Ok(())
    }

    fn remember(&mut self, number: u32) -> Result<(), String> {
        let top = self.stack.last().ok_or("its pickle takes what is not there")?;
        self.memo.insert(number, *top);
        Ok(())
    }

    fn recall(&mut self, number: u32) -> Result<(), String> {
        let place = self.memo.get(&number).ok_or("its pickle names what it has not made")?;
        self.stack.push(*place);
        Ok(())
    }

    fn take(&mut self, len: usize) -> Result<&'b [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or("it ends within a pickle")?;
        self.rest = rest;
        Ok(taken)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or("it ends within a pickle")?;
        self.rest = rest;
        Ok(*taken)
    }

    fn line(&mut self) -> Result<&'b str, String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n').ok_or("it ends within a pickle")?;
        let line = self.take(end)?;
        self.take(1)?;
        utf8(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// A number of any length, low bytes first, two's complement.
fn long(bytes: &[u8]) -> Object<'static> {
    let Some(last) = bytes.last() else { return Object::Int(0) };
    let filling = if last & 0x80 == 0 { 0 } else { 0xff };
    let mut whole = [filling; 8];
    match whole.get_mut(..bytes.len()) {
        Some(low) => low.copy_from_slice(bytes),
        None => return Object::Other,
    }
    Object::Int(i64::from_le_bytes(whole))
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "a text in its pickle is no UTF-8".to_owned())
}
