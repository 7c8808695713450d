//! Every link to a file of the repository, or to a heading in it, has a target.

use std::fs;
use std::path::{Path, PathBuf};

use crate::documents::markdown::{Document, anchor, link_targets};
use crate::documents::translations::{LANGUAGES, pages};
use crate::documents::{read, root};

/// The Markdown files of the repository.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root(), root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && folder != root() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The document that a page of the book includes. The links of such a page are those of the document.
fn included(page: &Path) -> Option<PathBuf> {
    if page.extension().is_none_or(|extension| extension != "md") {
        return None;
    }
    let text = read(page);
    let last = text.lines().last()?;
    let inner = last.strip_prefix("{{#include ")?.strip_suffix("}}")?.to_owned();
    Some(page.parent().expect("a file has a folder").join(inner))
}

/// A reader of the book's sources does not see the included document, so the page has a link to it, which the book
/// hides. The link is a full address, because mdBook would turn the path into a dead link.
#[test]
fn a_page_that_includes_a_document_links_to_it() {
    let mut found = 0;
    for entry in fs::read_dir(root().join("docs/book/src")).expect("the book") {
        let page = entry.expect("a page").path();
        if included(&page).is_none() {
            continue;
        }
        let name = page.file_name().and_then(|name| name.to_str()).expect("a plain name");
        let document = format!("https://github.com/distlock/distlock/blob/main/docs/{name}");
        let link = format!("<a href=\"{document}\">docs/{name}</a>");
        let expected = format!(
            "<p class=\"elsewhere\">The text of this page is in {link}.</p>\n\n{{{{#include ../../{name}}}}}\n"
        );
        assert_eq!(read(&page), expected, "{name}");
        found += 1;
    }
    assert!(found > 10, "{found} pages");
    assert!(read(&root().join("docs/book/tables.css")).contains("\n.elsewhere {\n    display: none;\n}"));
}

/// In the book, a document is in another folder, so the targets of its links must be there, too.
#[test]
fn what_the_book_includes_finds_its_links_there() {
    let folder = root().join("docs/book/src");
    let mut broken = Vec::new();
    let mut found = 0;
    for entry in fs::read_dir(&folder).expect("the book") {
        let page = entry.expect("a page").path();
        let Some(document) = included(&page) else { continue };
        found += 1;
        for line in Document::parse(&read(&document)).prose {
            for target in link_targets(&line).into_iter().filter(|target| !target.contains("://")) {
                let path = target.split('#').next().unwrap_or_default();
                if !path.is_empty() && !folder.join(path).exists() {
                    broken.push(format!("{}: {target}", document.display()));
                }
            }
        }
    }
    assert!(found > 10, "{found} pages");
    assert!(
        broken.is_empty(),
        "not to be reached from the book; name the address in the web:\n{}",
        broken.join("\n")
    );
}

fn has_anchor(file: &Path, wanted: &str) -> bool {
    let file = included(file).unwrap_or_else(|| file.to_owned());
    Document::parse(&read(&file)).headings.iter().any(|(_, heading)| anchor(heading) == wanted)
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let mut broken = Vec::new();
    let documents = documents();
    assert!(documents.len() > 10, "{documents:?}");
    for document in documents {
        let folder = document.parent().expect("a file has a folder");
        for line in Document::parse(&read(&document)).prose {
            for target in link_targets(&line) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
                let file = if path.is_empty() { document.clone() } else { folder.join(path) };
                if !file.exists() || (!heading.is_empty() && !has_anchor(&file, heading)) {
                    broken.push(format!("{}: {target}", document.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_page_of_the_book_is_in_its_summary() {
    let folder = root().join("docs/book/src");
    let summary = read(&folder.join("SUMMARY.md"));
    let entries = fs::read_dir(&folder).expect("the book");
    let own = entries.map(|entry| entry.expect("a page").file_name().into_string().expect("a plain name"));
    let translated = LANGUAGES
        .iter()
        .flat_map(|language| pages(language).into_iter().map(move |name| format!("{language}/{name}")));
    for name in own.chain(translated) {
        assert!(
            name == "SUMMARY.md" || !name.ends_with(".md") || summary.contains(&format!("({name})")),
            "{name} is not in SUMMARY.md"
        );
    }
}
