//! Links that break and a server that stops: no two holders that both believe it while nothing is forgotten, and
//! nothing left behind.

crate::each_store::faults!(distlock_fixtures::MemcachedServer);
