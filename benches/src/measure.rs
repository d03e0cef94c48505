//! Measures CPU time and resident memory of a process.

use std::time::Instant;

/// A running measurement.
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: Option<f64>,
}

/// The wall and CPU time that the work took.
pub(crate) struct Lap {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: Option<f64>,
}

// === impl Stopwatch ===

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { cpu: cpu_seconds(), wall: Instant::now() }
    }

    pub(crate) fn stop(&self) -> Lap {
        let seconds = self.wall.elapsed().as_secs_f64();
        Lap { seconds, cpu_seconds: self.cpu.zip(cpu_seconds()).map(|(before, after)| after - before) }
    }
}

/// Returns the peak resident memory of this process. Linux only; `ru_maxrss`, which is inherited
/// over a fork, would be the parent's in a small child.
pub(crate) fn peak_rss() -> Option<u64> {
    status_kib("VmHWM:").map(|kib| kib * 1024)
}

/// Returns the resident memory of this process now.
pub(crate) fn rss() -> Option<u64> {
    status_kib("VmRSS:").map(|kib| kib * 1024)
}

/// Returns the resident memory of another process now.
pub(crate) fn rss_of(pid: u32) -> Option<u64> {
    status_kib_of(&pid.to_string(), "VmRSS:").map(|kib| kib * 1024)
}

/// Returns the proportional set size of another process now: pages that it shares with other
/// processes count in part.
pub(crate) fn pss_of(pid: u32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    find_kib(&rollup, "Pss:").map(|kib| kib * 1024)
}

/// Returns the CPU time of another process so far, all its living threads, in seconds. Linux only.
pub(crate) fn cpu_seconds_of(pid: u32) -> Option<f64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_thread = |thread: std::fs::DirEntry| -> Option<f64> {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    let nanos: f64 = threads.map_while(Result::ok).filter_map(of_thread).sum();
    Some(nanos / 1e9)
}

fn status_kib(field: &str) -> Option<u64> {
    status_kib_of("self", field)
}

fn status_kib_of(pid: &str, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    find_kib(&status, field)
}

fn find_kib(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Returns user and system time of this process, all threads, children not counted.
#[cfg(unix)]
fn cpu_seconds() -> Option<f64> {
    use rustix::time::{ClockId, clock_gettime};

    let used = std::time::Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok()?;
    Some(used.as_secs_f64())
}

#[cfg(not(unix))]
fn cpu_seconds() -> Option<f64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_at_least_what_is_resident() {
        let now = rss().expect("readable");
        assert!(now > 0);
        assert!(peak_rss().expect("readable") >= now);
    }

    #[test]
    fn another_process_is_measured_like_this_one() {
        let pid = std::process::id();
        assert!(rss_of(pid).expect("readable") > 0);
        assert!(pss_of(pid).expect("readable") > 0);
        assert!(cpu_seconds_of(pid).expect("readable") > 0.0);
    }

    #[test]
    fn work_shows_up_as_cpu_time() {
        let watch = Stopwatch::start();
        while watch.stop().cpu_seconds.expect("readable") < 0.002 {
            std::hint::black_box((0..10_000_u64).sum::<u64>());
        }
        assert!(watch.stop().seconds > 0.0);
    }
}
