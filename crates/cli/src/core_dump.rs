//! Keeps the memory of this process, which holds tokens, out of core dumps.

/// Disables core dumps, and keeps other processes of the same user from reading our memory.
///
/// It does not use a limit on the size of core dumps: started servers would inherit it, and a
/// system that pipes core dumps into a program ignores it.
pub(crate) fn disable_core_dumps() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        // If this is refused, nothing is worse than before.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}
