//! An argument that an option uses is changed before the locked block.

use std::pin::Pin;

use distlock::{LockError, distributed_lock};

type R = Result<u64, LockError>;

#[distributed_lock(key = "account:<id>:<name>:<zone>:<at>")]
fn arguments_that_change(
    mut id: u64,
    mut name: String,
    mut zone: String,
    mut at: u64,
) -> Pin<Box<dyn Future<Output = R> + Send>> {
    id %= 16;
    name.make_ascii_lowercase();
    std::mem::take(&mut zone);
    if id == 0 {
        (at, _) = (id, id);
    }
    Box::pin(async move { Ok(id + at) })
}

#[distributed_lock(key = "account:<name>:<order.id>")]
fn behind_references<'a>(name: &'a mut String, order: &'a mut Order) -> Pin<Box<dyn Future<Output = R> + Send + 'a>> {
    name.make_ascii_lowercase();
    order.id %= 16;
    Box::pin(async move { Ok(0) })
}

struct Order {
    id: u64,
    name: String,
    calls: u64,
}

impl Order {
    #[distributed_lock(key = "order:<self.id>:<self.name>")]
    fn fields(&mut self) -> Pin<Box<dyn Future<Output = R> + Send + '_>> {
        self.id %= 16;
        self.name.make_ascii_lowercase();
        Box::pin(async move { Ok(self.id) })
    }

    #[distributed_lock(keys = [self.name()])]
    fn the_whole(&mut self) -> Pin<Box<dyn Future<Output = R> + Send + '_>> {
        *self = Order { id: 1, name: String::new(), calls: 0 };
        Box::pin(async move { Ok(self.id) })
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    // Other fields change.
    #[distributed_lock(key = "order:<self.id>")]
    fn other_fields(&mut self) -> Pin<Box<dyn Future<Output = R> + Send + '_>> {
        self.calls += 1;
        self.name.make_ascii_lowercase();
        let name = self.name();
        Box::pin(async move { Ok(self.calls + name.len() as u64) })
    }
}

#[distributed_lock(key = "order:<order.id>")]
fn another_field(mut order: Order) -> Pin<Box<dyn Future<Output = R> + Send>> {
    order.calls += 1;
    Box::pin(async move { Ok(order.calls) })
}

// No option uses it, or it is changed in the block.
#[distributed_lock(key = "account:<id>")]
fn allowed(mut id: u64, mut name: String) -> Pin<Box<dyn Future<Output = R> + Send>> {
    name.make_ascii_lowercase();
    Box::pin(async move {
        id += name.len() as u64;
        Ok(id)
    })
}

fn main() {}
