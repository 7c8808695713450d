//! README.zh.md and README.ja.md have the sections, the code, the tables and the links of README.md.

use crate::documents::markdown::{Document, code_spans, link_targets};
use crate::documents::{read, root};

const TRANSLATIONS: [&str; 2] = ["README.zh.md", "README.ja.md"];

fn parse(name: &str) -> Document {
    Document::parse(&read(&root().join(name)))
}

fn each(check: impl Fn(&str, &Document, &Document)) {
    let original = parse("README.md");
    for name in TRANSLATIONS {
        check(name, &original, &parse(name));
    }
}

/// What kind of line this is.
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

/// So a change of one line of README.md shows which lines of the translations have to change, too.
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

#[test]
fn tables_have_the_same_rows_and_the_same_code_in_each() {
    each(|name, original, translation| {
        assert_eq!(original.tables.len(), translation.tables.len(), "{name}");
        for (ours, theirs) in original.tables.iter().zip(&translation.tables) {
            assert_eq!(ours.len(), theirs.len(), "{name}: {:?}", theirs.first());
            for (ours, theirs) in ours.iter().zip(theirs) {
                assert_eq!(ours.len(), theirs.len(), "{name}: {theirs:?}");
                assert_eq!(code_spans(&ours[0]), code_spans(&theirs[0]), "{name}: {theirs:?}");
                assert_eq!(
                    ours.len() > 1 && ours[1].starts_with('`'),
                    theirs.len() > 1 && theirs[1].starts_with('`')
                );
            }
        }
    });
}

/// The order of words differs between languages, so the order of links may, too.
#[test]
fn links_are_the_same() {
    each(|name, original, translation| {
        let links = |document: &Document| {
            let mut links: Vec<String> =
                document.prose.iter().skip(1).flat_map(|line| link_targets(line)).collect();
            links.sort();
            links
        };
        assert_eq!(links(original), links(translation), "{name}");
    });
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

/// Who decides reads one page.
#[test]
fn the_readme_is_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= 160, "README.md has {lines} lines: move what only some readers need to the book");
}
