//! sqlx, mysql_async and sea-orm, whose pools begin transactions.

use std::error::Error;

use distlock_fence::mysql_async::Transaction;
use distlock_fence::{Done, Fence, Once, OnceDatabase, migrate, once, prune, transaction};
use mysql_async::prelude::Queryable;
use sea_orm::{
    ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbBackend, Statement, Value,
};
use sqlx::{MySqlPool, PgPool, SqlitePool};

use crate::libraries::On;
use crate::library::{Failure, Library, OnceLibrary, Plan, Returned, Step, Steps, follow};
use crate::world::{World, mariadb, postgres, sql, sqlite};

pub(crate) fn sqlx_at<D: World>(observer: D, pool: D) -> On<D, D> {
    On { pool, observer }
}

impl<D: Steps, O: World> Library for On<D, O> {
    type Observer = O;

    fn observer(&self) -> &O {
        &self.observer
    }

    async fn section(&self, fence: &Fence, mut plan: Plan) -> Result<(), Failure> {
        let body = async |tx: &mut D::Connection| follow!(plan, step => D::step(tx, fence, step));
        transaction(fence, &self.pool, body).await
    }

    async fn make_table(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        migrate(&self.pool).await
    }
}

impl<D: Steps + OnceDatabase, O: World> OnceLibrary for On<D, O> {
    async fn once<T: Returned>(
        &self,
        fence: &Fence,
        request: &Once,
        result: Result<T, Failure>,
    ) -> Result<Done<T>, Failure> {
        let body = async |tx: &mut D::Connection| {
            D::step(tx, fence, Step::Write).await?;
            result
        };
        once(fence, &self.pool, request, body).await
    }

    async fn prune(&self) -> u64 {
        prune(&self.pool).await.unwrap()
    }
}

pub(crate) fn mysql_async_at(observer: MySqlPool, url: &str) -> On<mysql_async::Pool, MySqlPool> {
    // No more connections than the tests need at a time, so that each of them is used again.
    On { pool: mysql_async::Pool::new(format!("{url}?pool_min=2&pool_max=2").as_str()), observer }
}

pub(crate) async fn mysql_async_on_mariadb() -> (On<mysql_async::Pool, MySqlPool>, ()) {
    let (observer, url) = mariadb().await;
    (mysql_async_at(observer, &url), ())
}

impl Steps for mysql_async::Pool {
    async fn step(tx: &mut Transaction, fence: &Fence, step: Step) -> Result<(), Failure> {
        match step {
            Step::Write => tx.exec_drop(sql::mysql::WRITE, (fence.key(), fence.token())).await?,
            Step::CountUp => {
                let number: Option<i64> = tx.exec_first(sql::mysql::READ, (fence.key(),)).await?;
                tx.exec_drop(sql::mysql::SET, (number.unwrap() + 1, fence.key())).await?;
            }
            Step::Fail => assert!(tx.query_drop(sql::mysql::FAIL).await.is_err()),
        }
        Ok(())
    }
}

pub(crate) async fn sea_orm_at<O>(observer: O, url: &str) -> On<DatabaseConnection, O> {
    On { pool: Database::connect(url).await.unwrap(), observer }
}

pub(crate) async fn sea_orm_on_mariadb() -> (On<DatabaseConnection, MySqlPool>, ()) {
    let (observer, url) = mariadb().await;
    (sea_orm_at(observer, &url).await, ())
}

pub(crate) async fn sea_orm_on_postgres() -> (On<DatabaseConnection, PgPool>, ()) {
    let (observer, url) = postgres().await;
    (sea_orm_at(observer, &url).await, ())
}

pub(crate) async fn sea_orm_on_sqlite() -> (On<DatabaseConnection, SqlitePool>, tempfile::TempDir) {
    let (observer, folder) = sqlite().await;
    let mut options = sea_orm::ConnectOptions::new(format!("sqlite:{}/data.db", folder.path().display()));
    options.map_sqlx_sqlite_opts(|options| options.busy_timeout(distlock_fixtures::BOUND));
    (On { pool: Database::connect(options).await.unwrap(), observer }, folder)
}

impl Steps for DatabaseConnection {
    async fn step(tx: &mut DatabaseTransaction, fence: &Fence, step: Step) -> Result<(), Failure> {
        let backend = tx.get_database_backend();
        let [write, read, set, fail] = match backend {
            DbBackend::MySql => [sql::mysql::WRITE, sql::mysql::READ, sql::mysql::SET, sql::mysql::FAIL],
            DbBackend::Postgres => [sql::WRITE, sql::READ, sql::SET, sql::FAIL],
            DbBackend::Sqlite => [sql::WRITE, sql::READ, sql::SET, sql::sqlite::FAIL],
        };
        let with = |sql: &str, values: Vec<Value>| Statement::from_sql_and_values(backend, sql, values);
        match step {
            Step::Write => {
                let token = i64::try_from(fence.token()).unwrap();
                tx.execute(with(write, vec![fence.key().into(), token.into()])).await?;
            }
            Step::CountUp => {
                let number = tx.query_one(with(read, vec![fence.key().into()])).await?.unwrap();
                let number: i64 = number.try_get("", "n")?;
                tx.execute(with(set, vec![(number + 1).into(), fence.key().into()])).await?;
            }
            Step::Fail => assert!(tx.execute_unprepared(fail).await.is_err()),
        }
        Ok(())
    }
}
