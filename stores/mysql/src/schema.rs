//! The tables: what they are called, and how they come there.

use std::fmt;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};

use super::errors::{self, Moment};
use distlock_store::StoreError;

/// Tables of distlock, version 1.
const TABLES: &str = include_str!("sql/tables.sql");

/// What the tables are called. Displayed as it is described.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    prefix: String,
}

impl Schema {
    pub(super) fn with_prefix(prefix: &str) -> Result<Self, String> {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
        if prefix.len() > 50 || !prefix.chars().all(is_usual) {
            return Err(
                "`table_prefix=` is made of letters, digits, `_` and `$`, and has at most 50 bytes".into()
            );
        }
        Ok(Schema { prefix: prefix.to_owned() })
    }

    /// `text` with the names of the tables in place of `@lock` and `@floor`.
    pub(super) fn fill(&self, text: &str) -> String {
        let name = |table: &str| format!("`{}{table}_1`", self.prefix);
        text.replace("@lock", &name("lock")).replace("@floor", &name("floor"))
    }

    /// Everything that is needed, for a user who may run it.
    fn sql(&self) -> String {
        self.fill(TABLES)
    }

    /// What a user needs who may not make tables.
    fn grants(&self) -> String {
        self.fill("GRANT SELECT, INSERT, UPDATE, DELETE ON @lock TO …; GRANT SELECT, UPDATE ON @floor TO …")
    }

    /// Makes what is not there yet, if that is allowed.
    pub(super) async fn ensure(&self, conn: &mut Conn) -> Result<(), StoreError> {
        match self.is_installed(conn).await {
            Ok(true) => Ok(()),
            Ok(false) => self.install(conn).await,
            Err(error) if errors::is_missing(&error) => self.install(conn).await,
            // So it is, too, if there is no such table.
            Err(error) if errors::is_forbidden(&error) => Err(self.not_allowed(&error)),
            Err(error) => Err(errors::of(&error, Moment::Connecting)),
        }
    }

    async fn is_installed(&self, conn: &mut Conn) -> Result<bool, Error> {
        conn.query_drop(self.fill("SELECT 1 FROM @lock LIMIT 0")).await?;
        let floor: Option<i64> =
            conn.query_first(self.fill("SELECT least FROM @floor WHERE one = 1")).await?;
        Ok(floor.is_some())
    }

    /// Each statement does nothing if another process was faster.
    async fn install(&self, conn: &mut Conn) -> Result<(), StoreError> {
        for statement in self.sql().split(';').filter(|statement| !statement.trim().is_empty()) {
            conn.query_drop(statement).await.map_err(|error| match errors::is_forbidden(&error) {
                true => self.not_allowed(&error),
                false => errors::of(&error, Moment::Connecting),
            })?;
        }
        Ok(())
    }

    fn not_allowed(&self, error: &Error) -> StoreError {
        let (reason, grants, sql) = (errors::words(error), self.grants(), self.sql());
        let text = format!(
            "the database has no tables for locks yet and this user may not create them, or it may not use those that \
             are there ({reason}). Let somebody who may run the SQL below in this database, and give this user the \
             use of it: {grants}."
        );
        StoreError::refused_with_script(text, &sql)
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fill("table @lock"))
    }
}
