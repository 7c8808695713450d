//! Key templates: any text is either parsed, or each mistake has a place in it.

#![no_main]
#![allow(dead_code, reason = "the parser, without the crate that it is a part of")]

#[path = "../../distlock-macros/src/duration.rs"]
mod duration;
#[path = "../../distlock-macros/src/template.rs"]
mod template;

use template::Segment;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // A duration that is not one is an error, and nothing else.
    let _ = duration::parse(text);
    match template::parse(text) {
        Ok(segments) => {
            assert!(!segments.is_empty());
            for segment in &segments {
                if let Segment::Placeholder(placeholder) = segment {
                    let written = &text[placeholder.range.clone()];
                    assert!(written.starts_with('<') && written.ends_with('>'), "{written}");
                    assert!(!placeholder.root.is_empty());
                }
            }
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            for mistake in &mistakes {
                assert!(text.get(mistake.range.clone()).is_some(), "{mistake:?}");
            }
        }
    }
});
