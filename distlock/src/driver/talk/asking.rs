//! What other clients tell.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Awaited, Core, Page, Talk, lock};
use crate::backend::Told;
use crate::protocol::inquiry::{About, Answer, Question};

/// After this time a question is sent again: it, or its answer, was lost, or the other client is asked too often.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

impl Talk {
    pub(super) fn answered(&self, answer: Answer) {
        let mut awaited = lock(&self.awaited);
        if awaited.get(&answer.number).is_some_and(|awaited| awaited.from == answer.client)
            && let Some(asked) = awaited.remove(&answer.number)
        {
            drop(awaited);
            // Fails only if it has just ceased to wait.
            drop(asked.answer.send(answer));
        }
    }
}

/// Forgets a question that nobody awaits the answer of any longer.
struct Forget<'a>(&'a Talk, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(&self.0.awaited).remove(&self.1);
    }
}

impl Core {
    /// Asks another client. `None`: it does not answer. The future may be polled, and dropped, anywhere.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        client: &str,
        about: About,
        room: usize,
        patience: Duration,
    ) -> Option<Page> {
        let number = self.talk.next.fetch_add(1, Ordering::Relaxed);
        let (sender, mut answer) = oneshot::channel();
        lock(&self.talk.awaited).insert(number, Awaited { from: client.to_owned(), answer: sender });
        let _forget = Forget(&self.talk, number);
        let question = Question { asker: self.client.to_string(), number, room, about }.to_string();
        let mut waited = Duration::ZERO;
        while waited < patience {
            match self.backend.tell(client, question.clone()).await {
                Ok(Told::Perhaps) => {}
                Ok(Told::Nobody) | Err(_) => return None,
            }
            let pause = AGAIN_AFTER.min(patience - waited);
            tokio::select! {
                biased;
                answer = &mut answer => {
                    let Answer { who, accounts, rest, .. } = answer.ok()?;
                    return Some(Page { who, accounts, rest });
                }
                () = self.sleep(pause) => waited += pause,
            }
        }
        None
    }

    /// Work on the I/O thread that nobody waits for at the manager's end.
    pub(crate) fn aside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.io.spawn(work);
    }
}
