//! Acquiring several keys.

use std::sync::Arc;

use super::acquire::error_of;
use super::{LockRequest, single_attempt};
use crate::driver;
use crate::engine::{Renewal, WaitLimit, Want};
use crate::error::LockError;
use crate::guard::Guard;
use crate::key::LockKey;
use distlock_store::clock;

impl LockRequest {
    /// Acquires one key after the other, in order, so that requests that name the same keys in another order cannot
    /// deadlock with this one. If one fails, the keys acquired so far are released.
    pub(super) async fn in_order(&self, keys: &[LockKey], want: &Want) -> Result<Guard, LockError> {
        let mut guard: Option<Guard> = None;
        let names: Vec<Arc<str>> = keys.iter().map(|key| key.shared().clone()).collect();
        let (mut rest, mut names) = (keys, names.as_slice());
        // Until all keys are acquired they are renewed, and no other time limit applies.
        let mut collecting = Want {
            renewal: Renewal::Keep,
            max_hold: None,
            min_hold: None,
            collection: Some(Arc::default()),
            ..want.clone()
        };
        let began = clock::now();
        while let Some(key) = rest.first() {
            if want.wait_limit == WaitLimit::Once {
                collecting.unavailable_after =
                    single_attempt::left(want.unavailable_after, clock::now().duration_since(began));
            }
            let (next, error) = match self.enter_again(key) {
                Some(Ok(nested)) => (vec![nested], None),
                Some(Err(error)) => (Vec::new(), Some(error)),
                None if collecting.unavailable_after.is_zero() => (Vec::new(), Some(too_slow(key))),
                None => self.ask_for_some(rest, names, &collecting).await,
            };
            rest = rest.get(next.len()..).unwrap_or_default();
            names = names.get(next.len()..).unwrap_or_default();
            for next in next {
                match &mut guard {
                    Some(guard) => guard.join(next),
                    None => guard = Some(next),
                }
            }
            if let Some(error) = error {
                // If the server does not answer, do not wait for it a second time: dropping the guard
                // releases.
                if let Some(guard) = guard.filter(|_| !error.is_unavailable()) {
                    guard.release_and_report().await;
                }
                return Err(error);
            }
        }
        let guard = guard.ok_or_else(|| LockError::key("there are no keys to lock"))?;
        let begins = want.renewal == Renewal::Never || want.max_hold.is_some() || want.min_hold.is_some();
        // If a lock was lost while the others were awaited, no body runs, so `min_hold` must not keep them.
        if begins && guard.check_here().is_ok() {
            guard.begin(want);
        }
        Ok(guard)
    }

    /// Acquires the first of `keys`, and with it as many of the next ones as one command can; or returns why
    /// the key after those was not acquired. `names`: of the same keys.
    async fn ask_for_some(
        &self,
        keys: &[LockKey],
        names: &[Arc<str>],
        want: &Want,
    ) -> (Vec<Guard>, Option<LockError>) {
        if let (Some(error), Some(key)) = (self.manager.core().refusal(), keys.first()) {
            let error = LockError::Unavailable { key: key.clone(), source: error.source };
            return (Vec::new(), Some(error));
        }
        let most = self.manager.core().backend.acquires_all(names).max(1);
        let free = keys.iter().take(most).take_while(|key| self.enter_again(key).is_none()).count();
        let names = names.get(..free).unwrap_or_default();
        let (lease_handles, outcome) = driver::acquire_all(self.manager.alive(), names, want).await;
        let error = keys.get(lease_handles.len()).zip(outcome);
        let error = error.map(|(key, outcome)| error_of(outcome, key.clone(), self.kind));
        (lease_handles.into_iter().map(Guard::new).collect(), error)
    }
}

fn too_slow(key: &LockKey) -> LockError {
    LockError::unavailable(key.clone(), "the keys before this one took all the time of the attempt")
}
