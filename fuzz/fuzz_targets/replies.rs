//! Messages of servers: replies to scripts and commands, the description of a cluster, and pushes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| distlock::fuzzing::server(data));
