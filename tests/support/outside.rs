//! Looking at a server from outside, with a synchronous client that has nothing to do with the library under test.

use std::{collections::HashMap, time::Duration};

use redis::{Connection, RedisResult, Value};

use crate::{RedisServer, redis_server::ADMIN};

impl RedisServer {
    /// A connection of the fixture's own user, with every permission.
    fn connect_outside(&self) -> RedisResult<Connection> {
        let client = redis::Client::open(self.admin_url())?;
        let connection = client.get_connection_with_timeout(Duration::from_secs(10))?;
        connection.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(connection)
    }

    /// One command from outside.
    pub fn try_raw(&self, command: &[&str]) -> RedisResult<Value> {
        let mut request = redis::cmd(command[0]);
        for argument in &command[1..] {
            request.arg(argument);
        }
        request.query(&mut self.connect_outside()?)
    }

    /// One command from outside that must succeed.
    pub fn raw(&self, command: &[&str]) -> Value {
        self.try_raw(command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    fn typed<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        redis::from_redis_value(self.raw(command)).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// One command from outside that answers with text.
    #[must_use]
    pub fn text(&self, command: &[&str]) -> String {
        self.typed(command)
    }

    /// A field of `INFO`; empty where the server does not answer or has no such field.
    #[must_use]
    pub fn info(&self, field: &str) -> String {
        let info: String =
            self.try_raw(&["INFO"]).ok().and_then(|it| redis::from_redis_value(it).ok()).unwrap_or_default();
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_default().to_owned()
    }

    /// The value of a string key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<String> {
        self.typed(&["GET", key])
    }

    /// The remaining time of a key in milliseconds; −1 without one, −2 when the key is missing.
    #[must_use]
    pub fn pttl(&self, key: &str) -> i64 {
        self.typed(&["PTTL", key])
    }

    /// Whether a key exists.
    #[must_use]
    pub fn exists(&self, key: &str) -> bool {
        self.pttl(key) != -2
    }

    /// Every key of database 0, sorted.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.keys_below("")
    }

    /// Every key of database 0 that begins like this, sorted.
    #[must_use]
    pub fn keys_below(&self, prefix: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.typed(&["KEYS", &format!("{prefix}*")]);
        keys.sort();
        keys
    }

    /// The fields of every connection of others, from `CLIENT LIST`.
    #[must_use]
    pub fn clients(&self) -> Vec<HashMap<String, String>> {
        let list: String = self.typed(&["CLIENT", "LIST"]);
        let fields = |line: &str| {
            line.split(' ')
                .filter_map(|field| field.split_once('='))
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect()
        };
        let all = list.lines().map(fields);
        all.filter(|client: &HashMap<String, String>| client.get("user").is_none_or(|user| user != ADMIN))
            .collect()
    }

    /// How often a command ran, from `INFO commandstats`.
    #[must_use]
    pub fn calls(&self, command: &str) -> u64 {
        let statistics: String = self.typed(&["INFO", "commandstats"]);
        let prefix = format!("cmdstat_{}:calls=", command.to_lowercase());
        let line = statistics.lines().find_map(|line| line.strip_prefix(&prefix));
        line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
    }
}
