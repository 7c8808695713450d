//! The signals that are passed on to the command, or end the wait.

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::exit::Exit;

/// Their names and numbers.
const PASSED_ON: [(&str, Signal); 6] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("QUIT", Signal::QUIT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

/// The signal of that name.
pub(super) fn named(name: &str) -> Signal {
    PASSED_ON.iter().find(|(known, _)| *known == name).map_or(Signal::TERM, |(_, signal)| *signal)
}

/// Catches them from its making on.
#[derive(Debug)]
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(super) fn catch() -> Result<Self, Exit> {
        let caught = PASSED_ON.iter().map(|(_, signal)| {
            unix::signal(SignalKind::from_raw(signal.as_raw())).map(|stream| (*signal, stream))
        });
        let caught = caught.collect::<Result<Vec<_>, _>>();
        caught.map(Signals).map_err(|error| Exit::Unavailable.because(&format!("signals: {error}")))
    }

    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|cx| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
