//! Adapters without a lock library.
//!
//! - `set-nx`: `SET NX PX` with a random value, and a release that compares it, as in the own code of many programs.
//! - `ignores-ttl`, the positive control: the same, but the release deletes the key of any holder.
//! - `mutex`, the negative control: a lock inside one process.

use std::{
    collections::HashMap,
    io::BufRead as _,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use redis::{Client, RedisResult, Script};

use crate::Failure;

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(1);

/// Executes one line, and returns the answer.
type Answer = Box<dyn Fn(&[&str]) -> String + Send + Sync>;

pub(crate) fn main(name: &str, url: &str) -> Result<(), Failure> {
    let (waits, answer): (&str, Answer) = match name {
        "set-nx" => ("no", keys_on(url, true)?),
        "ignores-ttl" => ("no", keys_on(url, false)?),
        "mutex" => ("yes", mutex()),
        _ => return Err(format!("no adapter `{name}`").into()),
    };
    println!("hello {name} 1 tokens=no waits={waits} renews=no");
    let answer = Arc::new(answer);
    for line in std::io::stdin().lock().lines() {
        let (line, answer) = (line?, answer.clone());
        std::thread::spawn(move || println!("{}", answer(&line.split_whitespace().collect::<Vec<_>>())));
    }
    Ok(())
}

/// The key of each request, by its number.
type Held = Mutex<HashMap<String, String>>;

fn keys_on(url: &str, compares: bool) -> Result<Answer, Failure> {
    let (client, held) = (Client::open(url)?, Held::default());
    let connect = move || -> RedisResult<redis::Connection> {
        let connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    };
    // No other process has this value, and no other request of this one.
    let process = format!("{}:{:016x}", std::process::id(), fastrand::u64(..));
    Ok(Box::new(move |words: &[&str]| {
        let id = words.get(1).copied().unwrap_or_default();
        let value = format!("{process}:{id}");
        let done = || -> RedisResult<String> {
            if let ["acquire", _, key, ttl, _] = *words {
                let set: Option<String> = redis::cmd("SET")
                    .arg(key)
                    .arg(&value)
                    .arg("NX")
                    .arg("PX")
                    .arg(ttl)
                    .query(&mut connect()?)?;
                held.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), key.to_owned());
                return Ok(if set.is_some() { "ok" } else { "busy" }.to_owned());
            }
            let key = held.lock().unwrap_or_else(PoisonError::into_inner).remove(id).unwrap_or_default();
            let mut server = connect()?;
            let deleted: i64 = if compares {
                Script::new(RELEASE).key(key).arg(&value).invoke(&mut server)?
            } else {
                redis::cmd("DEL").arg(key).query(&mut server)?
            };
            Ok(if deleted == 1 { "released" } else { "lost" }.to_owned())
        };
        let said = done().unwrap_or_else(|error| format!("error {error}"));
        format!("{id} {}", said.replace('\n', " "))
    }))
}

fn mutex() -> Answer {
    let (held, freed) = (Held::default(), Condvar::new());
    Box::new(move |words: &[&str]| {
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        match *words {
            ["acquire", id, key, _, wait] => {
                let end = Instant::now() + Duration::from_millis(wait.parse().unwrap_or_default());
                while held.values().any(|taken| taken == key) {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return format!("{id} busy");
                    }
                    held = freed.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                held.insert(id.to_owned(), key.to_owned());
                format!("{id} ok")
            }
            ["release", id] => {
                held.remove(id);
                freed.notify_all();
                format!("{id} released")
            }
            _ => "0 error unknown line".to_owned(),
        }
    })
}
