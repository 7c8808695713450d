//! Messages of the servers of all stores, and data that other clients have written there. The first letter selects the
//! reader.

#![no_main]

use libfuzzer_sys::Corpus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((letter, data)) = data.split_first() else { return Corpus::Reject };
    match letter {
        b'e' => distlock_etcd::fuzzing::server(data),
        b'l' => distlock::fuzzing::lock(data),
        b'm' => distlock_memcached::fuzzing::server(data),
        b'p' => distlock_postgres::fuzzing::server(data),
        b'r' => distlock::fuzzing::records(data),
        b't' => distlock::fuzzing::ticket(data),
        b'y' => distlock_mysql::fuzzing::server(data),
        b'z' => distlock_zookeeper::fuzzing::server(data),
        _ => return Corpus::Reject,
    }
    Corpus::Keep
});
