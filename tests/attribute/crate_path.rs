//! `crate = ::path`, for libraries that re-export distlock.

use distlock::LockError;

use crate::support::locked;

mod reexported {
    pub(super) use distlock as locks;
}

#[reexported::locks::distributed_lock(key = "k", crate = crate::crate_path::reexported::locks, guard = guard)]
async fn own_path() -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distlock::distributed_lock(key = "k", crate = ::distlock)]
async fn absolute() -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn the_expansion_uses_the_path() {
    locked(async {
        assert_eq!(own_path().await.unwrap(), "k");
        absolute().await.unwrap();
        let key = distlock::key!(crate = crate::crate_path::reexported::locks, "<x>", x = 1);
        assert_eq!(key.unwrap().as_str(), "1");
    })
    .await;
}
