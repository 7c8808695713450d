//! URLs, as users write them.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| distlock::fuzzing::url(text));
