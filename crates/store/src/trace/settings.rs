//! The few numbers that decide how the trace treats the disk.

use std::time::Duration;

/// How the trace is written. The defaults suit a device; tests make everything small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// A segment ends with the first sync after it has this many bytes.
    pub segment_bytes: u64,
    /// Records that wait for the disk: beyond this number they are dropped and counted.
    pub queue_records: usize,
    /// Bytes kept in memory until they are durable: beyond this number records stay in the queue.
    pub buffer_bytes: usize,
    /// The longest that a record stays without being synced, as long as the disk works.
    pub sync_interval: Duration,
    /// The most records that stay without being synced, as long as the disk works.
    pub sync_records: u64,
    /// Records that wait for so long without an error mean a disk that does not answer.
    pub no_answer: Duration,
    /// What to do as the disk fills up.
    pub disk: DiskSettings,
}

/// What to do as the disk fills up. Bytes are those free on the disk, the reserve counted as taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSettings {
    /// Below this: only what must be kept.
    pub low_bytes: u64,
    /// Below this: nothing but the trace, and the reserve is given back.
    pub critical_bytes: u64,
    /// The size of the reserve; 0 for none.
    pub reserve_bytes: u64,
    /// How often the free bytes are looked at.
    pub check_interval: Duration,
}

impl Default for TraceSettings {
    fn default() -> Self {
        Self {
            segment_bytes: 8 << 20,
            queue_records: 4096,
            buffer_bytes: 1 << 20,
            sync_interval: Duration::from_secs(1),
            sync_records: 256,
            no_answer: Duration::from_secs(20),
            disk: DiskSettings::default(),
        }
    }
}

impl Default for DiskSettings {
    fn default() -> Self {
        Self {
            low_bytes: 512 << 20,
            critical_bytes: 64 << 20,
            reserve_bytes: 64 << 20,
            check_interval: Duration::from_secs(5),
        }
    }
}
