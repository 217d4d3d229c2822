//! How many threads a launch has, and which rows they share: functions of the shapes alone, so that the order of every
//! sum is fixed by them too.

use oupn_base::{Error, Result};

/// Grid and block of a launch in two dimensions, and the shared memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks: along the rows, along the channels.
    pub grid: [u32; 2],
    /// Threads of a block: along the channels, along the rows.
    pub block: [u32; 2],
    /// Floats of shared memory of a block.
    pub shared_floats: u32,
}

/// Lanes of a warp: a block's extent along the channels, where there are that many.
const LANES: usize = 32;
/// Threads of a block. Eight warps hide memory latency on every device of interest and keep registers plentiful.
const THREADS: usize = 256;
/// Outputs that one thread of a depthwise convolution computes; `DEPTHWISE_STRIP` in depthwise.cuh.
const DEPTHWISE_STRIP: usize = 8;
/// Groups of a reduction at most. Enough blocks for the largest devices, few enough for one block to join.
const MOST_GROUPS: usize = 128;
/// Rows that one thread of a reduction takes at least, if there are enough: fewer would not be worth a group.
const LEAST_ROWS: usize = 16;

impl Geometry {
    /// The channel tile: one thread for each of `channels` and each of `rows`.
    pub fn tile(channels: usize, rows: usize) -> Result<Self> {
        let (x, y) = block(channels);
        Ok(Self {
            grid: [blocks(rows, y)?, blocks(channels, x)?],
            block: [x as u32, y as u32],
            shared_floats: 0,
        })
    }

    /// A tile over strips of pixels: what a depthwise convolution wants for its `out_rows` rows of `out_width` pixels.
    pub fn strips(channels: usize, out_rows: usize, out_width: usize) -> Result<Self> {
        Self::tile(channels, out_rows * out_width.div_ceil(DEPTHWISE_STRIP))
    }

    /// One thread an element.
    pub fn elements(count: usize) -> Result<Self> {
        Ok(Self { grid: [blocks(count, THREADS)?, 1], block: [THREADS as u32, 1], shared_floats: 0 })
    }

    /// The first level of a reduction: one block a group and tile of channels.
    pub fn groups(channels: usize, groups: Groups, floats_per_thread: usize) -> Result<Self> {
        let (x, y) = block(channels);
        Ok(Self {
            grid: [int(groups.count)? as u32, blocks(channels, x)?],
            block: [x as u32, y as u32],
            shared_floats: (x * y * floats_per_thread) as u32,
        })
    }

    /// The second level of a reduction: one block a tile of columns.
    pub fn join(columns: usize, floats_per_thread: usize) -> Result<Self> {
        let (x, y) = block(columns);
        Ok(Self {
            grid: [1, blocks(columns, x)?],
            block: [x as u32, y as u32],
            shared_floats: (x * y * floats_per_thread) as u32,
        })
    }
}

/// How the rows of a reduction are divided among blocks: all groups are of one size, but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Number of groups.
    pub count: usize,
    /// Rows of a group.
    pub rows: usize,
}

impl Groups {
    /// Divides `rows` rows of `channels` channels.
    pub fn of(rows: usize, channels: usize) -> Self {
        let least = block(channels).1 * LEAST_ROWS;
        let rows_of_group = rows.div_ceil(MOST_GROUPS).max(least).min(rows.max(1));
        Self { count: rows.div_ceil(rows_of_group).max(1), rows: rows_of_group }
    }
}

/// Threads of a block along channels and rows.
fn block(channels: usize) -> (usize, usize) {
    let x = channels.clamp(1, LANES);
    (x, THREADS / x)
}

fn blocks(extent: usize, threads: usize) -> Result<u32> {
    int(extent.max(1)).map(|_| extent.max(1).div_ceil(threads) as u32)
}

/// An extent as the kernels count: in 32 bits.
pub fn int(extent: usize) -> Result<i32> {
    i32::try_from(extent).map_err(|_| {
        Error::input(format!(
            "a chunk of {extent} numbers is more than a CUDA kernel counts; set a smaller memory budget"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_belongs_to_exactly_one_group_and_groups_are_bounded() {
        for rows in [1, 2, 127, 128, 129, 4096, 4097, 1_881_600] {
            for channels in [1, 3, 24, 32, 1280] {
                let groups = Groups::of(rows, channels);
                assert!(groups.count <= MOST_GROUPS, "{rows} rows, {channels} channels: {groups:?}");
                assert!((groups.count - 1) * groups.rows < rows && rows <= groups.count * groups.rows);
            }
        }
    }

    #[test]
    fn a_tile_covers_all_channels_and_rows_with_at_most_a_block_of_waste() {
        for (channels, rows) in [(1, 1), (3, 1000), (24, 49), (33, 86), (1280, 7)] {
            let Geometry { grid, block, .. } = Geometry::tile(channels, rows).unwrap();
            for (blocks, threads, extent) in [(grid[0], block[1], rows), (grid[1], block[0], channels)] {
                let covered = (blocks * threads) as usize;
                assert!(covered >= extent && covered - extent < threads as usize);
            }
            assert!(block[0] * block[1] <= THREADS as u32);
        }
    }

    #[test]
    fn extents_beyond_32_bits_are_an_error() {
        assert!(Geometry::tile(1, 1 << 31).is_err());
        assert!(int(1 << 31).is_err());
    }
}
