//! The data of a key for `inspect` and `list`.

use std::sync::Arc;

use super::key::KeyState;
use super::lease::Lease;
use crate::protocol::{Account, HoldAccount, Time, WaitAccount};

impl<W> KeyState<W> {
    /// `None`: it is neither held nor waited for.
    pub(crate) fn account(&self, key: &Arc<str>, now: Time) -> Option<Account> {
        let holds: Vec<HoldAccount> = self.leases.iter().filter_map(|lease| lease.account(now)).collect();
        let wait = self.waiters.front().map(|first| WaitAccount {
            token: self.attempt.as_ref().map(|attempt| attempt.token),
            kind: first.want.kind,
            requests: u64::try_from(self.waiters.len()).unwrap_or(u64::MAX),
            label: first.want.label.to_string(),
            since: now.duration_since(first.waiting_since),
        });
        let is_something = !holds.is_empty() || wait.is_some();
        is_something.then(|| Account { key: key.clone(), holds, wait })
    }
}

impl Lease {
    fn account(&self, now: Time) -> Option<HoldAccount> {
        let first = self.holders.iter().min_by_key(|holder| holder.cell.held_since)?;
        Some(HoldAccount {
            token: self.grant.token,
            kind: self.grant.kind,
            users: u64::try_from(self.holders.len()).unwrap_or(u64::MAX),
            label: first.cell.label.to_string(),
            since: now.duration_since(first.cell.held_since),
            left: self.first_end().map_or(std::time::Duration::ZERO, |end| end.duration_since(now)),
        })
    }
}
