//! The tables and functions: their schema and their creation.

use std::fmt;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::errors::{self, Phase};
use distlock_store::StoreError;

/// The parts of the SQL, in the order of their execution.
const PARTS: [&str; 4] = [
    include_str!("sql/tables.sql"),
    include_str!("sql/acquire.sql"),
    include_str!("sql/release.sql"),
    include_str!("sql/look.sql"),
];

/// The revision of the functions. `installed_1` in look.sql reports it.
const REVISION: i32 = 2;

/// The advisory lock under which the SQL runs. Two clients that replace a function at the same time would fail.
const INSTALLING: i64 = 0x6469_7374_6c6f_636b;

/// The revision of the schema's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Functions {
    /// Functions of this version of distlock, or of a later one.
    Current,
    /// Functions of an earlier version, which this role may not replace. With revision 1, a writer may get the lock
    /// together with a reader, no lock can be taken over, and a crash may lose a fencing token whose commit was not
    /// awaited.
    Outdated,
}

/// The schema of the tables. `Display` writes its name for messages.
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

    /// The SQL that creates everything, for a role that has the permissions.
    pub(super) fn sql(&self) -> String {
        let create = format!("CREATE SCHEMA IF NOT EXISTS \"{}\";\n\n", self.name);
        create + &self.fill(&PARTS.join("\n"))
    }

    /// The permissions for a role that may not create the tables.
    pub(super) fn grants(&self) -> String {
        let name = &self.name;
        format!(
            "GRANT USAGE ON SCHEMA \"{name}\" TO …; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"{name}\" TO …;"
        )
    }

    /// Installs what is missing, and replaces earlier functions, if the role may do so.
    pub(super) async fn ensure(&self, client: &Client) -> Result<Functions, StoreError> {
        let found = self.revision(client).await?;
        if found >= Some(REVISION) {
            return Ok(Functions::Current);
        }
        let Err(error) = self.install(client).await else { return Ok(Functions::Current) };
        // The failed transaction is rolled back even if this fails.
        drop(client.batch_execute("ROLLBACK").await);
        match error {
            InstallError::Forbidden(_) if found.is_some() => Ok(Functions::Outdated),
            InstallError::Forbidden(reason) => Err(self.not_allowed(&reason)),
            InstallError::Failed(error) => Err(error),
        }
    }

    /// The revision of the functions. `None`: the functions or some tables are missing. It is read from the catalog,
    /// which needs no permission.
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
        // The lock ends with the transaction and not earlier, because other clients must see the committed functions.
        run(&format!("BEGIN; SELECT pg_advisory_xact_lock({INSTALLING})")).await?;
        // Another client may have installed them meanwhile. Later functions are never replaced by these.
        if self.revision(client).await? < Some(REVISION) {
            // If the schema exists, no permission to create schemas is needed.
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

    /// The error of a request that [`Outdated`](Functions::Outdated) functions cannot handle safely.
    pub(super) fn outdated(&self) -> StoreError {
        let name = &self.name;
        StoreError::refused(format!(
            "the functions in the schema `{name}` are of an earlier version of distlock, which may grant a \
             lock to a writer while a reader holds it. So shared and limited locks and take-overs are refused. \
             This role may not replace them. Let the role that owns them connect once with this version of distlock, as by \
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
    /// This role may not do it. With the message of the server.
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
