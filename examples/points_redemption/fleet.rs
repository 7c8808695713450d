//! The service instances: in this process, each with its own lock manager and database pool, or as real processes.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use distlock::LockManager;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
    task::JoinHandle,
};

use crate::{
    AnyError,
    args::{Compare, Serve, is_memory},
    service,
    shop::Shop,
    store::Store,
};

/// Running requests get this long to finish when the service stops.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Fleet {
    addresses: Vec<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
    managers: Vec<LockManager>,
    processes: Vec<Child>,
}

impl Fleet {
    pub(crate) async fn start(options: &Compare, database: &Path) -> Result<Self, AnyError> {
        let mut fleet = Self { addresses: vec![], tasks: vec![], managers: vec![], processes: vec![] };
        // The locks in memory live in one manager, so all instances share it. With a server each instance has its own
        // manager.
        let url = &options.store.url;
        let embedded = is_memory(url).then(LockManager::in_memory);
        for number in 1..=options.count() {
            if options.processes.is_some() {
                fleet.start_process(url, database).await?;
                continue;
            }
            let locks = match &embedded {
                Some(manager) => manager.clone(),
                None => connect(url, &format!("points-{number}")).await?,
            };
            fleet.start_here(locks, database).await?;
        }
        Ok(fleet)
    }

    async fn start_here(&mut self, locks: LockManager, database: &Path) -> Result<(), AnyError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        self.addresses.push(listener.local_addr()?);
        self.managers.push(locks.clone());
        let router = service::router(Shop { store: Store::open(database).await?, locks });
        self.tasks.push(tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("an instance ended: {error}");
            }
        }));
        Ok(())
    }

    async fn start_process(&mut self, url: &str, database: &Path) -> Result<(), AnyError> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--until-eof", "--url", url, "--database"])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("the process has no output")?;
        let line =
            BufReader::new(output).lines().next_line().await?.ok_or("a service process did not start")?;
        let address = line.rsplit("http://").next().unwrap_or_default();
        self.addresses.push(address.parse()?);
        self.processes.push(child);
        Ok(())
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) async fn stop(mut self) {
        for process in &mut self.processes {
            drop(process.stdin.take());
            if let Err(error) = process.wait().await {
                eprintln!("a service process did not end: {error}");
            }
        }
        for task in &self.tasks {
            task.abort();
        }
        for manager in &self.managers {
            manager.shutdown(GRACE).await;
        }
    }
}

/// Runs one service until ctrl-c, or with `until_eof` until standard input ends.
pub(crate) async fn serve(options: Serve) -> Result<(), AnyError> {
    let url = &options.store.url;
    let locks = match is_memory(url) {
        true => LockManager::in_memory(),
        false => connect(url, "points").await?,
    };
    let store = Store::open(&options.database).await?;
    let listener = TcpListener::bind(options.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let router = service::router(Shop { store, locks: locks.clone() });
    axum::serve(listener, router).with_graceful_shutdown(asked_to_stop(options.until_eof)).await?;
    locks.shutdown(GRACE).await;
    Ok(())
}

async fn connect(url: &str, name: &str) -> Result<LockManager, AnyError> {
    Ok(LockManager::builder().url(url).client_name(name).connect().await?)
}

async fn asked_to_stop(until_eof: bool) {
    let end_of_input = async {
        match until_eof {
            // An input that cannot be read counts as ended.
            true => drop(tokio::io::stdin().read_to_end(&mut Vec::new()).await),
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        () = end_of_input => {}
        // Without a handler for ctrl-c the signal itself ends the process.
        Ok(()) = tokio::signal::ctrl_c() => {}
    }
}
