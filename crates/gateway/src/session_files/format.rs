//! The format of the file of a session: a header, then encrypted frames.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bowline_store::{Key, NonceSource, SealKey, StoreError};

use super::owner::OwnerId;

/// How every file begins. The last character is the version of the format.
const MAGIC: &[u8; 16] = b"bowline-session1";
/// The length of the header: how every file begins, and the time at which the session ends.
pub(super) const HEADER_LENGTH: usize = MAGIC.len() + size_of::<u64>();
/// Where in the header the end of the session is.
pub(super) const END_OFFSET: u64 = MAGIC.len() as u64;

/// One thing that is known of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// Which process serves the session from here on.
    Owner(OwnerId),
    /// The record of the session, in place of earlier ones.
    Record(&'a [u8]),
    /// An entry of its journal.
    Entry(&'a [u8]),
}

/// The content of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) ends: u64,
    pub(super) owner: Option<OwnerId>,
    pub(super) record: Option<Vec<u8>>,
    pub(super) entries: Vec<Vec<u8>>,
    /// The length of what could be read. A write that a crash has cut short may follow.
    pub(super) length: usize,
}

/// The time at which a lifetime that begins now is over, in milliseconds since the epoch.
pub(super) fn end_of(lifetime: Duration) -> u64 {
    now_ms().saturating_add(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX))
}

/// The milliseconds since the epoch.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The header of a session that ends at this time.
pub(super) fn header(ends: u64) -> Vec<u8> {
    [&MAGIC[..], &ends.to_le_bytes()].concat()
}

/// The time at which the session ends. `None` if this is no file of a session.
pub(super) fn read_header(bytes: &[u8]) -> Option<u64> {
    let (ends, _) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    Some(u64::from_le_bytes(*ends))
}

/// Encrypts a frame for the file of this name, and appends it.
pub(super) fn push_frame(
    file: &mut Vec<u8>,
    frame: Frame<'_>,
    (key, nonces): (&SealKey, &mut NonceSource),
    name: &Key,
) -> Result<(), StoreError> {
    let (kind, bytes) = match &frame {
        Frame::Owner(owner) => (b'o', &owner.0[..]),
        Frame::Record(record) => (b'r', *record),
        Frame::Entry(entry) => (b'e', *entry),
    };
    let begin = file.len();
    file.extend_from_slice(&[0; size_of::<u32>()]);
    let sealed = nonces.push_sealed(file, key, name, &[&[kind], bytes]);
    let length = sealed.and_then(|length| {
        u32::try_from(length)
            .map_err(|_| StoreError::Unusable("the message is too long to be recorded".to_owned()))
    });
    match length {
        Ok(length) => {
            file[begin..begin + size_of::<u32>()].copy_from_slice(&length.to_le_bytes());
            Ok(())
        }
        Err(error) => {
            file.truncate(begin);
            Err(error)
        }
    }
}

/// Reads a file, up to the first frame that is damaged. `None` if it is no file of a session.
pub(super) fn read(bytes: &[u8], key: &SealKey, name: &str) -> Option<Content> {
    let mut content = Content { ends: read_header(bytes)?, length: HEADER_LENGTH, ..Content::default() };
    let name = seal_name(name);
    while let Some((sealed, length)) = split_frame(&bytes[content.length..]) {
        let Ok(plain) = key.open(&name, sealed) else { break };
        let Some((kind, value)) = plain.split_first() else { break };
        match kind {
            b'o' => content.owner = Some(OwnerId(value.try_into().ok()?)),
            b'r' => content.record = Some(value.to_vec()),
            b'e' => content.entries.push(value.to_vec()),
            // A later version may know more.
            _ => {}
        }
        content.length += length;
    }
    Some(content)
}

/// The encrypted part of the first frame, and the length of the frame.
fn split_frame(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    Some((rest.get(..length)?, size_of::<u32>() + length))
}

/// What the frames of a file are bound to, so that those of another one are none.
pub(super) fn seal_name(name: &str) -> Key {
    Key::new("session file", name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWNER: OwnerId = OwnerId([7; 16]);

    fn key() -> SealKey {
        SealKey::from_bytes([1; 32])
    }

    fn file(frames: &[Frame<'_>]) -> Vec<u8> {
        let (mut file, mut nonces) = (header(42), NonceSource::default());
        for frame in frames {
            push_frame(&mut file, *frame, (&key(), &mut nonces), &seal_name("a")).unwrap();
        }
        file
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = file(&[
            Frame::Owner(OwnerId([1; 16])),
            Frame::Record(b"old"),
            Frame::Entry(b"1"),
            Frame::Owner(OWNER),
            Frame::Record(b"new"),
            Frame::Entry(b""),
        ]);
        let expected = Content {
            ends: 42,
            owner: Some(OWNER),
            record: Some(b"new".to_vec()),
            entries: vec![b"1".to_vec(), Vec::new()],
            length: bytes.len(),
        };
        assert_eq!(read(&bytes, &key(), "a"), Some(expected));
        // The frames of another session, and of another key.
        for (key, name) in [(key(), "b"), (SealKey::from_bytes([2; 32]), "a")] {
            let expected = Content { ends: 42, length: HEADER_LENGTH, ..Content::default() };
            assert_eq!(read(&bytes, &key, name), Some(expected));
        }
        assert_eq!(read(b"bowline-session2........", &key(), "a"), None);
    }

    proptest! {
        /// Whatever is cut off or changed, what precedes it is read, and nothing else.
        #[test]
        fn damage_costs_only_what_follows(
            entries in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8),
            at in any::<prop::sample::Index>(),
            flip in prop::option::of(1..=255_u8),
        ) {
            let frames: Vec<_> = entries.iter().map(|entry| Frame::Entry(entry)).collect();
            let mut bytes = file(&frames);
            let at = HEADER_LENGTH + at.index(bytes.len() - HEADER_LENGTH);
            match flip {
                Some(bits) => bytes[at] ^= bits,
                None => bytes.truncate(at),
            }
            let content = read(&bytes, &key(), "a").unwrap();
            prop_assert!(content.length <= at);
            prop_assert!(content.entries.len() < entries.len());
            prop_assert_eq!(&content.entries[..], &entries[..content.entries.len()]);
            let whole = file(&frames[..content.entries.len()]).len();
            prop_assert_eq!(content.length, whole);
        }
    }
}
