//! Code of other libraries in the book, which cannot be compiled there.

use crate::documents::markdown::Document;
use crate::documents::{read, root};

/// The code for rslock is a part of the tests that run it together with distlock, so it compiles.
#[test]
fn what_the_book_shows_of_rslock_is_what_the_tests_run() {
    let page = Document::parse(&read(&root().join("docs/book/src/coming-from.md")));
    let shown = page.blocks.iter().find(|block| block.language == "rust,ignore").expect("the code of rslock");
    let tested = read(&root().join("tests/interop/rslock.rs"));
    let tested: Vec<&str> = tested.lines().map(str::trim).collect();
    let follows = tested.windows(shown.lines.len()).any(|lines| lines == shown.lines);
    assert!(follows, "tests/interop/rslock.rs does not contain {:?}", shown.lines);
}
