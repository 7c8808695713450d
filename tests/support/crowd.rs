//! Very many clients that hold locks and answer questions about them, played by one thread. A client is what listens on
//! the channel of a client, so a thousand of them need one connection to listen and one to answer.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use redis::{Connection, PubSub};

/// How often the thread looks whether it is to end.
const PAUSE: Duration = Duration::from_millis(50);
/// So many channels are subscribed to at once.
const AT_ONCE: usize = 200;

/// Who is in the crowd.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many clients there are.
    pub clients: usize,
    /// How many locks they hold, in turns: the client `n` holds every lock whose number leaves `n`.
    pub locks: usize,
    /// Those that listen and do not answer.
    pub silent: BTreeSet<usize>,
}

impl Plan {
    /// The id of a client.
    #[must_use]
    pub fn client(&self, number: usize) -> String {
        format!("crowd.{number:05}")
    }

    /// The key of a lock; keys are in the order of their numbers.
    #[must_use]
    pub fn key(&self, number: usize) -> String {
        format!("tenant:{number:08}:warehouse:berlin-spandau:article:4004182004")
    }

    /// The keys that are listed, in order: those of clients that answer.
    pub fn listed(&self) -> impl Iterator<Item = String> {
        (0..self.locks)
            .filter(|number| !self.silent.contains(&(number % self.clients)))
            .map(|number| self.key(number))
    }

    /// The answer of a client to a question about all keys with some beginning, as docs/protocol.md has it.
    fn answer(&self, client: usize, question: &str) -> Option<(String, String)> {
        let mut words = question.split(' ');
        let (Some("i"), Some(asker), Some(number), Some(room)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return None;
        };
        let room: usize = room.parse().ok()?;
        let (Some("l"), Some(pattern), after) = (words.next(), words.next(), words.next()) else {
            return None;
        };
        let beginning = pattern.strip_suffix('*')?;
        let mut lines = format!("\nc host-{client} {} crowd 0.1.0 0 0", 1_000 + client);
        let mut mark = 'e';
        for lock in (client..self.locks).step_by(self.clients) {
            let key = self.key(lock);
            if after.is_some_and(|after| *key <= *after) || !key.starts_with(beginning) {
                continue;
            }
            let before = lines.len();
            write!(lines, "\nh {key} dl1:x {lock} 1 61000 28000 label").ok()?;
            if lines.len() + 64 > room {
                lines.truncate(before);
                mark = 'm';
                break;
            }
        }
        Some((format!("dl1:c:{asker}"), format!("a {} {number} {mark}{lines}", self.client(client))))
    }
}

/// A crowd on a server; gone when dropped.
#[derive(Debug)]
pub struct Crowd {
    plan: Plan,
    answers: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Returns when all of them listen.
    ///
    /// # Panics
    /// If the server cannot be reached.
    #[must_use]
    pub fn start(url: &str, plan: Plan) -> Self {
        let (answers, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let client = redis::Client::open(url).unwrap();
        let (mut listening, mut telling) =
            (client.get_connection().unwrap(), client.get_connection().unwrap());
        let (plan_there, answers_there, ends_there) = (plan.clone(), answers.clone(), ends.clone());
        let (listens, all_listen) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            listening.set_read_timeout(Some(PAUSE)).unwrap();
            let mut listening = listening.as_pubsub();
            let channels: Vec<String> = (0..plan_there.clients)
                .map(|number| format!("dl1:c:{}", plan_there.client(number)))
                .collect();
            for some in channels.chunks(AT_ONCE) {
                listening.subscribe(some).unwrap();
            }
            listens.send(()).unwrap();
            while !ends_there.load(Ordering::SeqCst) {
                serve(&plan_there, &mut listening, &mut telling, &answers_there);
            }
        });
        all_listen.recv().expect("the crowd listens");
        Crowd { plan, answers, ends, thread: Some(thread) }
    }

    /// Who is in it.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How many answers were given.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::SeqCst)
    }
}

/// Answers one question, if one comes.
fn serve(plan: &Plan, listening: &mut PubSub<'_>, telling: &mut Connection, answers: &AtomicU64) {
    let message = match listening.get_message() {
        Ok(message) => message,
        Err(error) if error.is_timeout() => return,
        Err(error) => panic!("the crowd: {error}"),
    };
    let client = message.get_channel_name().rsplit('.').next().and_then(|number| number.parse().ok());
    let question: String = message.get_payload().unwrap();
    let Some(client) = client.filter(|client| !plan.silent.contains(client)) else { return };
    if let Some((channel, answer)) = plan.answer(client, &question) {
        redis::cmd("PUBLISH").arg(channel).arg(answer).exec(telling).unwrap();
        answers.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the crowd has failed");
        }
    }
}
