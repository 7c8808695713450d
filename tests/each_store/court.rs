//! The holders that believe that they hold a lock: never two at a time, and each with a higher token than the previous
//! one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::{Guard, LockManager};

/// Sees every holder of one key in this process.
#[derive(Debug)]
pub(crate) struct Court {
    tokens: Tokens,
    state: Mutex<State>,
}

/// Whether the locks have fencing tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// They have tokens, which rise.
    Rise,
    /// The store has no tokens.
    None,
}

#[derive(Debug, Default)]
struct State {
    /// The holders that have entered and not left.
    inside: Vec<Arc<Guard>>,
    last_token: u64,
    sections: u64,
    faults: Vec<String>,
}

impl Court {
    /// A court for a free key.
    #[must_use]
    pub(crate) fn new(tokens: Tokens) -> Self {
        Court { tokens, state: Mutex::default() }
    }

    fn enter(&self, guard: &Arc<Guard>) {
        let mut state = self.state.lock().unwrap();
        // The belief of this holder is checked first. A holder that believes after that, believes at the same time.
        let believes = guard.is_held();
        let others = state.inside.iter().filter(|other| other.is_held()).count();
        if believes && others > 0 {
            state.faults.push(format!("{others} hold besides {:?}", guard.fencing_token()));
        }
        if self.tokens == Tokens::Rise {
            let token = guard.fencing_token().unwrap().get();
            if token <= state.last_token {
                let last = state.last_token;
                state.faults.push(format!("token {token} after {last}"));
            }
            state.last_token = token.max(state.last_token);
        }
        state.inside.push(guard.clone());
        state.sections += 1;
    }

    fn leave(&self, guard: &Arc<Guard>) {
        self.state.lock().unwrap().inside.retain(|other| !Arc::ptr_eq(other, guard));
    }

    /// The number of holders that have entered.
    pub(crate) fn sections(&self) -> u64 {
        self.state.lock().unwrap().sections
    }

    /// Checks that no rule was broken. Holders that were stopped inside leave now.
    pub(crate) fn acquit(&self) {
        let mut state = self.state.lock().unwrap();
        state.inside.clear();
        assert_eq!(state.faults, [""; 0]);
    }

    /// Acquires `key` repeatedly, until the task is aborted.
    pub(crate) async fn work(self: Arc<Self>, manager: LockManager, key: String) {
        loop {
            let request = manager.lock(&*key).ttl(Duration::from_secs(2)).wait(Duration::from_secs(30));
            let request = if self.tokens == Tokens::Rise { request.fenced() } else { request };
            let Ok(guard) = request.acquire().await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let guard = Arc::new(guard);
            self.enter(&guard);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(2)) => {}
                _ = guard.lost() => {}
            }
            self.leave(&guard);
            // This is the last handle, unless a judge is just using another one.
            drop(guard);
        }
    }
}
