//! Prepared statements of a connection. The server plans each of them once, not for every command.
//!
//! Their names are valid in one session of the server only. A pooler lends a session to a client for one transaction at
//! a time, so a command could find another client's statement with the same name. So statements are prepared only on a
//! connection that has shown that it keeps its session.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use super::{commands::Statements, errors};

/// A parameter of a statement, and its type.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The statements that one connection has prepared.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    /// Each with its text.
    statements: Vec<(String, Statement)>,
    /// The server has refused one of them. They are kept, because dropping them would close them by their names.
    is_refused: AtomicBool,
}

impl Prepared {
    /// Only for connections that keep their session.
    pub(super) async fn by(client: &Client, statements: &Statements) -> Result<Self, Error> {
        let Statements { acquire, renew, release, .. } = statements;
        let prepared =
            tokio::try_join!(client.prepare(acquire), client.prepare(renew), client.prepare(release))?;
        let texts = [acquire, renew, release].map(String::clone);
        let statements = texts.into_iter().zip([prepared.0, prepared.1, prepared.2]).collect();
        Ok(Prepared { statements, is_refused: AtomicBool::new(false) })
    }

    /// Executes the prepared statement if there is one, otherwise its text.
    pub(super) async fn query(
        &self,
        client: &Client,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        if let Some(statement) = self.find(sql) {
            let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
            match client.query(statement, &values).await {
                // Another program has interfered with the session, so its prepared names are no longer used.
                Err(error) if errors::is_of_preparation(&error) => {
                    self.is_refused.store(true, Ordering::Relaxed);
                }
                said => return said,
            }
        }
        client.query_typed(sql, parameters).await
    }

    fn find(&self, sql: &str) -> Option<&Statement> {
        let found = self.statements.iter().find(|(text, _)| text == sql);
        found.filter(|_| !self.is_refused.load(Ordering::Relaxed)).map(|(_, statement)| statement)
    }
}
