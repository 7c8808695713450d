//! What servers send: replies to scripts and commands, what a cluster tells about itself, and pushes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| distlock::fuzzing::server(data));
