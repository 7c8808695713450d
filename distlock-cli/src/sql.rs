//! `sql`: the SQL for an administrator, if the programs may not create tables.

use crate::args::Sql;
use crate::exit::Exit;
use crate::out::say;

pub(crate) fn sql(database: &Sql) -> Result<Exit, Exit> {
    let text = match database {
        #[cfg(feature = "postgres")]
        Sql::Postgres { schema } => distlock_postgres::sql(schema),
        #[cfg(feature = "mysql")]
        Sql::Mysql { table_prefix } => distlock_mysql::sql(table_prefix),
    };
    let text = text.map_err(|reason| Exit::Usage.because(&reason))?;
    text.lines().for_each(say);
    Ok(Exit::Success)
}
