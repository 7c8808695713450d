//! The simplest code for Memcached: `ms … ME` and `md … C`, pipelined on one connection.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::Result;
use crate::locks::Locks;
use crate::pauses::Pauses;

/// An item.
#[derive(Clone)]
pub(crate) struct RawItem<P> {
    commands: mpsc::UnboundedSender<(String, oneshot::Sender<String>)>,
    pauses: PhantomData<P>,
}

impl<P: Pauses> RawItem<P> {
    async fn ask(&self, command: String) -> Result<String> {
        let (reply, said) = oneshot::channel();
        self.commands.send((command, reply))?;
        Ok(said.await?)
    }
}

impl<P: Pauses> Locks for RawItem<P> {
    type Guard = (Self, String, String);

    async fn connect(address: &str, _name: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (reader, mut writer) = stream.into_split();
        let (sender, mut commands) = mpsc::unbounded_channel::<(String, oneshot::Sender<String>)>();
        let awaited: Arc<Mutex<VecDeque<oneshot::Sender<String>>>> = Arc::default();
        let answered = awaited.clone();
        tokio::spawn(async move {
            let mut bytes = String::new();
            while let Some(first) = commands.recv().await {
                bytes.clear();
                let mut next = Some(first);
                while let Some((command, reply)) = next {
                    bytes.push_str(&command);
                    awaited.lock().unwrap_or_else(PoisonError::into_inner).push_back(reply);
                    next = commands.try_recv().ok();
                }
                writer.write_all(bytes.as_bytes()).await?;
            }
            Result::Ok(())
        });
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Some(line) = lines.next_line().await? {
                let reply = answered.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                // The caller may have been dropped.
                drop(reply.map(|reply| reply.send(line)));
            }
            Result::Ok(())
        });
        Ok(RawItem { commands: sender, pauses: PhantomData })
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        let mut asked = 0;
        loop {
            let said = self.ask(format!("ms {key} 1 T30 ME c\r\nx\r\n")).await?;
            if let Some(cas) = said.strip_prefix("HD c") {
                return Ok((self.clone(), key.to_owned(), cas.to_owned()));
            }
            P::pause(asked).await;
            asked += 1;
        }
    }

    async fn release((raw, key, cas): Self::Guard) -> Result<()> {
        raw.ask(format!("md {key} C{cas}\r\n")).await?;
        Ok(())
    }
}
