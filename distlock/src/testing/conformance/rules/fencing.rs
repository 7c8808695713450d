//! Fencing tokens order the holders of a key.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::testing::conformance::Place;
use crate::{FencingToken, LockError, LockManager, distributed_lock};

pub async fn tokens_increase_from_holder_to_holder(place: Place) {
    let managers = [place.manager().await, place.manager().await, place.manager().await];
    let mut last = None;
    for manager in managers.iter().cycle().take(30) {
        let guard = manager.lock("k").fenced().acquire().await.unwrap();
        let token = guard.fencing_token();
        assert!(token > last, "{token:?} after {last:?}");
        assert!(token.unwrap().get() < 1 << 53);
        assert_eq!(token.unwrap().to_string().parse(), Ok(token.unwrap()));
        last = token;
        guard.release().await.unwrap();
    }
}

pub async fn tokens_increase_over_an_expiry(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let lost = one.lock("k").ttl(Duration::from_millis(300)).no_renew().fenced().acquire().await.unwrap();
    let next = other.lock("k").wait(Duration::from_secs(30)).fenced().acquire().await.unwrap();
    assert!(next.fencing_token() > lost.fencing_token());
}

/// In the order in which they were inside.
pub async fn tokens_increase_among_tasks_and_managers(place: Place) {
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let manager = place.manager().await;
        for _ in 0..8 {
            let (manager, tokens) = (manager.clone(), tokens.clone());
            tasks.spawn(async move {
                for _ in 0..10 {
                    let request = manager.lock("hot").fenced().wait(Duration::from_secs(60));
                    let guard = request.acquire().await.unwrap();
                    tokens.lock().unwrap().push(guard.fencing_token().unwrap());
                    guard.release().await.unwrap();
                }
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let tokens = std::mem::take(&mut *tokens.lock().unwrap());
    assert_eq!(tokens.len(), 240);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    place.is_clean("hot").await;
}

#[distributed_lock(key = "account", token = fence, manager = locks)]
async fn fenced(locks: &LockManager) -> Result<FencingToken, LockError> {
    Ok(fence)
}

pub async fn tokens_increase_from_call_to_call(place: Place) {
    let managers = [place.manager().await, place.manager().await];
    let mut last = None;
    for manager in managers.iter().cycle().take(10) {
        let token = Some(fenced(manager).await.unwrap());
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
    }
}
