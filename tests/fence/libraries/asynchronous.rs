//! tokio-postgres and diesel-async, with single connections and with pools.

use std::error::Error;

use diesel::QueryableByName;
use diesel::sql_types::{BigInt, Text};
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use distlock_fence::deadpool_postgres::Transaction;
use distlock_fence::{Done, Fence, Once, SameDatabase};
use sqlx::PgPool;
use tokio_postgres::{Client, GenericClient, NoTls};

use crate::libraries::{Idle, On};
use crate::library::{Failure, Library, OnceLibrary, Plan, Returned, Step, Steps, follow};
use crate::world::{postgres, sql};

pub(crate) fn tokio_postgres_at(observer: PgPool, url: String) -> On<Idle<Client>, PgPool> {
    On { pool: Idle::at(url), observer }
}

pub(crate) async fn tokio_postgres() -> (On<Idle<Client>, PgPool>, ()) {
    let (observer, url) = postgres().await;
    (tokio_postgres_at(observer, url), ())
}

impl Idle<Client> {
    async fn client(&self) -> Client {
        if let Some(client) = self.used() {
            return client;
        }
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        // This task ends with the client.
        tokio::spawn(connection);
        client
    }
}

impl Library for On<Idle<Client>, PgPool> {
    type Observer = PgPool;

    fn observer(&self) -> &PgPool {
        &self.observer
    }

    async fn section(&self, fence: &Fence, mut plan: Plan) -> Result<(), Failure> {
        let mut client = self.pool.lend(self.pool.client().await);
        distlock_fence::tokio_postgres::transaction(
            fence,
            &mut client,
            async |tx| follow!(plan, step => tokio_postgres_step(tx, fence, step)),
        )
        .await
    }

    async fn make_table(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let client = self.pool.lend(self.pool.client().await);
        distlock_fence::tokio_postgres::migrate(&client).await
    }
}

impl OnceLibrary for On<Idle<Client>, PgPool> {
    async fn once<T: Returned>(
        &self,
        fence: &Fence,
        request: &Once,
        result: Result<T, Failure>,
    ) -> Result<Done<T>, Failure> {
        let mut client = self.pool.lend(self.pool.client().await);
        distlock_fence::tokio_postgres::once(fence, &mut client, request, async |tx| {
            tokio_postgres_step(tx, fence, Step::Write).await?;
            result
        })
        .await
    }

    async fn prune(&self) -> u64 {
        let client = self.pool.lend(self.pool.client().await);
        distlock_fence::tokio_postgres::prune(&client).await.unwrap()
    }
}

/// Clients of a database that also keeps the locks.
#[derive(Clone)]
pub(crate) struct ClientBesideLock(Idle<Client>);

pub(crate) fn tokio_postgres_beside_lock_at(observer: PgPool, url: String) -> On<ClientBesideLock, PgPool> {
    On { pool: ClientBesideLock(Idle::at(url)), observer }
}

impl Library for On<ClientBesideLock, PgPool> {
    type Observer = PgPool;

    fn observer(&self) -> &PgPool {
        &self.observer
    }

    async fn section(&self, fence: &Fence, mut plan: Plan) -> Result<(), Failure> {
        let clients = &self.pool.0;
        let mut client = clients.lend(clients.client().await);
        let body = async |tx: &mut tokio_postgres::Transaction<'_>| follow!(plan, step => tokio_postgres_step(tx, fence, step));
        SameDatabase::new(&mut *client).transaction(fence, body).await
    }

    async fn make_table(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let client = self.pool.0.lend(self.pool.0.client().await);
        distlock_fence::tokio_postgres::migrate(&client).await
    }
}

pub(crate) fn deadpool_postgres_at(observer: PgPool, url: &str) -> On<deadpool_postgres::Pool, PgPool> {
    let manager = deadpool_postgres::Manager::new(url.parse().unwrap(), NoTls);
    On { pool: deadpool_postgres::Pool::builder(manager).max_size(8).build().unwrap(), observer }
}

pub(crate) async fn deadpool_postgres() -> (On<deadpool_postgres::Pool, PgPool>, ()) {
    let (observer, url) = postgres().await;
    (deadpool_postgres_at(observer, &url), ())
}

impl Steps for deadpool_postgres::Pool {
    async fn step(tx: &mut Transaction, fence: &Fence, step: Step) -> Result<(), Failure> {
        tokio_postgres_step(&**tx, fence, step).await
    }
}

async fn tokio_postgres_step(tx: &impl GenericClient, fence: &Fence, step: Step) -> Result<(), Failure> {
    let key = fence.key();
    match step {
        Step::Write => {
            let token = i64::try_from(fence.token()).unwrap();
            tx.execute(sql::WRITE, &[&key, &token]).await?;
        }
        Step::CountUp => {
            let number: i64 = tx.query_one(sql::READ, &[&key]).await?.try_get(0)?;
            tx.execute(sql::SET, &[&(number + 1), &key]).await?;
        }
        Step::Fail => assert!(tx.batch_execute(sql::FAIL).await.is_err()),
    }
    Ok(())
}

pub(crate) fn diesel_async_at(observer: PgPool, url: &str) -> On<Pool<AsyncPgConnection>, PgPool> {
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(url);
    On { pool: Pool::builder(manager).max_size(8).build().unwrap(), observer }
}

pub(crate) async fn diesel_async() -> (On<Pool<AsyncPgConnection>, PgPool>, ()) {
    let (observer, url) = postgres().await;
    (diesel_async_at(observer, &url), ())
}

impl Steps for Pool<AsyncPgConnection> {
    async fn step(connection: &mut AsyncPgConnection, fence: &Fence, step: Step) -> Result<(), Failure> {
        diesel_async_step(connection, fence, step).await
    }
}

/// A pool whose connections are used like single connections.
#[derive(Clone)]
pub(crate) struct Singly<P>(P);

pub(crate) async fn diesel_async_singly() -> (On<Singly<Pool<AsyncPgConnection>>, PgPool>, ()) {
    let (On { pool, observer }, ()) = diesel_async().await;
    (On { pool: Singly(pool), observer }, ())
}

impl Library for On<Singly<Pool<AsyncPgConnection>>, PgPool> {
    type Observer = PgPool;

    fn observer(&self) -> &PgPool {
        &self.observer
    }

    async fn section(&self, fence: &Fence, mut plan: Plan) -> Result<(), Failure> {
        let mut connection = self.pool.0.get().await.unwrap();
        distlock_fence::diesel_async::transaction(
            fence,
            &mut connection,
            async |connection| follow!(plan, step => diesel_async_step(connection, fence, step)),
        )
        .await
    }

    async fn make_table(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut connection = self.pool.0.get().await?;
        distlock_fence::diesel_async::migrate(&mut connection).await
    }
}

impl OnceLibrary for On<Singly<Pool<AsyncPgConnection>>, PgPool> {
    async fn once<T: Returned>(
        &self,
        fence: &Fence,
        request: &Once,
        result: Result<T, Failure>,
    ) -> Result<Done<T>, Failure> {
        let mut connection = self.pool.0.get().await.unwrap();
        distlock_fence::diesel_async::once(fence, &mut connection, request, async |connection| {
            diesel_async_step(connection, fence, Step::Write).await?;
            result
        })
        .await
    }

    async fn prune(&self) -> u64 {
        let mut connection = self.pool.0.get().await.unwrap();
        distlock_fence::diesel_async::prune(&mut connection).await.unwrap()
    }
}

#[derive(QueryableByName)]
struct Counter {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

async fn diesel_async_step(
    connection: &mut AsyncPgConnection,
    fence: &Fence,
    step: Step,
) -> Result<(), Failure> {
    let key = fence.key();
    match step {
        Step::Write => {
            let token = i64::try_from(fence.token()).unwrap();
            let write = diesel::sql_query(sql::WRITE).bind::<Text, _>(key).bind::<BigInt, _>(token);
            write.execute(connection).await?;
        }
        Step::CountUp => {
            let read = diesel::sql_query(sql::READ).bind::<Text, _>(key);
            let number = read.get_result::<Counter>(connection).await?.n;
            let set = diesel::sql_query(sql::SET).bind::<BigInt, _>(number + 1).bind::<Text, _>(key);
            set.execute(connection).await?;
        }
        Step::Fail => assert!(connection.batch_execute(sql::FAIL).await.is_err()),
    }
    Ok(())
}
