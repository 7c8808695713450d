//! `distlock web`: the server as a process, and its page in a real browser.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod browser;
mod http;
mod page;
mod rogue;
mod server;
