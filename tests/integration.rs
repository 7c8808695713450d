//! All tests that can run in one process, with one module for each folder.

mod axum;
mod conformance;
mod diagnosis;
mod documents;
mod each_store;
mod etcd;
mod faults;
mod interop;
mod kit;
mod listing;
mod memcached;
mod mysql;
mod postgres;
mod processes;
mod sqlite;
mod zookeeper;
