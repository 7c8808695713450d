//! Removes the rows of unused keys, and remembers their highest fencing token.

use std::time::{Duration, Instant};

use super::MysqlStore;
use super::link::{Limit, Pool, Statement};
use super::statements::{column, garbled};
use distlock_store::StoreError;

/// About how often each process removes rows.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3_600);
/// First the floor is raised: from then on, every new row begins above the tokens of the rows to remove. The rows are
/// removed after this time, because every statement that has read the old floor has ended by then.
const REMOVED_AFTER: Duration = Duration::from_secs(15);
/// The number of rows that one statement checks.
const PAGE: usize = 10_000;
/// The number of rows that one statement removes.
const BATCH: usize = 100;

/// The next step, and its time.
#[derive(Debug, Default)]
pub(super) struct Pruning {
    next: Option<Instant>,
    /// The highest token of the rows that may be removed.
    highest: Option<i64>,
}

impl MysqlStore {
    /// Executes the next step if its time has come. A failure does no harm: another process, or this one at the next
    /// time, removes the rows.
    pub(super) async fn prune(&self, pool: &Pool, pruning: &mut Pruning) {
        if pruning.next.is_some_and(|next| next > Instant::now()) {
            return;
        }
        let pause = PRUNE_INTERVAL.mul_f64(0.5 + fastrand::f64());
        drop(pool.prepared(&self.texts.remove, &|_| Vec::new(), Limit::of_a_command()).await);
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

    /// Returns the highest token of the rows that may be removed. `None`: there are none.
    async fn raise_floor(&self, pool: &Pool) -> Result<Option<i64>, StoreError> {
        let (mut behind, mut highest) = (Vec::new(), None);
        loop {
            let values = |_| vec![behind.clone().into(), PAGE.into()];
            let limit = Limit::of_a_command();
            let answer = pool.prepared(&self.statements.highest_idle, &values, limit).await?;
            let row = answer.rows.first().ok_or_else(|| garbled("no row"))?;
            highest = highest.max(column::<Option<i64>>(row, 2)?);
            match column::<Option<Vec<u8>>>(row, 0)? {
                Some(last) if column::<usize>(row, 1)? == PAGE => behind = last,
                _ => break,
            }
        }
        if let Some(highest) = highest {
            let (values, limit) = (|_| vec![highest.into()], Limit::of_a_command());
            pool.prepared(&self.statements.raise_floor, &values, limit).await?;
        }
        Ok(highest)
    }

    /// Continues until no such row is left. Several processes may do this at the same time: each finds the rows that
    /// the others have left.
    async fn remove_idle(&self, pool: &Pool, highest: i64) -> Result<(), StoreError> {
        let mut behind = Vec::new();
        loop {
            let values = |_| vec![behind.clone().into(), highest.into(), PAGE.into()];
            let limit = Limit::of_a_command();
            let answer = pool.prepared(&self.statements.idle, &values, limit).await?;
            let keys: Vec<Vec<u8>> =
                answer.rows.iter().map(|row| column(row, 0)).collect::<Result<_, _>>()?;
            for keys in keys.chunks(BATCH) {
                let remove = |_| self.statements.remove(keys, highest);
                pool.ask(Statement::Text(&remove), Limit::of_a_command()).await?;
                // An administrator may not have created the table, or not allow it.
                let values = |_| self.statements.remove_values(keys);
                drop(pool.ask(Statement::Text(&values), Limit::of_a_command()).await);
            }
            match keys.last() {
                Some(last) if keys.len() == PAGE => behind.clone_from(last),
                _ => return Ok(()),
            }
        }
    }
}
