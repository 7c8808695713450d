//! Return types.

use std::fmt::Display;

use distlock::{LockError, distributed_lock};

use crate::support::locked;

type Answer<T> = Result<T, LockError>;

#[distributed_lock(key = "k")]
async fn alias() -> Answer<u8> {
    Ok(1)
}

#[distributed_lock(key = "k")]
async fn unit_result() -> Result<(), LockError> {
    let _: u8 = "1".parse().map_err(|_| LockError::busy("k"))?;
    Ok(())
}

#[distributed_lock(key = "k")]
async fn opaque_ok(count: u8) -> Result<impl Iterator<Item = u8>, LockError> {
    if count == 0 {
        return Err(LockError::busy("k"));
    }
    Ok(0..count)
}

#[distributed_lock(key = "k")]
async fn boxed_trait(early: bool) -> Result<Box<dyn Display + Send>, LockError> {
    if early {
        return Ok(Box::new("early"));
    }
    Ok(Box::new(1))
}

#[distributed_lock(key = "k")]
async fn diverges(error: bool) -> Result<std::convert::Infallible, LockError> {
    loop {
        if error {
            return Err(LockError::busy("k"));
        }
    }
}

#[distributed_lock(key = "k")]
async fn inferred_by_the_question_mark() -> anyhow::Result<Vec<u8>> {
    let list = "1,2".split(',').map(str::parse).collect::<Result<_, _>>()?;
    Ok(list)
}

#[distributed_lock(key = "k")]
async fn nested() -> Result<Result<u8, String>, LockError> {
    Ok(Err("inner".to_owned()))
}

#[distributed_lock(key = "k", manager = distlock::LockManager::in_memory())]
fn opaque_on_a_thread() -> Result<impl Fn(u8) -> u8, LockError> {
    Ok(|x| x + 1)
}

#[distributed_lock(key = "k")]
async fn empty() -> Result<(), LockError> {
    todo_ok()
}

fn todo_ok() -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn every_return_type() {
    locked(async {
        assert_eq!(alias().await.unwrap(), 1);
        unit_result().await.unwrap();
        assert_eq!(opaque_ok(2).await.unwrap().count(), 2);
        assert!(opaque_ok(0).await.is_err());
        assert_eq!(boxed_trait(true).await.unwrap().to_string(), "early");
        assert_eq!(boxed_trait(false).await.unwrap().to_string(), "1");
        assert!(diverges(true).await.is_err());
        assert_eq!(inferred_by_the_question_mark().await.unwrap(), [1, 2]);
        assert_eq!(nested().await.unwrap().unwrap_err(), "inner");
        empty().await.unwrap();
        assert_eq!(opaque_on_a_thread().unwrap()(1), 2);
    })
    .await;
}
