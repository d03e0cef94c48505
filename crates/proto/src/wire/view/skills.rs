//! [`SkillDescriptor`]: a server's description of a skill, and the checks before any file of it is
//! read (extension `io.modelcontextprotocol/skills`).

use std::collections::HashSet;

use super::read::{Object, decode_elements};
use super::{ListItem as _, ViewError};
use crate::wire::Json;

/// A skill of `skills/list` or `skills/get`. All of it is untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillDescriptor {
    /// The description as received.
    pub json: Json,
    /// The URI of its `SKILL.md`, which identifies the skill.
    pub uri: Box<str>,
    /// The name, which need not be unique.
    pub name: Box<str>,
    /// The purpose of the skill.
    pub description: Box<str>,
    /// The frontmatter of `SKILL.md`, as the server claims it.
    pub frontmatter: Json,
    /// The files of the skill.
    pub files: SkillFiles,
}

/// The files of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillFiles {
    /// All files, including `SKILL.md`, each once.
    Listed(Vec<SkillFile>),
    /// The files are generated when they are read, so they are not known beforehand.
    Dynamic,
}

/// A file of a skill, and the digest of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFile {
    /// The URI by which it is read.
    pub uri: Box<str>,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// The size in bytes. Drafts of the extension did not have it.
    pub size: Option<u64>,
}

list_item!(SkillDescriptor, "skills", uri);

impl SkillDescriptor {
    fn from_object(object: &Object<'_>) -> Result<Self, ViewError> {
        let uri = object.required("uri")?;
        let frontmatter = object.required_object("frontmatter")?;
        let fields = Object::parse(&frontmatter)?;
        let name = fields.required("name").map_err(|error| error.in_member("frontmatter"))?;
        let description = fields.required("description").map_err(|error| error.in_member("frontmatter"))?;
        let Some(root) = find_root(&uri).filter(|root| last_segment(root) == Some(&name)) else {
            return Err(object.misfit("uri", "the URI of a SKILL.md in a folder of the skill's name"));
        };
        let files = match object.non_null("resources") {
            None | Some(br#""dynamic""#) => SkillFiles::Dynamic,
            Some(_) => SkillFiles::Listed(decode_files(&object.json, &uri, root)?),
        };
        Ok(Self { json: object.json.clone(), uri, name, description, frontmatter, files })
    }

    /// Decodes a result of `skills/get`.
    pub fn from_result(json: &Json) -> Result<Self, ViewError> {
        let skill = Object::parse(json)?.required_object("skill")?;
        Self::decode(&skill).map_err(|error| error.in_member("skill"))
    }

    /// The URI of the skill's folder, without a slash at the end.
    pub fn root(&self) -> &str {
        find_root(&self.uri).unwrap_or_default()
    }

    /// The file of this URI, if it is listed.
    pub fn file(&self, uri: &str) -> Option<&SkillFile> {
        match &self.files {
            SkillFiles::Listed(files) => files.iter().find(|file| *file.uri == *uri),
            SkillFiles::Dynamic => None,
        }
    }
}

/// Decodes the files of a skill. One invalid file makes the skill invalid.
fn decode_files(entry: &Json, own: &str, root: &str) -> Result<Vec<SkillFile>, ViewError> {
    let (_, found) = decode_elements(entry, "resources", |file| {
        let uri = file.required("uri")?;
        if !is_within(&uri, root) {
            return Err(file.misfit("uri", "the URI of a file of the skill"));
        }
        let digest = file.string("digest").and_then(|text| parse_digest(&text));
        let digest = digest.ok_or_else(|| file.misfit("digest", "sha256: and 64 hexadecimal digits"))?;
        let size = match file.non_null("size") {
            None => None,
            Some(_) => Some(file.value("size").ok_or_else(|| file.misfit("size", "a number of bytes"))?),
        };
        Ok(SkillFile { uri, digest, size })
    })?;
    if let Some(bad) = found.dropped.into_iter().next() {
        return Err(bad.reason);
    }
    let files = found.items;
    let expected = |what| Err(ViewError::new(what, Some(b"[")).in_member("resources"));
    if files.len() > MAX_SKILL_FILES {
        return expected("512 files at most");
    }
    let total = files.iter().filter_map(|file| file.size).try_fold(0_u64, u64::checked_add);
    if total.is_none_or(|total| total > MAX_SKILL_BYTES) {
        return expected("16 MiB at most");
    }
    let mut seen = HashSet::new();
    if !files.iter().all(|file| seen.insert(&*file.uri)) {
        return expected("each file once");
    }
    if !seen.contains(own) {
        return expected("the SKILL.md itself among them");
    }
    Ok(files)
}

/// The folder of a `SKILL.md`, in which all files of the skill must be.
fn find_root(uri: &str) -> Option<&str> {
    let root = uri.strip_suffix("/SKILL.md")?;
    let (scheme, path) = root.split_once("://")?;
    let named = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (named && path.split('/').all(is_segment)).then_some(root)
}

fn last_segment(root: &str) -> Option<&str> {
    root.rsplit('/').next()
}

/// Whether a file is in the folder `root`, and its URI cannot be read as a path outside of it.
fn is_within(uri: &str, root: &str) -> bool {
    let path = uri.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    path.is_some_and(|path| path.split('/').all(is_segment))
}

/// Whether the text is a safe name of a file or folder: not empty, `.` or `..`, plain or encoded,
/// and without separators, queries and fragments.
fn is_segment(segment: &str) -> bool {
    let spelled = segment.replace("%2e", ".").replace("%2E", ".");
    let encoded_separator = ["%2f", "%2F", "%5c", "%5C", "%00"].iter().any(|code| segment.contains(code));
    let odd = segment.chars().any(|char| matches!(char, '?' | '#' | '\\') || char.is_control());
    !matches!(&*spelled, "" | "." | "..") && !encoded_separator && !odd
}

fn parse_digest(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("sha256:")?.as_bytes();
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    (digits.len() == 64).then_some(digest)
}

/// Maximum number of files that the extension allows one skill.
const MAX_SKILL_FILES: usize = 512;
/// Maximum total size in bytes that the extension allows one skill.
const MAX_SKILL_BYTES: u64 = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry() -> Value {
        let digest = format!("sha256:{}", "0a".repeat(32));
        json!({
            "uri": "skill://acme/refunds/SKILL.md",
            "frontmatter": { "name": "refunds", "description": "Give it back", "x": [1] },
            "resources": [
                { "uri": "skill://acme/refunds/SKILL.md", "digest": digest, "size": 10 },
                { "uri": "skill://acme/refunds/a/b.md", "digest": digest, "size": 0 },
            ],
        })
    }

    fn decode(entry: &Value) -> Result<SkillDescriptor, ViewError> {
        SkillDescriptor::decode(&Json::encode(entry).unwrap())
    }

    #[test]
    fn a_sound_entry() {
        let skill = decode(&entry()).unwrap();
        assert_eq!((&*skill.name, &*skill.description), ("refunds", "Give it back"));
        assert_eq!(skill.root(), "skill://acme/refunds");
        let file = skill.file("skill://acme/refunds/SKILL.md").unwrap();
        assert_eq!((file.digest, file.size), ([10; 32], Some(10)));
        assert!(skill.file("skill://acme/refunds/c.md").is_none());
        for dynamic in [json!("dynamic"), json!(null)] {
            let mut made = entry();
            made["resources"] = dynamic;
            assert_eq!(decode(&made).unwrap().files, SkillFiles::Dynamic);
        }
        // Other schemes are allowed.
        let text = entry().to_string().replace("skill://acme/", "github://o/r/skills/");
        decode(&serde_json::from_str(&text).unwrap()).unwrap();
        let result = json!({ "skill": entry() });
        assert_eq!(SkillDescriptor::from_result(&Json::encode(&result).unwrap()).unwrap(), skill);
    }

    #[test]
    fn an_entry_that_is_not_sound_is_none() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let file = |uri: &str| json!({ "uri": uri, "digest": digest, "size": 1 });
        let more = |file: Value| {
            let mut entry = entry();
            entry["resources"].as_array_mut().unwrap().push(file);
            entry
        };
        let with = |path: &str, value: Value| {
            let mut entry = entry();
            *entry.pointer_mut(path).unwrap() = value;
            entry
        };
        for (what, bad) in [
            ("another name", with("/frontmatter/name", json!("other"))),
            ("no name", with("/frontmatter/name", json!(7))),
            ("no description", with("/frontmatter/description", json!(null))),
            ("no frontmatter", with("/frontmatter", json!("name: refunds"))),
            ("no SKILL.md", with("/uri", json!("skill://acme/refunds/README.md"))),
            ("a way up", with("/uri", json!("skill://../refunds/SKILL.md"))),
            ("no scheme", with("/uri", json!("/acme/refunds/SKILL.md"))),
            ("files that are none", with("/resources", json!("static"))),
            ("its own file missing", with("/resources", json!([file("skill://acme/refunds/a.md")]))),
            ("a file twice", more(file("skill://acme/refunds/a/b.md"))),
            ("a file elsewhere", more(file("skill://acme/refunds2/a.md"))),
            ("a file above", more(file("skill://acme/refunds/../x.md"))),
            ("a file above, encoded", more(file("skill://acme/refunds/%2e%2E/x.md"))),
            ("a slash, encoded", more(file("skill://acme/refunds/a%2f..%2Fx.md"))),
            ("a query", more(file("skill://acme/refunds/a.md?x"))),
            ("a folder", more(file("skill://acme/refunds/"))),
            ("a short digest", with("/resources/0/digest", json!("sha256:0a"))),
            ("an odd digest", with("/resources/0/digest", json!(format!("{digest}a")))),
            ("capitals", with("/resources/0/digest", json!(format!("sha256:{}", "0A".repeat(32))))),
            ("another digest", with("/resources/0/digest", json!(format!("sha512:{}", "0a".repeat(32))))),
            ("a negative size", with("/resources/0/size", json!(-1))),
            ("too much of it", with("/resources/0/size", json!(17 * 1024 * 1024))),
            ("more than can be counted", with("/resources/0/size", json!(u64::MAX))),
        ] {
            assert!(decode(&bad).is_err(), "{what}");
        }
        let mut many = entry();
        let files = (0..512).map(|n| file(&format!("skill://acme/refunds/{n}.md")));
        many["resources"].as_array_mut().unwrap().extend(files);
        assert!(decode(&many).is_err(), "too many files");
    }
}
