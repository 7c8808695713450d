//! Removes the rows of keys that nobody uses any more, without forgetting how high their fencing tokens were.

use std::time::{Duration, Instant};

use super::MysqlStore;
use super::link::{Limit, Pool, Statement};
use super::statements::column;
use distlock_store::StoreError;

/// About how often each process does it.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3_600);
/// Between the moment from which every new row begins above the tokens of the rows that are removed, and their removal.
/// A statement that has read the old floor has ended by then.
const REMOVED_AFTER: Duration = Duration::from_secs(15);
/// Rows of one statement.
const BATCH: usize = 100;

/// What is to be done next, and when.
#[derive(Debug, Default)]
pub(super) struct Pruning {
    next: Option<Instant>,
    /// No row that is removed has a token above it.
    highest: Option<i64>,
}

impl MysqlStore {
    /// Does the next step if its time has come. A failure does not matter: another process, or the next time, will do.
    pub(super) async fn prune(&self, pool: &Pool, pruning: &mut Pruning) {
        if pruning.next.is_some_and(|next| next > Instant::now()) {
            return;
        }
        let pause = PRUNE_INTERVAL.mul_f64(0.5 + fastrand::f64());
        drop(self.prepared(pool, &self.texts.remove, &|_| Vec::new(), Limit::of_a_command()).await);
        let (highest, pause) = match pruning.highest.take() {
            Some(highest) => {
                drop(self.remove_idle(pool, highest).await);
                (None, pause)
            }
            None => match self.raise_floor(pool).await {
                Ok(Some(highest)) => (Some(highest), REMOVED_AFTER),
                Ok(None) | Err(_) => (None, pause),
            },
        };
        *pruning = Pruning { next: Some(Instant::now() + pause), highest };
    }

    /// The highest token of those that may be removed. `None`: there are none.
    async fn raise_floor(&self, pool: &Pool) -> Result<Option<i64>, StoreError> {
        let limit = Limit::of_a_command();
        let answer = self.prepared(pool, &self.statements.highest_idle, &|_| Vec::new(), limit).await?;
        let Some(row) = answer.rows.first() else { return Ok(None) };
        let highest: Option<i64> = column(row, 0)?;
        if let Some(highest) = highest {
            self.prepared(pool, &self.statements.raise_floor, &|_| vec![highest.into()], limit).await?;
        }
        Ok(highest)
    }

    /// Returns how many were removed.
    async fn remove_idle(&self, pool: &Pool, highest: i64) -> Result<u64, StoreError> {
        let limit = Limit::of_a_command();
        let answer = self.prepared(pool, &self.statements.idle, &|_| vec![highest.into()], limit).await?;
        let keys: Vec<Vec<u8>> = answer.rows.iter().map(|row| column(row, 0)).collect::<Result<_, _>>()?;
        let mut removed = 0;
        for keys in keys.chunks(BATCH) {
            let remove = |_| self.statements.remove(keys, highest);
            removed += self.link.ask(pool, Statement::Text(&remove), Limit::of_a_command()).await?.affected;
        }
        Ok(removed)
    }
}
