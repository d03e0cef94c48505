//! Skills over MCP (extension `io.modelcontextprotocol/skills`): listed, read on demand, and
//! verified.
//!
//! A file is read only on request, and returned only if it matches its descriptor: the size, the
//! digest, and for `SKILL.md` the frontmatter. A match does not make either trustworthy: a skill is
//! text of the server.

mod frontmatter;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bowline_proto::fault::{Fault, Misbehavior};
use bowline_proto::wire::method;
use bowline_proto::wire::object::Edit;
use bowline_proto::wire::view::{
    JsonString, ReadResourceResult, ResourceBody, SkillDescriptor, SkillFile, SkillFiles,
};
use bowline_transport::percent_decode_lossy;
use bytes::Bytes;

use crate::client::Client;
use crate::connection::{CallOptions, Connection, List, LiveLink};
use crate::error::{Error, Result};

/// The name of the extension, for a host to declare.
pub const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// A skill whose `SKILL.md` was read and matches its descriptor.
///
/// Keep the descriptor with any approval: it is the whole set of files and digests that was
/// approved. A descriptor that differs later is another skill as far as that approval goes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Skill {
    client: Client,
    descriptor: SkillDescriptor,
    text: String,
}

/// Why a skill or one of its files is unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// The request failed.
    #[error(transparent)]
    Call(#[from] Error),
    /// The contents do not match the descriptor. The skill may have changed: [`Client::get_skill`]
    /// returns the current descriptor, which needs a new approval.
    #[error("{uri} is not what was listed: {mismatch}")]
    NotAsListed {
        /// URI of the file.
        uri: Box<str>,
        /// What differs.
        mismatch: Mismatch,
    },
    /// The file is not listed by the skill.
    #[error("the skill lists no file {0:?}")]
    NotListed(Box<str>),
    /// The files of the skill are generated on demand and cannot be verified.
    #[error("the files of this skill are made as they are read, and cannot be checked")]
    Dynamic,
}

/// How a file differs from its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The response is not exactly this one file.
    Contents,
    /// The size differs.
    Size,
    /// The SHA-256 digest differs.
    Digest,
    /// The frontmatter differs from the one in the descriptor, or is missing.
    Frontmatter,
    /// The file is not UTF-8 text.
    Text,
}

impl Client {
    /// Lists the server's skills, over all pages, without reading them.
    ///
    /// Empty for a server without the extension, which is not asked. A server may have more skills
    /// than it lists: [`Client::get_skill`] finds those by URI. Invalid elements are left out and
    /// named in `dropped`. Dropping the future cancels it.
    pub async fn list_skills(&self) -> Result<List<SkillDescriptor>> {
        let live = self.live_link(method::SKILLS_LIST).await?;
        if !is_offered(&live) {
            return Ok(List::default());
        }
        self.connection().fetch_all(&live, method::SKILLS_LIST, &CallOptions::new()).await
    }

    /// Requests the descriptor of the skill with this `SKILL.md`, whether it is listed or not.
    /// Dropping the future cancels it.
    pub async fn get_skill(&self, uri: &str) -> Result<SkillDescriptor> {
        let method = method::SKILLS_GET;
        let live = self.live_link(method).await?;
        require(self.connection(), &live, method)?;
        let params = Edit::new().set_str("uri", uri).apply(None).expect("a string is JSON");
        let result = self.connection().request_on(&live, method, Some(&params), &CallOptions::new()).await?;
        let entry =
            self.connection().server.decode_result(method, &result, SkillDescriptor::from_result(&result))?;
        if *entry.uri == *uri {
            return Ok(entry);
        }
        let fault = Fault::protocol(Misbehavior::BadResult).with_note("the entry is that of another skill");
        Err(self.connection().server.fault_error(method, fault))
    }

    /// Reads the `SKILL.md` of a skill and verifies it against its descriptor. No other file is
    /// read.
    ///
    /// Dropping the future cancels it.
    pub async fn read_skill(&self, entry: &SkillDescriptor) -> Result<Skill, SkillError> {
        let bytes = self.read_listed(entry, &entry.uri).await?;
        let not_as_listed = |mismatch| SkillError::NotAsListed { uri: entry.uri.clone(), mismatch };
        let text = String::from_utf8(bytes.into()).map_err(|_| not_as_listed(Mismatch::Text))?;
        if !frontmatter::matches_entry(&text, &entry.frontmatter) {
            return Err(not_as_listed(Mismatch::Frontmatter));
        }
        Ok(Skill { client: self.clone(), descriptor: entry.clone(), text })
    }

    /// Reads and verifies a file that the descriptor lists.
    async fn read_listed(&self, entry: &SkillDescriptor, uri: &str) -> Result<Bytes, SkillError> {
        if entry.files == SkillFiles::Dynamic {
            return Err(SkillError::Dynamic);
        }
        let file = entry.file(uri).ok_or_else(|| SkillError::NotListed(uri.into()))?;
        let result = self.read_resource(uri).await?;
        check_file(file, &result)
            .map_err(|mismatch| SkillError::NotAsListed { uri: file.uri.clone(), mismatch })
    }
}

impl Skill {
    /// The descriptor that the skill was verified against.
    pub fn descriptor(&self) -> &SkillDescriptor {
        &self.descriptor
    }

    /// The configured name of its server, which a model should be told along with the skill.
    pub fn server(&self) -> &str {
        self.client.name()
    }

    /// The whole text of `SKILL.md`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of `SKILL.md` without its frontmatter: the instructions.
    pub fn instructions(&self) -> &str {
        frontmatter::split(&self.text).map_or("", |(_, rest)| rest)
    }

    /// Reads and verifies a file of the skill, by its path within the skill as `SKILL.md` names it,
    /// or by its URI. A file that is not listed is not requested.
    ///
    /// Dropping the future cancels it.
    pub async fn read_file(&self, path: &str) -> Result<Bytes, SkillError> {
        let uri = self.find(path).ok_or_else(|| SkillError::NotListed(path.into()))?;
        self.client.read_listed(&self.descriptor, uri).await
    }

    fn find(&self, path: &str) -> Option<&str> {
        let SkillFiles::Listed(files) = &self.descriptor.files else { return None };
        let path = path.trim_start_matches("./");
        let prefix = format!("{}/", self.descriptor.root());
        let fits = |file: &&SkillFile| {
            let within = file.uri.strip_prefix(&prefix);
            *file.uri == *path
                || within.is_some_and(|within| within == path || percent_decode_lossy(within) == path)
        };
        files.iter().find(fits).map(|file| &*file.uri)
    }
}

/// Returns the bytes of `file` if the result holds exactly that file and they match.
fn check_file(file: &SkillFile, result: &ReadResourceResult) -> Result<Bytes, Mismatch> {
    let [part] = &*result.contents else { return Err(Mismatch::Contents) };
    if part.uri != file.uri || !result.dropped.is_empty() {
        return Err(Mismatch::Contents);
    }
    let bytes: Bytes = match &part.body {
        ResourceBody::Text(text) => text.get().into_owned().into(),
        ResourceBody::Blob(blob) => decode_blob(blob, file.size)?.into(),
        _ => return Err(Mismatch::Contents),
    };
    // Check the size before computing the digest.
    if file.size.is_some_and(|size| size != bytes.len() as u64) {
        return Err(Mismatch::Size);
    }
    if ring::digest::digest(&ring::digest::SHA256, &bytes).as_ref() != file.digest {
        return Err(Mismatch::Digest);
    }
    Ok(bytes)
}

fn decode_blob(blob: &JsonString, size: Option<u64>) -> Result<Vec<u8>, Mismatch> {
    // Base64 uses four characters for three bytes; a much longer text need not be decoded.
    if size.is_some_and(|size| blob.len_hint() as u64 > (size / 3 + 1) * 8) {
        return Err(Mismatch::Size);
    }
    BASE64.decode(blob.get().as_bytes()).map_err(|_| Mismatch::Contents)
}

fn is_offered(live: &LiveLink) -> bool {
    live.peer.capabilities.extension(EXTENSION).is_some()
}

fn require(connection: &Connection, live: &LiveLink, method: &str) -> Result<()> {
    if is_offered(live) {
        return Ok(());
    }
    Err(connection.server.not_offered("skills", method))
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contents => "the server gave something other than this one file",
            Self::Size => "its size differs",
            Self::Digest => "its digest differs",
            Self::Frontmatter => "its frontmatter differs",
            Self::Text => "it is not text",
        })
    }
}
