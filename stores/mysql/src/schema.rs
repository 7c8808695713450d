//! The tables: their names and their creation.

use std::fmt;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};

use super::errors::{self, Phase};
use distlock_store::StoreError;

/// The tables of distlock, version 1.
const TABLES: &str = include_str!("sql/tables.sql");

/// The names of the tables. `Display` writes them for messages.
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

    /// `text` with the names of the tables instead of `@lock`, `@floor`, `@holder` and `@value`.
    pub(super) fn fill(&self, text: &str) -> String {
        let name = |table: &str| format!("`{}{table}_1`", self.prefix);
        ["lock", "floor", "holder", "value"]
            .iter()
            .fold(text.to_owned(), |text, table| text.replace(&format!("@{table}"), &name(table)))
    }

    /// The SQL that creates everything, for a user with the permissions.
    pub(super) fn sql(&self) -> String {
        self.fill(TABLES)
    }

    /// The permissions for a user that may not create tables.
    pub(super) fn grants(&self) -> String {
        self.fill(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON @lock TO …; GRANT SELECT, UPDATE ON @floor TO …; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON @holder TO …; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON @value TO …",
        )
    }

    /// Creates the missing tables, if the user may do so.
    pub(super) async fn ensure(&self, conn: &mut Conn) -> Result<(), StoreError> {
        let failed = |error: Error| match errors::is_forbidden(&error) {
            true => self.not_allowed(&error),
            false => errors::of(&error, Phase::Connecting),
        };
        let is_installed = match self.is_installed(conn).await {
            Ok(is_installed) => is_installed,
            Err(error) if errors::is_missing(&error) => false,
            // This error also means that there is no such table.
            Err(error) => return Err(failed(error)),
        };
        // Earlier versions created the other tables without these two.
        let later = self.fill("SELECT 1 FROM @holder, @value LIMIT 0");
        if is_installed && conn.query_drop(later).await.is_ok() {
            return Ok(());
        }
        match self.install(conn).await {
            // Exclusive locks need no more tables. A request for another kind gets an error that names the missing
            // table.
            Err(error) if is_installed && errors::is_forbidden(&error) => Ok(()),
            installed => installed.map_err(failed),
        }
    }

    async fn is_installed(&self, conn: &mut Conn) -> Result<bool, Error> {
        conn.query_drop(self.fill("SELECT 1 FROM @lock LIMIT 0")).await?;
        let floor: Option<i64> =
            conn.query_first(self.fill("SELECT least FROM @floor WHERE one = 1")).await?;
        Ok(floor.is_some())
    }

    /// Each statement does nothing if another process was faster.
    async fn install(&self, conn: &mut Conn) -> Result<(), Error> {
        for statement in self.sql().split(';').filter(|statement| !statement.trim().is_empty()) {
            conn.query_drop(statement).await?;
        }
        Ok(())
    }

    fn not_allowed(&self, error: &Error) -> StoreError {
        let (reason, grants, prefix) = (errors::words(error), self.grants(), &self.prefix);
        StoreError::refused(format!(
            "the database has no tables for locks yet and this user may not create them, or it may not use \
             those that are there ({reason}). Let an administrator run what `distlock sql mysql \
             --table-prefix '{prefix}'` prints in this database, and grant this user access to them: \
             {grants}."
        ))
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fill("table @lock"))
    }
}
