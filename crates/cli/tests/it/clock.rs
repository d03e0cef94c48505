//! A clock that a test can advance for the processes it starts.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use crate::context::{Command, Context};

/// A clock for the processes of one test. It changes the time of day; durations are measured
/// normally, as on a machine that slept.
pub(crate) struct Clock {
    library: PathBuf,
    shared: PathBuf,
}

impl Clock {
    /// Returns `None` where there is no C compiler.
    pub(crate) fn new(context: &Context) -> Option<Self> {
        let (source, library) = (context.path("clock.c"), context.path("clock.so"));
        std::fs::write(&source, include_str!("clock.c")).expect("a file");
        let mut compiler = std::process::Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]);
        let shared = context.path("clock");
        std::fs::write(&shared, [0; 16]).expect("a file");
        compiler.status().ok()?.success().then_some(Self { library, shared })
    }

    /// Makes a command use this clock.
    pub(crate) fn set_for(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("BOWLINE_TEST_CLOCK", &self.shared);
    }

    /// Advances the clock for all its processes, including stopped ones.
    pub(crate) fn advance(&self, seconds: i64) {
        let mut shared = std::fs::File::options().read(true).write(true).open(&self.shared).expect("a file");
        shared.write_all(&seconds.to_ne_bytes()).expect("it is written");
        // Precondition: a process uses this clock.
        let mut asked = [0; 8];
        shared.seek(SeekFrom::Start(8)).and_then(|_| shared.read_exact(&mut asked)).expect("it is read");
        assert_eq!(i64::from_ne_bytes(asked), 1, "nobody has asked this clock for the time");
    }
}
