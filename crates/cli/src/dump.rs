//! Owns the rule that the memory of this process is written to no disk: it holds tokens.

/// Has a crash leave no core dump, and keeps other processes of the same user from reading our memory.
///
/// Not by a limit on the size of core dumps: the servers that we start would inherit that, and a system that pipes core
/// dumps into a program does not go by it.
pub(crate) fn forbid() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        // The worst that a refusal can mean is what it was like before.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}
