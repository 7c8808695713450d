//! The command `distlock` with your own store: `toy://127.0.0.1:4000`.

#![allow(clippy::expect_used, reason = "it says what is wrong with this program")]

use std::process::ExitCode;

use distlock::store::{kit::connection::ConnectionOptions, register};
use distlock_toy_store::ToyStore;

fn main() -> ExitCode {
    register(&["toy"], open).expect("`toy` is no other store's");
    distlock_cli::main()
}

fn open(url: &str, _options: &ConnectionOptions) -> Result<ToyStore, String> {
    let address = url.strip_prefix("toy://").and_then(|address| address.parse().ok());
    address
        .map(ToyStore::new)
        .ok_or_else(|| "write `toy://` and an address, as in `toy://127.0.0.1:4000`".to_owned())
}
