//! A link that takes time, as between two machines: each byte arrives a fixed time after it was sent, in order. As many
//! bytes as one likes are on their way at once.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::set_current_timer_slack;

use crate::Result;

/// A port of the loopback behind which a server is that much further away. Closed when dropped; connections that are
/// open stay until one side closes them.
#[derive(Debug)]
pub struct SlowLink {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
}

impl SlowLink {
    /// To a server on this machine.
    ///
    /// # Errors
    /// If there is no port for it.
    pub fn to(server: SocketAddr, each_way: Duration) -> Result<SlowLink> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let closed = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&closed);
        thread::spawn(move || {
            for client in listener.incoming() {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                // Whoever has connected notices that the link is closed.
                drop(client.map_err(Into::into).and_then(|client| connect(client, server, each_way)));
            }
        });
        Ok(SlowLink { address, closed })
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

fn connect(client: TcpStream, server: SocketAddr, each_way: Duration) -> Result<()> {
    let server = TcpStream::connect(server)?;
    // What was sent in one piece, or in several, arrives so.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    direction(client.try_clone()?, server.try_clone()?, each_way);
    direction(server, client, each_way);
    Ok(())
}

/// One thread takes the bytes as they come, another one hands them on when they are due.
fn direction(mut from: TcpStream, to: TcpStream, takes: Duration) {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || deliver(&receiver, to));
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        // An error ends a connection like its end does.
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + takes, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
}

fn deliver(bytes: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    // Without it, each sleep takes up to 50 µs longer. If the kernel refuses, all contenders wait for longer.
    set_current_timer_slack(NonZeroU64::new(1)).unwrap_or_default();
    while let Ok((due, bytes)) = bytes.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}
