//! Clients that do not answer: foreign ones, stopped ones, dead ones, and those of the first release.

use std::time::{Duration, Instant};

use distlock_tests::{LockClient, RedisServer, eventually, until_waiting};

use super::{LONG, all, client, parties};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_holder_is_shown_by_its_token_alone() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    server.raw(&["SET", "k", "a shell script", "PX", "60000"]);
    let info = eye.inspect("k").await.unwrap().unwrap();
    let holder = &info.holders[0];
    assert_eq!((&*holder.token, &holder.client, &holder.label), ("a shell script", &None, &None));
    assert!(holder.remaining.is_some() && info.unanswered.is_empty());
    // The list knows of it from those who wait for it.
    assert!(all(eye.list("*")).await.unwrap().0.is_empty());
    let waits = tokio::spawn(one.lock("k").wait(LONG).acquire());
    until_waiting(&eye, "k", 1).await;
    let (entries, _) = all(eye.list("*")).await.unwrap();
    assert_eq!(entries[0].holders[0].token, "a shell script");
    assert_eq!(parties(&entries[0]), (vec![], vec!["one"]));
    waits.abort();
}

/// A process that is stopped holds its lock, until the lease is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_holder_is_named_as_one_that_does_not_answer() {
    let server = RedisServer::start();
    let mut stopped = LockClient::connect(CLIENT, &server.url());
    stopped.send("acquire k 60000 0");
    stopped.expect("acquired");
    let eye = client(&server.url(), "eye").await;
    let of = eye.inspect("k").await.unwrap().unwrap().holders.swap_remove(0).client.unwrap();
    assert_eq!(of.pid, Some(stopped.id()));
    assert_eq!(of.program.as_deref(), Some("lock-client"));

    stopped.stop();
    let start = Instant::now();
    let info = eye.inspect("k").await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(info.unanswered, std::slice::from_ref(&of.id));
    let holder = &info.holders[0];
    assert_eq!((&holder.client.as_ref().unwrap().id, &holder.label, holder.since), (&of.id, &None, None));
    assert!(holder.remaining.is_some());
    let (entries, unanswered) = all(eye.list("*")).await.unwrap();
    assert_eq!((entries.len(), unanswered), (0, vec![of.id.clone()]));

    stopped.cont();
    eventually("it answers again", async || all(eye.list("*")).await.unwrap().0.len() == 1).await;
    drop(stopped);
    eventually("it is gone", async || {
        let info = eye.inspect("k").await.unwrap().unwrap();
        // Nobody waits for a dead one: the server says that nobody listens.
        info.unanswered == [of.id.clone()] && info.holders[0].since.is_none()
    })
    .await;
    eventually("it is not waited for", async || {
        let start = Instant::now();
        eye.inspect("k").await.unwrap().unwrap();
        start.elapsed() < Duration::from_millis(300)
    })
    .await;
}

/// What a client of the first release does with a question: it listens, and says nothing. Here it is one that holds a
/// lock and listens on its channel.
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_version_has_fewer_columns() {
    let server = RedisServer::start();
    let mut subscriber = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut listens = subscriber.as_pubsub();
    listens.subscribe("dl1:c:old.0123").unwrap();
    server.raw(&["SET", "k", "dl1:old.0123:7", "PX", "60000"]);
    let eye = client(&server.url(), "eye").await;
    let info = eye.inspect("k").await.unwrap().unwrap();
    assert_eq!(info.unanswered, ["old.0123"]);
    let holder = &info.holders[0];
    assert_eq!(holder.client.as_ref().unwrap().id, "old.0123");
    assert!(holder.remaining.is_some() && holder.since.is_none());
    let question: String = listens.get_message().unwrap().get_payload().unwrap();
    let words: Vec<&str> = question.split(' ').collect();
    assert!(matches!(words[..], ["i", _, _, _, "k", "k"]), "{question}");
    assert_eq!(all(eye.list("*")).await.unwrap().1, ["old.0123"]);
}

/// What cannot be read is ignored, by present clients too: what a client of the first release does with our questions.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_on_its_channel_does_not_disturb_a_client() {
    let server = RedisServer::start();
    let (one, two) = (client(&server.url(), "one").await, client(&server.url(), "two").await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waits = tokio::spawn(two.lock("k").wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    let info = one.inspect("k").await.unwrap().unwrap();
    for id in [&info.holders[0].client, &info.waiting[0].client] {
        let channel = format!("dl1:c:{}", id.as_ref().unwrap().id);
        for text in [
            "i",
            "i x",
            "i a 1 0 k",
            "a b 1 e",
            "a b 1 e\nh",
            "z 1 2 3",
            "",
            "i a 99999999999999999999 1 k k",
            "i \u{0} 1 1 l * *",
            "a 1 1 m\nw k dl1:p:99999999999 - 1 1 - -",
        ] {
            let listeners: u64 = server.run_words(&["PUBLISH", &channel, text]);
            assert_eq!(listeners, 1, "it listens");
        }
    }
    assert!(all(two.list("*")).await.unwrap().1.is_empty());
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}
