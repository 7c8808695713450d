//! Simple code with the client of PostgreSQL: prepared statements, pipelined on one connection.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

use crate::Result;
use crate::locks::Locks;

/// A row with a lease. A client that finds it taken asks again.
#[derive(Clone)]
pub(crate) struct LeaseRow {
    client: Arc<Client>,
    take: Statement,
    give: Statement,
    name: Arc<str>,
    next: Arc<AtomicU64>,
}

const TAKE: &str = "INSERT INTO lease AS l VALUES ($1, $2, 1, clock_timestamp() + interval '30 s')
    ON CONFLICT (key) DO UPDATE SET token = $2, fence = l.fence + 1, expires = clock_timestamp() + interval '30 s'
    WHERE l.token IS NULL OR l.expires <= clock_timestamp() RETURNING fence";
const GIVE: &str = "UPDATE lease SET token = NULL WHERE key = $1 AND token = $2";

pub(super) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Locks for LeaseRow {
    type Guard = (LeaseRow, String, String);

    async fn connect(url: &str, name: &str) -> Result<Self> {
        let client = connect(url).await?;
        let (take, give) = (client.prepare(TAKE).await?, client.prepare(GIVE).await?);
        Ok(LeaseRow { client: Arc::new(client), take, give, name: name.into(), next: Arc::default() })
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        let token = format!("{}:{}", self.name, self.next.fetch_add(1, Ordering::Relaxed));
        while self.client.query_opt(&self.take, &[&key, &token]).await?.is_none() {
            tokio::time::sleep(Duration::from_micros(fastrand::u64(500..1_500))).await;
        }
        Ok((self.clone(), key.to_owned(), token))
    }

    async fn release((this, key, token): Self::Guard) -> Result<()> {
        this.client.execute(&this.give, &[&key, &token]).await?;
        Ok(())
    }
}

/// A queue in two functions, with direct grants, which arrive on a separate connection.
#[derive(Clone)]
pub(crate) struct Prototype {
    client: Arc<Client>,
    /// Kept, because this connection listens.
    _listening: Arc<Client>,
    take: Statement,
    give: Statement,
    name: Arc<str>,
    next: Arc<AtomicU64>,
    awaited: Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>,
}

impl Locks for Prototype {
    type Guard = (Prototype, String, String);

    async fn connect(url: &str, name: &str) -> Result<Self> {
        let client = connect(url).await?;
        let (take, give) =
            (client.prepare("SELECT take($1, $2, $3)").await?, client.prepare("SELECT give($1, $2)").await?);
        let (listening, mut connection) = tokio_postgres::connect(url, NoTls).await?;
        let awaited: Arc<Mutex<HashMap<String, oneshot::Sender<()>>>> = Arc::default();
        let told = awaited.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(note) = message {
                    let waiter = told.lock().unwrap_or_else(PoisonError::into_inner).remove(note.payload());
                    let _told = waiter.map(|waiter| waiter.send(()));
                }
            }
        });
        listening.batch_execute(&format!("LISTEN \"{name}\"")).await?;
        let (client, _listening) = (Arc::new(client), Arc::new(listening));
        Ok(Prototype { client, _listening, take, give, name: name.into(), next: Arc::default(), awaited })
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        let token = format!("{}:{}", self.name, self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, granted) = oneshot::channel();
        // Registered before the request, because the grant may arrive before the reply.
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), sender);
        if self.client.query_one(&self.take, &[&key, &token, &&*self.name]).await?.try_get(0)? {
            self.awaited.lock().unwrap_or_else(PoisonError::into_inner).remove(&token);
        } else {
            granted.await?;
        }
        Ok((self.clone(), key.to_owned(), token))
    }

    async fn release((this, key, token): Self::Guard) -> Result<()> {
        this.client.query_one(&this.give, &[&key, &token]).await?;
        Ok(())
    }
}
