//! A long memory without its pictures, and back: for runs on a source that can be read again.
//!
//! Pictures are not saved, since what a camera saw stays off the disk. Who can read a frame again by its number hands it to
//! [`LongMemory::restore`], and the memory goes on exactly as it would have. Embeddings are in what is saved: they say
//! less than a picture, but they are still made of what somebody saw.

use std::str::FromStr;
use std::sync::Arc;

use super::boundary::Boundaries;
use super::segment::{Frame, Segment};
use super::{LongMemory, LongRules};
use crate::{Error, Result};

/// What a file holds of a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedMemory {
    /// Everything but the embeddings: a line for the memory, one for the similarities of consecutive frames, one for the groups of
    /// late, and one a segment. Numbers with a fraction are written as their bits.
    pub text: String,
    /// The embedding of the last frame if there is one, then those of all kept frames, row after row.
    pub embeddings: Vec<f32>,
}

impl LongMemory {
    /// Everything but the pictures.
    pub fn saved(&self) -> SavedMemory {
        let words = |words: Vec<String>| words.join(" ");
        let newest = self.newest.map_or("-".to_owned(), |newest| newest.to_string());
        let Boundaries { similarities, last } = &self.boundaries;
        let mut lines = vec![
            format!("{} {} {newest} {}", self.begun, self.next_group, usize::from(!last.is_empty())),
            words(similarities.iter().map(|similarity| similarity.to_bits().to_string()).collect()),
            words(self.lately.iter().map(|(first, end, group)| format!("{first} {end} {group}")).collect()),
        ];
        let mut embeddings = last.clone();
        for (segment, open) in
            self.closed.iter().map(|segment| (segment, 0)).chain(self.open.iter().map(|s| (s, 1)))
        {
            let Segment { number, first, last, frames, group, lot } = segment;
            let kept = frames.iter().map(|frame| format!("{} {}", frame.number, frame.reach.to_bits()));
            lines.push(format!(
                "{open} {number} {first} {last} {group} {} {}",
                lot.to_bits(),
                words(kept.collect())
            ));
            frames.iter().for_each(|frame| embeddings.extend_from_slice(&frame.embedding));
        }
        SavedMemory { text: lines.join("\n"), embeddings }
    }

    /// The memory that [`saved`](Self::saved) wrote; `picture` reads a frame again by its number.
    ///
    /// # Errors
    /// If it is not such a memory, or as `picture`'s.
    pub fn restore(
        rules: LongRules,
        saved: &SavedMemory,
        dimension: usize,
        mut picture: impl FnMut(u64) -> Result<Arc<[u8]>>,
    ) -> Result<Self> {
        let mut memory = Self::new(rules);
        let mut rows = saved.embeddings.chunks_exact(dimension.max(1));
        let mut row = || rows.next().map(<[f32]>::to_vec).ok_or_else(damaged);
        let mut lines = saved.text.split('\n');
        let mut line = || lines.next().map(|line| line.split_ascii_whitespace()).ok_or_else(damaged);

        let mut words = line()?;
        (memory.begun, memory.next_group) = (number(words.next())?, number(words.next())?);
        let newest = words.next();
        memory.newest = if newest == Some("-") { None } else { Some(number(newest)?) };
        if number::<u8>(words.next())? == 1 {
            memory.boundaries.last = row()?;
        }
        for word in line()? {
            memory.boundaries.similarities.push_back(f32::from_bits(number(Some(word))?));
        }
        let mut words = line()?;
        while let Some(first) = words.next() {
            let range = (number(Some(first))?, number(words.next())?, number(words.next())?);
            memory.lately.push_back(range);
        }
        for line in lines {
            let mut words = line.split_ascii_whitespace();
            let open: u8 = number(words.next())?;
            let mut segment = Segment {
                number: number(words.next())?,
                first: number(words.next())?,
                last: number(words.next())?,
                group: number(words.next())?,
                lot: f64::from_bits(number(words.next())?),
                frames: Vec::new(),
            };
            while let Some(frame) = words.next() {
                let (frame, reach) = (number(Some(frame))?, f32::from_bits(number(words.next())?));
                segment.frames.push(Frame {
                    number: frame,
                    pixels: picture(frame)?,
                    embedding: row()?,
                    reach,
                });
            }
            memory.bytes += segment.bytes();
            match open {
                0 => memory.closed.push(segment),
                _ => memory.open = Some(segment),
            }
        }
        if rows.next().is_some() {
            return Err(damaged());
        }
        Ok(memory)
    }
}

fn damaged() -> Error {
    Error::input(
        "the long memory in the checkpoint is damaged: go on from an older checkpoint, or begin anew",
    )
}

fn number<T: FromStr>(word: Option<&str>) -> Result<T> {
    word.and_then(|word| word.parse().ok()).ok_or_else(damaged)
}
