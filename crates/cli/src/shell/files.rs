//! Completes the path of a file whose text is the value of an argument: `key=@path`.

use super::Candidate;

/// Most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 2000;

/// Returns the files and folders for `key=@path` or `key:=@path`; `None` if the word is something else.
pub(super) fn complete_path(typed: &str) -> Option<Vec<Candidate>> {
    let (key, value) = typed.split_once('=').filter(|(key, _)| !key.is_empty())?;
    let path = value.strip_prefix('@')?;
    let (folder, begun) = path.rfind('/').map_or(("", path), |at| path.split_at(at + 1));
    let read = std::fs::read_dir(if folder.is_empty() { "." } else { folder });
    let entries = read.into_iter().flatten().flatten().take(MAX_ENTRIES);
    let mut paths: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_wanted = name.starts_with(begun) && (begun.starts_with('.') || !name.starts_with('.'));
            // A link to a folder counts as a folder.
            let end = if is_wanted && entry.path().is_dir() { "/" } else { "" };
            is_wanted.then(|| format!("{key}=@{folder}{name}{end}"))
        })
        .collect();
    paths.sort_unstable();
    Some(paths.into_iter().map(Candidate::new).collect())
}

#[cfg(test)]
mod tests {
    use super::complete_path;

    #[test]
    fn files_and_folders_are_offered() {
        let root = tempfile::tempdir().unwrap();
        for name in ["note.txt", "news.md", ".hidden"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        std::fs::create_dir(root.path().join("nested")).unwrap();
        let of = |typed: &str| {
            let root = format!("{}/", root.path().display());
            let word = typed.replace("ROOT/", &root);
            let found = complete_path(&word)?;
            Some(found.into_iter().map(|one| one.value.replace(&root, "ROOT/")).collect::<Vec<_>>())
        };
        assert_eq!(of("a=@ROOT/n").unwrap(), ["a=@ROOT/nested/", "a=@ROOT/news.md", "a=@ROOT/note.txt"]);
        assert_eq!(of("a:=@ROOT/.h").unwrap(), ["a:=@ROOT/.hidden"]);
        assert_eq!(of("a=@ROOT/none/x").unwrap(), [""; 0]);
        for other in ["a", "a=", "a=x@y", "=@x"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
