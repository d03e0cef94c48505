//! [`StableHash`]: a short hash that is the same everywhere.

/// FNV-1a: the same on every machine and in every version, unlike hashes for tables. It is
/// short, so whoever uses it has to handle collisions.
#[derive(Clone, Copy, Debug)]
pub struct StableHash(u64);

impl Default for StableHash {
    fn default() -> Self {
        Self::new()
    }
}

impl StableHash {
    /// The hash of nothing.
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The hash of everything that was added.
    pub fn to_u32(self) -> u32 {
        // Both halves count.
        u32::try_from((self.0 ^ (self.0 >> 32)) & 0xffff_ffff).expect("32 bits")
    }
}
