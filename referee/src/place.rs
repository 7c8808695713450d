//! A slot for a process of the adapter, with its link to the server.

use std::{
    io,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use distlock_fixtures::Proxy;

use crate::{
    process::{Process, locked},
    servers::Server,
};

/// The pause between two attempts to start a process.
const START_PAUSE: Duration = Duration::from_millis(20);
/// How long a process may fail to start.
const MAX_START_TIME: Duration = Duration::from_secs(10);

/// A slot for a process. If the process is killed, another one is started in the same slot.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) index: usize,
    command: Vec<String>,
    pub(crate) link: Option<Proxy>,
    process: Mutex<Arc<Process>>,
    /// The processes that had ended by themselves when they were replaced.
    pub(crate) crashed: Mutex<Vec<u64>>,
    numbers: Arc<AtomicU64>,
    start: Instant,
}

impl Place {
    pub(crate) fn new(
        mut command: Vec<String>,
        server: &Server,
        index: usize,
        numbers: &Arc<AtomicU64>,
        start: Instant,
    ) -> io::Result<Self> {
        let link = server.link();
        command.push(server.url(link.as_ref()));
        let process = Mutex::new(Arc::new(launch(&command, numbers, start)?));
        Ok(Place {
            index,
            command,
            link,
            process,
            crashed: Mutex::default(),
            numbers: numbers.clone(),
            start,
        })
    }

    pub(crate) fn process(&self) -> Arc<Process> {
        locked(&self.process).clone()
    }

    /// Starts another process. While the server is unreachable, an adapter may end at its start. In that case, it is
    /// started again.
    pub(crate) fn replace(&self) {
        let bound = Instant::now() + MAX_START_TIME;
        loop {
            match launch(&self.command, &self.numbers, self.start) {
                Ok(process) => {
                    let old = std::mem::replace(&mut *locked(&self.process), Arc::new(process));
                    return locked(&self.crashed).extend(old.killed().is_none().then_some(old.number));
                }
                Err(_) if Instant::now() < bound => thread::sleep(START_PAUSE),
                Err(_) => return,
            }
        }
    }
}

fn launch(words: &[String], numbers: &AtomicU64, start: Instant) -> io::Result<Process> {
    let (program, arguments) = words.split_first().ok_or_else(|| io::Error::other("no program"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Process::start(command, numbers.fetch_add(1, Ordering::Relaxed), start)
}
