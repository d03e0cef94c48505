//! Random bytes from the operating system.

use std::fmt::Write as _;

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::StoreError;

/// Returns unpredictable bytes.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| StoreError::Unavailable("the system gives no randomness".into()))?;
    Ok(bytes)
}

/// Formats bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
