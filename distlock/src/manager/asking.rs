//! Asking many clients at a time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::driver::{Core, Page};
use crate::protocol::Time;
use crate::protocol::inquiry::About;
use distlock_store::clock;

/// The most questions under way.
const AT_A_TIME: usize = 64;

type Asked<'a> = Pin<Box<dyn Future<Output = (String, Option<Page>)> + Send + 'a>>;

/// How long clients are waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Each of them.
    pub(super) each: Duration,
    /// All of them: however many there are that do not answer, it comes to an end.
    pub(super) until: Time,
}

impl Patience {
    /// What is left of it for the next one.
    pub(super) fn left(&self) -> Duration {
        self.each.min(self.until.duration_since(clock::now()))
    }
}

/// Asks each of these clients, and returns what they say, in the order in which they do. `None`: no answer.
pub(super) async fn ask_all(
    core: &Arc<Core>,
    clients: Vec<String>,
    about: impl Fn(&str) -> About,
    (room, patience): (usize, Patience),
) -> Vec<(String, Option<Page>)> {
    let mut answers = Vec::with_capacity(clients.len());
    let mut under_way: Vec<Asked<'_>> = Vec::new();
    let mut waiting = clients.into_iter();
    loop {
        let free = AT_A_TIME - under_way.len();
        under_way.extend(waiting.by_ref().take(free).map(|client| -> Asked<'_> {
            let about = about(&client);
            Box::pin(async move {
                let page = core.ask(&client, about, room, patience.left()).await;
                (client, page)
            })
        }));
        if under_way.is_empty() {
            return answers;
        }
        poll_fn(|cx| {
            let before = answers.len();
            under_way.retain_mut(|asked| match asked.as_mut().poll(cx) {
                Poll::Ready(answer) => {
                    answers.push(answer);
                    false
                }
                Poll::Pending => true,
            });
            if answers.len() > before { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
