//! A `Result` with an error of its own.

use distlock::{LockError, distributed_lock};

fn parsed(text: &str) -> Result<String, std::num::ParseIntError> {
    text.parse::<u64>().map(|number| number.to_string())
}

#[distributed_lock(key = parsed(&text))]
async fn f(text: String) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
