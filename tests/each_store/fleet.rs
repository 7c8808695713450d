//! Managers that work on one key, like separate processes, each over its own link.

use std::sync::Arc;

use distlock::LockManager;
use distlock::testing::eventually;
use distlock_fixtures::Proxy;

use crate::each_store::{Court, LONG, Tokens};

/// Managers that take turns.
#[derive(Debug)]
pub(crate) struct Fleet {
    court: Arc<Court>,
    /// The link of each manager.
    pub(crate) proxies: Vec<Proxy>,
    workers: tokio::task::JoinSet<()>,
    /// The managers stay alive until they have released the locks of their workers.
    managers: Vec<LockManager>,
}

impl Fleet {
    /// Starts four managers for the server at this address. `url` returns the URL through a proxy.
    pub(crate) async fn start(address: &str, tokens: Tokens, url: impl Fn(&Proxy) -> String) -> Self {
        let court = Arc::new(Court::new(tokens));
        let (mut proxies, mut managers) = (Vec::new(), Vec::new());
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let proxy = Proxy::to(address);
            let builder = LockManager::builder().url(url(&proxy)).unavailable_after(LONG);
            let manager = builder.connect().await.unwrap();
            workers.spawn(court.clone().work(manager.clone(), "k".to_owned()));
            managers.push(manager);
            proxies.push(proxy);
        }
        let fleet = Fleet { court, proxies, workers, managers };
        fleet.works().await;
        fleet
    }

    /// Waits until all of them have made progress.
    pub(crate) async fn works(&self) {
        let before = self.court.sections();
        eventually("they get on", async || self.court.sections() > before + 40).await;
    }

    /// Ends the workers, and checks that no rule was broken. Their managers live until the result is dropped.
    pub(crate) async fn end(mut self) -> Vec<LockManager> {
        self.works().await;
        self.workers.shutdown().await;
        self.court.acquit();
        self.managers
    }
}
