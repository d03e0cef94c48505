//! Checks that every relative link in a Markdown file leads to a file or folder of the checkout, and
//! its anchor to a heading.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Returns what is wrong with the links of all Markdown files, and how many links there are.
pub(crate) fn check(workspace: &Workspace) -> Result<(Vec<String>, usize)> {
    let files: Vec<String> = workspace.files("")?.iter().map(|path| workspace.show(path)).collect();
    let mut pages = BTreeMap::new();
    for page in
        files.iter().filter(|file| Path::new(file).extension().is_some_and(|extension| extension == "md"))
    {
        let text =
            fs::read_to_string(workspace.root().join(page)).with_context(|| format!("reading {page}"))?;
        pages.insert(page.as_str(), text);
    }
    let anchors: HashMap<&str, Vec<String>> =
        pages.iter().map(|(page, text)| (*page, anchors(text))).collect();
    let mut problems = Vec::new();
    let mut checked = 0;
    for (page, text) in &pages {
        for (line, link) in relative_links(text) {
            checked += 1;
            if let Some(problem) = problem(page, &link, &files, &anchors) {
                problems.push(format!("{page}:{line}: the link to `{link}` {problem}"));
            }
        }
    }
    Ok((problems, checked))
}

fn problem(
    page: &str,
    link: &str,
    files: &[String],
    anchors: &HashMap<&str, Vec<String>>,
) -> Option<&'static str> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() { Some(page.to_owned()) } else { resolve(page, path) };
    let Some(target) = target else { return Some("leaves the checkout") };
    let is_file = files.contains(&target);
    let is_folder = || target.is_empty() || files.iter().any(|file| file.starts_with(&format!("{target}/")));
    if !is_file && !is_folder() {
        return Some("leads nowhere");
    }
    let anchor = anchor.filter(|_| is_file)?;
    let has_anchor = anchors.get(&*target).is_none_or(|known| known.iter().any(|known| known == anchor));
    (!has_anchor).then_some("has an anchor that no heading of the page has")
}

/// Returns the path that a link of `page` leads to, or `None` if that is outside the checkout.
fn resolve(page: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the targets of links that are no URLs, with their lines.
fn relative_links(text: &str) -> Vec<(usize, String)> {
    let links = prose(text).flat_map(|(number, line)| {
        let outside_code: String = line.split('`').step_by(2).collect();
        let targets = outside_code.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let relative = targets.filter(|target| !target.is_empty() && !target.contains(':'));
        relative.map(|target| (number, target.to_owned())).collect::<Vec<_>>()
    });
    links.collect()
}

/// Returns the anchors of all headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let headings = prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.strip_prefix(' ')).flatten()
    });
    headings
        .map(|title| {
            let anchor = anchor(title);
            let count = counts.entry(anchor.clone()).or_default();
            *count += 1;
            if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
        })
        .collect()
}

fn anchor(title: &str) -> String {
    let mut shown = String::new();
    // The target of a link is not shown.
    for (at, part) in title.trim().split("](").enumerate() {
        shown.push_str(if at == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) });
    }
    let kept = shown.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|char| if char == ' ' { '-' } else { char }).collect()
}

/// Returns the lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# A `b`: c, *d*\n```\n# no heading\n[no](link)\n```\n## Twice\n## Twice\n## [E](x.md) & f\n";

    #[test]
    fn anchors_are_those_of_headings() {
        assert_eq!(anchors(PAGE), ["a-b-c-d", "twice", "twice-1", "e--f"]);
    }

    #[test]
    fn links_are_found_outside_of_code_with_their_lines() {
        let text = "[a](b.md#c) `[no](link)` [d](https://x.test/)\n```\n[no](link)\n```\n[e](../f/)[g](#h)";
        let want = [(1, "b.md#c"), (5, "../f/"), (5, "#h")];
        assert_eq!(relative_links(text), want.map(|(line, link)| (line, link.to_owned())));
    }

    #[test]
    fn a_link_leads_to_a_file_a_folder_or_a_heading() {
        let files = ["README.md", "docs/a.md", "docs/hosts/b.md"].map(str::to_owned);
        let anchors = HashMap::from([("docs/a.md", anchors(PAGE))]);
        let check = |page, link| problem(page, link, &files, &anchors);
        for (page, link) in [
            ("README.md", "docs/a.md"),
            ("README.md", "docs/a.md#twice-1"),
            ("docs/a.md", "#twice"),
            ("docs/a.md", "hosts/"),
            ("docs/hosts/b.md", "../a.md#e--f"),
            ("docs/a.md", "../README.md"),
            ("docs/a.md", ".."),
        ] {
            assert_eq!(check(page, link), None, "{link}");
        }
        assert_eq!(check("docs/a.md", "missing.md"), Some("leads nowhere"));
        assert_eq!(check("README.md", "a.md"), Some("leads nowhere"));
        assert_eq!(check("README.md", "../a.md"), Some("leaves the checkout"));
        assert!(check("docs/a.md", "#thrice").is_some_and(|problem| problem.contains("anchor")));
    }
}
