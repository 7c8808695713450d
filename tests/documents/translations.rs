//! README.zh.md, README.ja.md, and the translated pages of the book have the sections, the code, the tables and the
//! links of the English ones. The examples of the book are compiled in English only.

use std::fs;

use crate::documents::markdown::{Document, code_spans, link_targets};
use crate::documents::{read, root};

pub(super) const LANGUAGES: [&str; 2] = ["zh", "ja"];
const TRANSLATIONS: [&str; 2] = ["README.zh.md", "README.ja.md"];
const BOOK: &str = "docs/book/src/";

fn parse(name: &str) -> Document {
    Document::parse(&read(&root().join(name)))
}

/// The pages of the book in `language`, in the order of their names.
pub(super) fn pages(language: &str) -> Vec<String> {
    let folder = fs::read_dir(root().join(BOOK).join(language)).expect("translated pages");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a plain name");
    let mut names: Vec<_> = folder.map(|entry| name(entry.expect("a page"))).collect();
    names.sort();
    names
}

/// A page with its translation into `language`.
struct Pair {
    language: &'static str,
    original: String,
    translation: String,
}

impl Pair {
    fn is_of_book(&self) -> bool {
        self.original.starts_with(BOOK)
    }
}

/// README, then the pages of the book that are translated.
fn pairs() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for language in LANGUAGES {
        let (original, translation) = ("README.md".to_owned(), format!("README.{language}.md"));
        pairs.push(Pair { language, original, translation });
        for name in pages(language) {
            let (original, translation) = (format!("{BOOK}{name}"), format!("{BOOK}{language}/{name}"));
            pairs.push(Pair { language, original, translation });
        }
    }
    pairs
}

fn each(check: impl Fn(&str, &Document, &Document)) {
    for Pair { original, translation, .. } in pairs() {
        check(&translation, &parse(&original), &parse(&translation));
    }
}

/// The kind of a line.
fn kind(line: &str) -> &'static str {
    match line.chars().next() {
        None => "blank",
        Some('#') => "heading",
        Some('|') => "row",
        Some('-') => "item",
        Some('0'..='9') if line[1..].starts_with(". ") => "promise",
        Some('`') if line.starts_with("```") => "fence",
        Some(_) => "text",
    }
}

/// So a change of one line of README.md shows which lines of the translations must change, too.
#[test]
fn the_same_thing_stands_on_the_same_line() {
    let kinds = |name: &str| read(&root().join(name)).lines().map(kind).collect::<Vec<_>>();
    let original = kinds("README.md");
    for name in TRANSLATIONS {
        let translation = kinds(name);
        let first = original.iter().zip(&translation).position(|(ours, theirs)| ours != theirs);
        assert_eq!(first.map(|line| line + 1), None, "{name}: the first line of another kind");
        assert_eq!(original.len(), translation.len(), "{name}");
    }
}

#[test]
fn translations_have_the_same_sections() {
    each(|name, original, translation| {
        let levels =
            |document: &Document| document.headings.iter().map(|(level, _)| *level).collect::<Vec<_>>();
        assert_eq!(levels(original), levels(translation), "{name}: {:?}", translation.headings);
    });
}

#[test]
fn code_differs_in_its_comments_only() {
    each(|name, original, translation| {
        assert_eq!(original.blocks.len(), translation.blocks.len(), "{name}");
        for (ours, theirs) in original.blocks.iter().zip(&translation.blocks) {
            assert_eq!(ours, theirs, "{name}");
        }
    });
}

/// The code spans of a text, sorted, because the order of words differs between languages.
fn named<'a>(lines: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut code: Vec<_> = lines.flat_map(|line| code_spans(line)).collect();
    code.sort();
    code
}

#[test]
fn tables_have_the_same_rows_and_the_same_code_in_each_cell() {
    each(|name, original, translation| {
        assert_eq!(original.tables.len(), translation.tables.len(), "{name}");
        for (ours, theirs) in original.tables.iter().zip(&translation.tables) {
            assert_eq!(ours.len(), theirs.len(), "{name}: {:?}", theirs.first());
            for (ours, theirs) in ours.iter().zip(theirs) {
                assert_eq!(ours.len(), theirs.len(), "{name}: {theirs:?}");
                for (our, their) in ours.iter().zip(theirs) {
                    assert_eq!(named([our].into_iter()), named([their].into_iter()), "{name}: {theirs:?}");
                }
            }
        }
    });
}

#[test]
fn a_translated_page_names_the_same_code() {
    for Pair { original, translation, .. } in pairs().into_iter().filter(Pair::is_of_book) {
        let [ours, theirs] = [&original, &translation].map(|name| named(parse(name).prose.iter()));
        assert_eq!(ours, theirs, "{translation}");
    }
}

/// The target of a translation's link where the original has `link`: the translated page, if there is one.
fn in_translation(link: &str, pair: &Pair) -> String {
    let (page, _) = link.split_once('#').unwrap_or((link, ""));
    let folder = if pair.is_of_book() { "" } else { BOOK };
    let name = page.strip_prefix(folder).unwrap_or_default();
    if link.contains("://") {
        link.to_owned()
    } else if pages(pair.language).iter().any(|page| page == name) {
        if pair.is_of_book() { name.to_owned() } else { format!("{BOOK}{}/{name}", pair.language) }
    } else if pair.is_of_book() && !page.is_empty() {
        format!("../{link}")
    } else {
        without_translated_heading(link, pair)
    }
}

/// A link of a translation. If its page is translated, the heading is removed, because headings are translated.
fn without_translated_heading(link: &str, pair: &Pair) -> String {
    let to_translation = if pair.is_of_book() {
        !link.starts_with("../") && !link.contains("://")
    } else {
        link.starts_with(&format!("{BOOK}{}/", pair.language))
    };
    let page = link.split('#').next().filter(|_| to_translation);
    page.unwrap_or(link).to_owned()
}

/// The links of a document, except those to the other languages.
fn links(document: &Document) -> Vec<String> {
    let lines = document.prose.iter().filter(|line| !line.contains("简体中文"));
    lines.flat_map(|line| link_targets(line)).collect()
}

#[test]
fn links_lead_to_the_translation_if_there_is_one() {
    for pair in pairs() {
        let [ours, theirs] = [&pair.original, &pair.translation].map(|name| links(&parse(name)));
        let mut expected: Vec<_> = ours.iter().map(|link| in_translation(link, &pair)).collect();
        let mut found: Vec<_> = theirs.iter().map(|link| without_translated_heading(link, &pair)).collect();
        expected.sort();
        found.sort();
        assert_eq!(expected, found, "{}", pair.translation);
    }
}

#[test]
fn a_page_and_its_translations_lead_to_each_other() {
    let names = pages("zh");
    assert_eq!(names, pages("ja"));
    assert!(!names.is_empty());
    for name in names {
        for (page, languages) in [
            (name.clone(), format!("English | [简体中文](zh/{name}) | [日本語](ja/{name})")),
            (format!("zh/{name}"), format!("[English](../{name}) | 简体中文 | [日本語](../ja/{name})")),
            (format!("ja/{name}"), format!("[English](../{name}) | [简体中文](../zh/{name}) | 日本語")),
        ] {
            let text = read(&root().join(BOOK).join(&page));
            assert_eq!(text.lines().nth(2), Some(&*languages), "{page}");
        }
    }
}

/// README shows the options that most programs need. The page of the attribute has all of them, and README links to it.
#[test]
fn every_option_in_the_table_is_one_of_the_attribute() {
    let attribute = read(&root().join("distlock/src/attribute.md"));
    let rows = attribute.lines().filter(|line| line.starts_with("| [`"));
    let documented: Vec<String> =
        rows.flat_map(|row| code_spans(row.split("](").next().unwrap_or(row))).collect();
    assert!(documented.len() > 20, "{documented:?}");
    let readme = parse("README.md");
    let is_key = |row: &Vec<String>| row[0].starts_with("`key = ");
    let options = readme.tables.iter().find(|table| table.iter().any(is_key)).expect("a table of options");
    let spans = options.iter().flat_map(|row| code_spans(&row[0]));
    let named: Vec<String> =
        spans.filter_map(|span| span.split_once(" = ").map(|(name, _)| name.to_owned())).collect();
    assert!(named.len() >= 8, "{named:?}");
    for name in named {
        assert!(documented.contains(&name), "README.md has a row for `{name}`, which is no option");
    }
    let links: Vec<String> = readme.prose.iter().flat_map(|line| link_targets(line)).collect();
    assert!(
        links.iter().any(|link| link == "distlock/src/attribute.md"),
        "README.md links to no list of all options"
    );
}

/// A reader who decides about the library reads one page.
#[test]
fn the_readme_is_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= 160, "README.md has {lines} lines: move what only some readers need to the book");
}
