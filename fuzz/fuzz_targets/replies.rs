//! What servers send: replies to scripts and commands, what a cluster tells about itself, and pushes.

#![no_main]

use distlock::fuzzing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzzing::reply(data);
    if let Ok(text) = str::from_utf8(data) {
        fuzzing::push(text);
        fuzzing::info(text);
    }
    // The text of `CLUSTER INFO` stands behind a zero byte.
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (slots, info) = data.split_at(end);
    fuzzing::cluster(slots, str::from_utf8(info.get(1..).unwrap_or_default()).unwrap_or_default());
});
