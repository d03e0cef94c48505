//! Measures the resources of the client process: open files, tasks, children, memory.

use std::fs;
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;

use crate::messages::{Footprint, MemorySample, Micros};
use crate::processes;

/// Counts what the program allocates and frees. That says more about a leak than the resident
/// memory, which also grows when the allocator keeps freed memory.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

impl Footprint {
    /// The footprint of a process without clients: the task that measures it is the only one.
    pub(super) const QUIET: Self = Self { files: Some(usize::MAX), children: Some(usize::MAX), tasks: 1 };

    fn measure() -> Self {
        Self {
            files: fs::read_dir("/proc/self/fd").ok().map(Iterator::count),
            children: processes::count_children(std::process::id()),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        }
    }

    /// Waits until the footprint is no larger than `wanted`, or has not changed for
    /// [`STABLE_AFTER`].
    pub(super) async fn wait_until_stable(wanted: &Self) -> Self {
        let begun = Instant::now();
        let mut last = (Self::measure(), Instant::now());
        while begun.elapsed() < SETTLE_TIMEOUT && last.1.elapsed() < STABLE_AFTER && !last.0.is_within(wanted)
        {
            tokio::time::sleep(POLL_INTERVAL).await;
            let now = Self::measure();
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
        last.0
    }

    fn is_within(&self, wanted: &Self) -> bool {
        self.files <= wanted.files && self.children <= wanted.children && self.tasks <= wanted.tasks
    }
}

impl MemorySample {
    pub(super) fn measure() -> Self {
        Self {
            at: Micros::now(),
            heap: u64::try_from(ALLOCATOR.current_usage()).unwrap_or(u64::MAX),
            resident: read_kilobytes("/proc/self/status", "VmRSS:"),
        }
    }
}

/// Reads a line such as `VmRSS:  1234 kB` and returns bytes.
fn read_kilobytes(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

const SETTLE_TIMEOUT: Duration = Duration::from_secs(15);
/// A footprint that does not change for this long is final.
const STABLE_AFTER: Duration = Duration::from_secs(7);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_sample_sees_an_allocation_and_its_end() {
        const SIZE: u64 = 64_000_000;
        let before = MemorySample::measure();
        let block = vec![1_u8; usize::try_from(SIZE).unwrap()];
        let with_block = MemorySample::measure();
        drop(block);
        let after = MemorySample::measure();
        // Other tests of this process may allocate meanwhile, but nothing of this size.
        assert!(with_block.heap > before.heap + SIZE / 2);
        assert!(after.heap < before.heap + SIZE / 2);
        assert!(with_block.resident > before.resident);
    }
}
