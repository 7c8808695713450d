//! The tables and functions: where they are, and how they come there.

use std::fmt;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::errors::{self, Moment};
use crate::store::StoreError;

/// In this order.
const PARTS: [&str; 4] = [
    include_str!("sql/tables.sql"),
    include_str!("sql/acquire.sql"),
    include_str!("sql/release.sql"),
    include_str!("sql/look.sql"),
];

/// Names the advisory lock under which the SQL is run: two who replace one function at a time would fail.
const INSTALLING: i64 = 0x6469_7374_6c6f_636b;

/// The schema that has the tables. Displayed as it is described.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    name: String,
}

impl Schema {
    pub(super) fn named(name: &str) -> Result<Self, String> {
        let is_usual = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
        if name.is_empty() || name.len() > 63 || !name.chars().all(is_usual) {
            return Err(
                "`schema=` is a name of letters, digits, `_`, `-` and `$`, of at most 63 bytes".into()
            );
        }
        Ok(Schema { name: name.to_owned() })
    }

    /// `text` with the schema in place of every `@.`.
    pub(super) fn fill(&self, text: &str) -> String {
        text.replace("@.", &format!("\"{}\".", self.name))
    }

    /// Everything that is needed, for a role that may run it.
    pub(super) fn sql(&self) -> String {
        let create = format!("CREATE SCHEMA IF NOT EXISTS \"{}\";\n\n", self.name);
        create + &self.fill(&PARTS.join("\n"))
    }

    /// Installs what is not there yet, if that is allowed.
    pub(super) async fn ensure(&self, client: &Client) -> Result<(), StoreError> {
        if self.is_installed(client).await? {
            return Ok(());
        }
        let installed = self.install(client).await;
        if installed.is_err() {
            // What has failed is undone, whatever comes of this.
            drop(client.batch_execute("ROLLBACK").await);
        }
        installed
    }

    async fn is_installed(&self, client: &Client) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p \
                   JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
                   WHERE n.nspname = $1 AND p.proname = 'installed_1')";
        let row = client.query_typed_one(sql, &[(&self.name, Type::TEXT)]).await;
        let found = row.and_then(|row| row.try_get(0));
        found.map_err(|error| errors::of(&error, Moment::Connecting))
    }

    async fn install(&self, client: &Client) -> Result<(), StoreError> {
        let run = async |sql: &str| {
            client.batch_execute(sql).await.map_err(|error| match errors::is_forbidden(&error) {
                true => self.not_allowed(&error),
                false => errors::of(&error, Moment::Connecting),
            })
        };
        // The lock ends with the transaction, not before: others must see what was committed.
        run(&format!("BEGIN; SELECT pg_advisory_xact_lock({INSTALLING})")).await?;
        if !self.is_installed(client).await? {
            // A schema that is there needs no permission to create schemas.
            let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";
            let row = client.query_typed_one(exists, &[(&self.name, Type::TEXT)]).await;
            let exists = row.and_then(|row| row.try_get(0));
            if !exists.map_err(|error| errors::of(&error, Moment::Connecting))? {
                run(&format!("CREATE SCHEMA \"{}\"", self.name)).await?;
            }
            run(&self.fill(&PARTS.join("\n"))).await?;
        }
        run("COMMIT").await
    }

    fn not_allowed(&self, error: &tokio_postgres::Error) -> StoreError {
        let name = &self.name;
        let sql = self.sql();
        let reason = errors::words(error);
        StoreError::refused(format!(
            "the schema `{name}` has no tables for locks yet, and this role may not create them ({reason}). Let \
             somebody who may run the SQL below, and give this role the use of it: GRANT USAGE ON SCHEMA \
             \"{name}\" TO …; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"{name}\" TO …; or name \
             another schema by `?schema=`.\n\n{sql}"
        ))
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schema `{}`", self.name)
    }
}
