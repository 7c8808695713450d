//! The tables and functions: their schema and their creation.

use std::fmt;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::errors::{self, Phase};
use distlock_store::StoreError;

/// In this order.
const PARTS: [&str; 4] = [
    include_str!("sql/tables.sql"),
    include_str!("sql/acquire.sql"),
    include_str!("sql/release.sql"),
    include_str!("sql/look.sql"),
];

/// Of the functions, as `installed_1` in look.sql tells it.
const REVISION: i32 = 2;

/// Names the advisory lock under which the SQL is run: two who replace one function at a time would fail.
const INSTALLING: i64 = 0x6469_7374_6c6f_636b;

/// Which functions the schema has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Functions {
    /// Those of this version of distlock, or later ones.
    Current,
    /// Earlier ones, which this role may not replace. With revision 1, a writer may get the lock together with a
    /// reader.
    Outdated,
}

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

    /// `text` with every `@.` replaced by the schema.
    pub(super) fn fill(&self, text: &str) -> String {
        text.replace("@.", &format!("\"{}\".", self.name))
    }

    /// Everything that is needed, for a role that may run it.
    pub(super) fn sql(&self) -> String {
        let create = format!("CREATE SCHEMA IF NOT EXISTS \"{}\";\n\n", self.name);
        create + &self.fill(&PARTS.join("\n"))
    }

    /// What a role needs that may not make it.
    pub(super) fn grants(&self) -> String {
        let name = &self.name;
        format!(
            "GRANT USAGE ON SCHEMA \"{name}\" TO …; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"{name}\" TO …;"
        )
    }

    /// Installs what is not there yet, and replaces earlier functions, if that is allowed.
    pub(super) async fn ensure(&self, client: &Client) -> Result<Functions, StoreError> {
        let found = self.revision(client).await?;
        if found >= Some(REVISION) {
            return Ok(Functions::Current);
        }
        let Err(error) = self.install(client).await else { return Ok(Functions::Current) };
        // What has failed is undone, whatever comes of this.
        drop(client.batch_execute("ROLLBACK").await);
        match error {
            InstallError::Forbidden(_) if found.is_some() => Ok(Functions::Outdated),
            InstallError::Forbidden(reason) => Err(self.not_allowed(&reason)),
            InstallError::Failed(error) => Err(error),
        }
    }

    /// The revision of the functions. `None`: they, or some of the tables, are not there. Read from the catalog, which
    /// needs no permission.
    async fn revision(&self, client: &Client) -> Result<Option<i32>, StoreError> {
        let sql = "SELECT substring(p.prosrc FROM '[0-9]+')::integer FROM pg_catalog.pg_proc p \
                   JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
                   WHERE n.nspname = $1 AND p.proname = 'installed_1' AND 4 = (SELECT count(*) \
                   FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid \
                   AND c.relname IN ('lock_1', 'holder_1', 'waiter_1', 'floor_1'))";
        let rows = client.query_typed(sql, &[(&self.name, Type::TEXT)]).await;
        let found = rows.and_then(|rows| rows.first().map(|row| row.try_get(0)).transpose());
        found.map_err(|error| errors::of(&error, Phase::Connecting))
    }

    async fn install(&self, client: &Client) -> Result<(), InstallError> {
        let run = async |sql: &str| {
            client.batch_execute(sql).await.map_err(|error| match errors::is_forbidden(&error) {
                true => InstallError::Forbidden(errors::words(&error)),
                false => InstallError::Failed(errors::of(&error, Phase::Connecting)),
            })
        };
        // The lock ends with the transaction, not before: others must see what was committed.
        run(&format!("BEGIN; SELECT pg_advisory_xact_lock({INSTALLING})")).await?;
        // Another client may have done it meanwhile; later functions are never replaced by these.
        if self.revision(client).await? < Some(REVISION) {
            // A schema that is there needs no permission to create schemas.
            let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";
            let row = client.query_typed_one(exists, &[(&self.name, Type::TEXT)]).await;
            let exists = row.and_then(|row| row.try_get(0));
            if !exists.map_err(|error| errors::of(&error, Phase::Connecting))? {
                run(&format!("CREATE SCHEMA \"{}\"", self.name)).await?;
            }
            run(&self.fill(&PARTS.join("\n"))).await?;
        }
        run("COMMIT").await
    }

    /// Of a request for a shared or limited lock, while the functions are [`Outdated`](Functions::Outdated).
    pub(super) fn outdated(&self) -> StoreError {
        let name = &self.name;
        StoreError::refused(format!(
            "the functions in the schema `{name}` are of an earlier version of distlock, which may grant a \
             lock to a writer while a reader holds it. So shared and limited locks are refused. This role may \
             not replace them. Let the role that owns them connect once with this version of distlock, as by \
             `distlock --url=… ping`, or run what `distlock sql postgres --schema '{name}'` prints; locks \
             that are held stay held"
        ))
    }

    fn not_allowed(&self, reason: &str) -> StoreError {
        let (name, grants) = (&self.name, self.grants());
        StoreError::refused(format!(
            "the schema `{name}` has no tables for locks yet, and this role may not create them ({reason}). \
             Let an administrator run what `distlock sql postgres --schema '{name}'` prints, and grant this \
             role access to them: {grants} or name another schema by `?schema=`"
        ))
    }
}

/// Why nothing was installed.
enum InstallError {
    /// This role may not; in the server's words.
    Forbidden(String),
    Failed(StoreError),
}

impl From<StoreError> for InstallError {
    fn from(error: StoreError) -> Self {
        InstallError::Failed(error)
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schema `{}`", self.name)
    }
}
