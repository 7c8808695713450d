//! A register that refuses writes with an old fencing token, which is the purpose of the tokens. It is in the soak
//! process itself, so no fault affects it.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader as AsyncBufReader},
    sync::{mpsc, oneshot},
};

/// The reply of the register to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Accepted,
    /// A newer token has written.
    Old,
    /// This token has written.
    Repeated,
}

/// Serves in separate threads until the process ends. Returns the address.
pub(crate) fn serve() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let last = Arc::new(Mutex::new(HashMap::new()));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let last = last.clone();
            std::thread::spawn(move || answer(stream, &last));
        }
    });
    address
}

/// One line is one write: `<key> <token>`. The reply is a letter. Ends with its client.
fn answer(stream: TcpStream, last: &Mutex<HashMap<String, u64>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut output = stream.try_clone().ok()?;
    for line in BufReader::new(stream).lines() {
        let line = line.ok()?;
        let (key, token) = line.split_once(' ')?;
        let token: u64 = token.parse().ok()?;
        let word = {
            let mut last = last.lock().unwrap();
            let last = last.entry(key.to_owned()).or_default();
            match token.cmp(last) {
                std::cmp::Ordering::Greater => {
                    *last = token;
                    "a\n"
                }
                std::cmp::Ordering::Equal => "r\n",
                std::cmp::Ordering::Less => "o\n",
            }
        };
        output.write_all(word.as_bytes()).ok()?;
    }
    Some(())
}

/// A client's connection to the register. A write that is dropped while in flight affects no other.
#[derive(Clone, Debug)]
pub(crate) struct Register(mpsc::UnboundedSender<(String, oneshot::Sender<Answer>)>);

impl Register {
    pub(crate) async fn connect(address: &str) -> Self {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, mut writes) = mpsc::unbounded_channel::<(String, oneshot::Sender<Answer>)>();
        tokio::spawn(async move {
            let (input, mut output) = stream.into_split();
            let mut answers = AsyncBufReader::new(input).lines();
            while let Some((line, reply)) = writes.recv().await {
                output.write_all(line.as_bytes()).await.unwrap();
                let answer = match answers.next_line().await.unwrap().as_deref() {
                    Some("a") => Answer::Accepted,
                    Some("r") => Answer::Repeated,
                    _ => Answer::Old,
                };
                // The caller may have been dropped.
                reply.send(answer).ok();
            }
        });
        Register(sender)
    }

    pub(crate) async fn write(&self, key: &str, token: u64) -> Answer {
        let (sender, answer) = oneshot::channel();
        self.0.send((format!("{key} {token}\n"), sender)).unwrap();
        answer.await.unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tokens_must_rise_for_each_key() {
        let register = Register::connect(&serve().to_string()).await;
        assert_eq!(register.write("k", 5).await, Answer::Accepted);
        assert_eq!(register.write("k", 5).await, Answer::Repeated);
        assert_eq!(register.write("k", 4).await, Answer::Old);
        assert_eq!(register.write("l", 4).await, Answer::Accepted);
    }
}
