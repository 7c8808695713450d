//! Placeholders as other libraries write them.

use distlock::{LockError, distributed_lock};

#[distributed_lock(keys = ["a:#id", "b:$id", "c:@id", "d:[id]", "e:(id)", "f::id", "/g/:id", "h:%s", "i:#identity"])]
async fn f(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
