//! The time of a message from one process to another through the server. It is the floor of every hand-off between
//! processes.
//!
//! There are two processes with blocking sockets and without any library: a publisher and a subscriber. Between two
//! messages, the publisher sleeps for as long as a section of [`processes`](crate::processes) lasts. So both are
//! scheduled like processes that pass a lock to each other.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Result;
use crate::clock::monotonic;
use crate::server::Server;
use crate::stats::quantile;

/// The first argument of the subscriber process.
pub const COMMAND: &str = "--hear";
const CHANNEL: &str = "bench:floor";
const PAUSE: Duration = Duration::from_micros(500);
const LAST: &str = "last";

/// The time from the instant before a message is sent until another process has it.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// The median, nanoseconds.
    pub p50: u64,
    /// The 99th percentile, nanoseconds.
    pub p99: u64,
}

/// The whole life of the subscriber. Prints the median and the 99th percentile.
///
/// # Errors
/// If the server does not reply as expected.
pub fn run(mut args: impl Iterator<Item = String>) -> Result<()> {
    let address = args.next().ok_or("no address")?;
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    reader.get_mut().write_all(format!("SUBSCRIBE {CHANNEL}\r\n").as_bytes())?;
    // *3 $9 subscribe $.. <channel> :1
    for _ in 0..6 {
        read_line(&mut reader)?;
    }
    let mut samples = Vec::new();
    loop {
        // *3 $7 message $.. <channel> $.. <payload>
        let mut payload = String::new();
        for _ in 0..7 {
            payload = read_line(&mut reader)?;
        }
        let now = monotonic();
        if payload == LAST {
            break;
        }
        samples.push(now - payload.parse::<u64>()?);
    }
    let (p50, p99) = (quantile(&mut samples, 0.5), quantile(&mut samples, 0.99));
    writeln!(std::io::stdout().lock(), "{p50} {p99}")?;
    Ok(())
}

fn read_line(reader: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err("the server closed the connection".into());
    }
    Ok(line.trim_end().to_owned())
}

/// Measures the floor with `messages` messages.
///
/// # Errors
/// If the server or the other process fails.
pub fn measure(server: &Server, messages: u32) -> Result<Floor> {
    let mut hears = Command::new(std::env::current_exe()?)
        .args([COMMAND, &server.address().to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let published = publish(server, messages);
    if published.is_err() {
        hears.kill()?;
    }
    let output = hears.wait_with_output()?;
    published?;
    let text = String::from_utf8(output.stdout)?;
    let mut figures = text.split_whitespace().map(str::parse::<u64>);
    let mut next = || figures.next().ok_or("the process that hears said too little");
    Ok(Floor { p50: next()??, p99: next()?? })
}

fn publish(server: &Server, messages: u32) -> Result<()> {
    let mut control = server.control()?;
    // Repeats until the other process has subscribed.
    while control.call(&format!("PUBLISH {CHANNEL} {}", monotonic()))? == "0" {
        thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..messages {
        thread::sleep(PAUSE);
        control.call(&format!("PUBLISH {CHANNEL} {}", monotonic()))?;
    }
    control.call(&format!("PUBLISH {CHANNEL} {LAST}"))?;
    Ok(())
}
