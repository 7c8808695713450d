//! Broken links, and a server that stops. While the server forgets nothing, two holders never believe in one lock at
//! the same time, and no lock is left.

crate::each_store::faults!(distlock_fixtures::MemcachedServer);
