//! Detects network file systems.
//!
//! SQLite's write-ahead log needs shared memory, which machines do not have: two of them would
//! damage the file. A rollback journal only needs locks.

use std::path::Path;

/// Whether a file, or the folder it will be in, is on a network file system. If that cannot be
/// determined, it counts as local.
#[cfg(target_os = "linux")]
#[allow(clippy::useless_conversion, reason = "the number is of another type on other processors")]
pub(super) fn is_network_fs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|about| is_network_fs_type(i64::from(about.f_type)))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_network_fs(_path: &Path) -> bool {
    false
}

/// Recognizes the file system type of `statfs`.
#[cfg(any(target_os = "linux", test))]
fn is_network_fs_type(kind: i64) -> bool {
    // The type has 32 bits, and some systems sign-extend it.
    let kind = kind & 0xffff_ffff;
    matches!(
        kind,
        0x6969 // NFS
        | 0x517b // SMB
        | 0xfe53_4d42 // SMB 2 and 3
        | 0xff53_4d42 // CIFS
        | 0x564c // NCP
        | 0x5346_414f // AFS
        | 0x6b41_4653 // AFS of the kernel
        | 0x7375_7245 // Coda
        | 0x00c3_6400 // Ceph
        | 0x0bd0_0bd0 // Lustre
        | 0x4750_4653 // GPFS
        | 0x0116_1970 // GFS2
        | 0x7461_636f // OCFS2
        | 0x1983_0326 // BeeGFS
        | 0xaad7_aaea // PanFS
        | 0x0102_1997 // 9P, such as a Windows disk in WSL
        | 0x6573_5546 // FUSE, such as sshfs: local ones are safe this way as well, if slower
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_other_machines_are_known_by_their_numbers() {
        for (kind, remote) in [
            (0x6969, true),
            (0xfe53_4d42, true),
            // The same value, sign-extended.
            (i64::from(0xff53_4d42_u32.cast_signed()), true),
            (0x6573_5546, true),
            // ext4, tmpfs, btrfs, xfs, overlayfs.
            (0xef53, false),
            (0x0102_1994, false),
            (0x9123_683e, false),
            (0x5846_5342, false),
            (0x794c_7630, false),
        ] {
            assert_eq!(is_network_fs_type(kind), remote, "{kind:#x}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_of_this_machine_is_not_remote() {
        // Tests never run on a network file system here.
        assert!(!is_network_fs(Path::new("/proc")));
        assert!(!is_network_fs(Path::new("/does/not/exist")));
    }
}
