//! The thread that works on the file: SQLite blocks, and the manager's threads must not.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use super::file::LockFile;
use super::url::Location;
use super::{clock, errors};
use distlock_store::{LATE_COMMANDS, StoreError};

/// No job begins after this time, because its sender is about to time out.
const GIVEN_UP: Duration = Duration::from_secs(4);
const _: () = assert!(GIVEN_UP.as_millis() < LATE_COMMANDS.as_millis());

type Job = Box<dyn FnOnce(&mut Option<LockFile>) + Send>;

/// Sends jobs to the thread. The thread ends when this is dropped.
#[derive(Debug)]
pub(super) struct Worker(mpsc::Sender<Job>);

impl Worker {
    pub(super) fn start() -> Result<Self, StoreError> {
        let (jobs, next) = mpsc::channel::<Job>();
        let work = move || {
            let mut file = None;
            for job in next {
                job(&mut file);
                // No caller waits for this.
                if let Some(file) = &mut file {
                    file.shorten_log();
                }
            }
        };
        let started = thread::Builder::new().name("distlock-sqlite".to_owned()).spawn(work);
        started.map_err(|error| StoreError::not_sent(format!("no thread for SQLite: {error}")))?;
        Ok(Worker(jobs))
    }

    /// Lets the thread execute `work` on the open file, one job after the other. `work` gets the time after which it
    /// must not change anything.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        place: &std::sync::Arc<Location>,
        work: impl FnOnce(&mut LockFile, i64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let until = clock::now() + i64::try_from(GIVEN_UP.as_micros()).unwrap_or(i64::MAX);
        let (answer, answered) = oneshot::channel();
        let place = place.clone();
        let job: Job = Box::new(move |file| drop(answer.send(on(file, &place, |file| work(file, until)))));
        let ended = |_| StoreError::unknown("the thread that works on the file has ended");
        self.0.send(job).map_err(|_| StoreError::not_sent("the thread that works on the file has ended"))?;
        answered.await.unwrap_or_else(|error| Err(ended(error)))
    }
}

/// Opens the file if it is not open, or if its name refers to another file by now.
fn on<T>(
    file: &mut Option<LockFile>,
    place: &Location,
    work: impl FnOnce(&mut LockFile) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    if file.as_ref().is_some_and(|file| !file.is_there()) {
        *file = None;
    }
    let open = match file {
        Some(open) => open,
        None => file.insert(LockFile::open(&place.path, place.busy_timeout, clock::boot()?)?),
    };
    let done = work(open);
    if done.as_ref().is_err_and(errors::is_final) {
        *file = None;
    }
    done
}
