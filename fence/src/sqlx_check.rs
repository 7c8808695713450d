//! The check of a fence by `sqlx` on PostgreSQL and SQLite, which differ in its types alone.

/// In an async function that returns its result.
macro_rules! check {
    ($transaction:expr, $fence:expr) => {{
        let failed = |error| FenceError::not_committed($fence, error);
        let raise = sqlx::query_scalar::<_, i64>(statements::CHECK).bind($fence.key()).bind(signed($fence)?);
        if raise.fetch_optional(&mut **$transaction).await.map_err(failed)?.is_some() {
            return Ok(());
        }
        // On PostgreSQL, the statement has locked the row, although it has not changed it.
        let newest = sqlx::query_scalar::<_, i64>(statements::NEWEST).bind($fence.key());
        let newest = newest.fetch_one(&mut **$transaction).await.map_err(failed)?;
        Err(FenceError::stale($fence, newest.unsigned_abs()))
    }};
}

pub(crate) use check;
