//! A server that answers as a test says.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Its reaction to a command, whose words it gets.
pub(super) enum Answer {
    /// One or more replies, as they are sent.
    Line(&'static str),
    Close,
}

/// Gone with the process: its thread waits for connections.
pub(super) struct Scripted {
    pub(super) address: SocketAddr,
    /// Every command of every connection, in upper case.
    asked: Arc<Mutex<Vec<Vec<Vec<String>>>>>,
}

impl Scripted {
    pub(super) fn start(answer: impl Fn(&[&str]) -> Answer + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, record) = (Arc::new(answer), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, record) = (Arc::clone(&answer), Arc::clone(&record));
                let number = {
                    let mut record = record.lock().unwrap();
                    record.push(Vec::new());
                    record.len() - 1
                };
                thread::spawn(move || {
                    serve(stream.unwrap(), |words| {
                        record.lock().unwrap()[number].push(words.to_vec());
                        answer(&words.iter().map(String::as_str).collect::<Vec<_>>())
                    })
                });
            }
        });
        Scripted { address, asked }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    pub(super) fn connections(&self) -> Vec<Vec<Vec<String>>> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, answer: impl Fn(&[String]) -> Answer) {
    let mut parser = redis::Parser::new();
    while let Ok(redis::Value::Array(words)) = parser.parse_value(&mut stream) {
        let words: Vec<String> = words
            .iter()
            .map(|word| match word {
                redis::Value::BulkString(word) => String::from_utf8_lossy(word).into_owned(),
                other => panic!("not a command: {other:?}"),
            })
            .collect();
        match answer(&words) {
            Answer::Line(line) if stream.write_all(line.as_bytes()).is_ok() => {}
            Answer::Line(_) | Answer::Close => return,
        }
    }
}
