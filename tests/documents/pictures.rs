//! Pictures are readable on light and dark pages, and have a text that describes them.

use std::fs;

use crate::documents::{read, root};

#[test]
fn every_picture_has_words_and_a_dark_variant() {
    let mut found = 0;
    for entry in fs::read_dir(root().join("docs/pictures")).expect("the pictures") {
        let path = entry.expect("a picture").path();
        let svg = read(&path);
        for part in ["role=\"img\"", "<title>", "<desc>", "prefers-color-scheme: dark"] {
            assert!(svg.contains(part), "{} has no {part}", path.display());
        }
        found += 1;
    }
    assert!(found > 5, "{found} pictures");
}

/// A symbolic link that was checked out as a plain file would be a dead picture in the book.
#[test]
fn the_pictures_of_the_book_are_those_of_the_documents() {
    for entry in fs::read_dir(root().join("docs/book/src/pictures")).expect("the pictures of the book") {
        let path = entry.expect("a picture").path();
        let name = path.file_name().expect("a file");
        assert!(
            read(&path) == read(&root().join("docs/pictures").join(name)),
            "{} is another one",
            path.display()
        );
    }
}
