//! A variable in front of the locked block, with the name of an argument that an option uses.

use std::pin::Pin;

use distlock::{LockError, LockManager, distributed_lock};

type R = Result<u64, LockError>;

#[distributed_lock(key = "account:<id>")]
fn changed(id: u64) -> Pin<Box<dyn Future<Output = R> + Send>> {
    let id = id % 16;
    Box::pin(async move { Ok(id) })
}

#[distributed_lock(key = "account:<id>")]
fn of_another_type(id: u64) -> Pin<Box<dyn Future<Output = R> + Send>> {
    let id = id.to_string();
    Box::pin(async move { Ok(id.len() as u64) })
}

#[distributed_lock(keys = ["k", format!("account:{}", id.0)], manager = manager)]
fn in_expressions(id: (u64, u64), manager: LockManager) -> Pin<Box<dyn Future<Output = R> + Send>> {
    let (id, manager) = ((id.1, 0), manager.clone());
    Box::pin(async move {
        drop(manager);
        Ok(id.0)
    })
}

#[distributed_lock(key = "account:<id>")]
fn in_a_nested_block(id: u64) -> Pin<Box<dyn Future<Output = R> + Send>> {
    Box::pin({
        let id = id % 16;
        async move { Ok(id) }
    })
}

#[distributed_lock(key = "account:<id>")]
fn a_copy_that_changes(id: u64) -> Pin<Box<dyn Future<Output = R> + Send>> {
    let mut id = id;
    id %= 16;
    Box::pin(async move { Ok(id) })
}

struct Account(u64);

#[distributed_lock(keys = [format!("account:{id}")])]
fn a_part(id: &Account) -> Pin<Box<dyn Future<Output = R> + Send + '_>> {
    let Account(id) = id;
    Box::pin(async move { Ok(*id) })
}

// No option uses it, or it has the same value.
#[distributed_lock(key = "id:<name>", manager = manager)]
fn allowed(id: u64, name: String, manager: LockManager) -> Pin<Box<dyn Future<Output = R> + Send>> {
    let id = id + 1;
    let name = name.clone();
    let manager = LockManager::clone(&manager);
    Box::pin(async move {
        drop((name, manager));
        Ok(id)
    })
}

struct Order {
    id: u64,
}

impl Order {
    fn id(&self) -> u64 {
        self.id
    }
}

// Fields and methods have this name.
#[distributed_lock(key = "order:<order.id>")]
fn a_field(order: Order, id: u64) -> Pin<Box<dyn Future<Output = R> + Send>> {
    let id = id + 1;
    Box::pin(async move { Ok(id + order.id) })
}

#[distributed_lock(keys = [format!("order:{}:{}", order.id(), Order { id: 1 }.id)])]
fn a_method(order: Order, mut id: u64) -> Pin<Box<dyn Future<Output = R> + Send>> {
    id += 1;
    Box::pin(async move { Ok(id + order.id) })
}

fn main() {}
