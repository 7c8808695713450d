//! The reports to a subscriber: a span for each acquisition and each hold, events between them, and labels instead of
//! keys.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it unwraps")]

mod collector;

use std::time::Duration;

use distlock::{LockError, LockManager, distributed_lock};
use distlock_tests::{RedisServer, eventually};
use tracing::Level;

use collector::{all, start, under};

fn spans(label: &str) -> Vec<String> {
    under(label).into_iter().filter(|entry| entry.is_span).map(|entry| entry.name).collect()
}

fn events(label: &str, name: &str) -> Vec<collector::Entry> {
    under(label).into_iter().filter(|entry| !entry.is_span && entry.name == name).collect()
}

#[distributed_lock(key = "mail:<address>", manager = manager)]
async fn send_mail(manager: &LockManager, address: &str) -> Result<(), LockError> {
    tracing::info!(target: "distlock", label = "the body of send_mail", "sending");
    Ok(())
}

#[tokio::test]
async fn an_acquisition_and_a_hold_have_a_span_each_labelled_with_the_template() {
    start();
    send_mail(&LockManager::in_memory(), "ann@example.com").await.unwrap();
    assert_eq!(spans("mail:<address>"), ["lock.acquire", "lock.hold"]);
    assert_eq!(events("mail:<address>", "acquired").len(), 1);
    assert_eq!(events("mail:<address>", "released").len(), 1);
    assert_eq!(events("the body of send_mail", "sending")[0].around, ["lock.hold"]);
}

const KEY: &str = "order:<id>";

#[distributed_lock(key = KEY, label = "a constant", manager = manager)]
async fn constant(manager: &LockManager, id: u8) -> Result<u8, LockError> {
    Ok(id)
}

#[distributed_lock(key = format!("order:<{id}>"), label = "an expression", manager = manager)]
async fn expression(manager: &LockManager, id: u8) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_placeholder_in_a_constant_is_warned_of_once() {
    start();
    let manager = LockManager::in_memory();
    for id in [1, 2] {
        constant(&manager, id).await.unwrap();
        expression(&manager, id).await.unwrap();
    }
    let warnings = |label| under(label).into_iter().filter(|entry| entry.level == Level::WARN).count();
    assert_eq!((warnings("a constant"), warnings("an expression")), (1, 0));
}

#[tokio::test]
async fn run_has_the_label_of_its_request() {
    start();
    let manager = LockManager::in_memory();
    manager.lock("ann@example.com").label("by hand").run(async |_| {}).await.unwrap();
    assert_eq!(spans("by hand"), ["lock.acquire", "lock.hold"]);
}

#[tokio::test]
async fn spans_can_be_seen_by_default_and_what_is_usual_cannot() {
    start();
    let manager = LockManager::in_memory();
    manager.lock("k").label("levels").run(async |_| {}).await.unwrap();
    for entry in under("levels") {
        let expected = if entry.is_span { Level::INFO } else { Level::DEBUG };
        assert_eq!(entry.level, expected, "{entry:?}");
    }
}

#[tokio::test]
async fn busy_is_reported_and_has_no_hold() {
    start();
    let manager = LockManager::in_memory();
    let guard = manager.lock("k").label("busy, the holder").acquire().await.unwrap();
    let refused = manager.lock("k").label("busy").no_wait().acquire().await;
    assert!(refused.unwrap_err().is_busy());
    assert_eq!(spans("busy"), ["lock.acquire"]);
    assert_eq!(events("busy", "busy").len(), 1);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn other_failures_are_warnings() {
    start();
    let manager = LockManager::in_memory();
    manager.lock("").label("no key").acquire().await.unwrap_err();
    let [event] = &events("no key", "not acquired")[..] else { panic!("one event") };
    assert_eq!(event.level, Level::WARN);
    assert_eq!(event.fields["kind"], "invalid key");
}

#[tokio::test]
async fn renewal_is_reported() {
    start();
    let server = RedisServer::start();
    let manager = LockManager::connect(&server.url()).await.unwrap();
    let guard = manager.lock("k").label("renewed").ttl(Duration::from_millis(600)).acquire().await.unwrap();
    eventually("a renewal", async || !events("renewed", "renewed").is_empty()).await;
    guard.release().await.unwrap();
    assert_eq!(events("renewed", "released").len(), 1);
}

#[tokio::test]
async fn a_loss_is_a_warning_that_says_why() {
    start();
    let server = RedisServer::start();
    let manager = LockManager::connect(&server.url()).await.unwrap();
    let request = manager.lock("ann").label("lost").ttl(Duration::from_millis(600));
    let section = request.run(async |_| {
        server.raw(&["SET", "ann", "somebody else"]);
        std::future::pending::<()>().await;
    });
    assert!(section.await.unwrap_err().is_lost());
    let [event] = &events("lost", "lost")[..] else { panic!("one event") };
    assert_eq!(event.level, Level::WARN);
    assert_eq!(event.fields["reason"], "the server reports that this process no longer holds it");
    assert!(events("lost", "released").is_empty());
}

#[tokio::test]
async fn keys_appear_at_debug_level_only() {
    start();
    let server = RedisServer::start();
    let manager = LockManager::connect(&server.url()).await.unwrap();
    let secret = "personal-data@example.com";
    send_mail(&manager, secret).await.unwrap();
    let guard = manager.lock(secret).label("private").acquire().await.unwrap();
    manager.lock(secret).label("private").no_wait().acquire().await.unwrap_err();
    guard.release().await.unwrap();
    let request = manager.lock(secret).label("private").ttl(Duration::from_millis(600));
    let section = request.run(async |_| {
        server.raw(&["SET", secret, "somebody else"]);
        std::future::pending::<()>().await;
    });
    section.await.unwrap_err();

    let telling: Vec<_> = all()
        .into_iter()
        .filter(|entry| entry.name.contains(secret) || entry.fields.values().any(|v| v.contains(secret)))
        .collect();
    assert!(!telling.is_empty(), "the key is shown at debug level");
    for entry in telling {
        assert!(entry.level > Level::INFO || entry.is_span, "{entry:?}");
    }
}

/// Spans are visible by default, so they contain a key only if debug events are enabled.
#[test]
fn spans_show_keys_only_where_debug_events_are_wanted() {
    start();
    let secret = "personal-data-in-a-span@example.com";
    let section = |label: &'static str| {
        let manager = distlock::blocking::LockManager::in_memory();
        manager.lock(secret).label(label).run(|_| {}).unwrap();
    };
    tracing::subscriber::with_default(collector::UpToInfo, || section("span, info"));
    section("span, debug");
    for entry in under("span, info") {
        assert!(entry.is_span && !entry.fields.contains_key("key"), "{entry:?}");
    }
    let shown: Vec<_> = under("span, debug").into_iter().filter(|entry| entry.is_span).collect();
    assert_eq!(shown.len(), 2);
    assert!(shown.iter().all(|entry| entry.fields["key"] == secret), "{shown:?}");
}

#[tokio::test]
async fn spans_say_what_was_asked_for_and_what_came_of_it() {
    start();
    let manager = LockManager::in_memory();
    let guard = manager.lock("k").shared().label("span, readers").acquire().await.unwrap();
    manager.lock("k").label("span, writer").no_wait().acquire().await.unwrap_err();
    let span = |label: &str| under(label).into_iter().find(|entry| entry.is_span).unwrap().fields;
    let readers = span("span, readers");
    assert_eq!((&*readers["kind"], &*readers["outcome"], &*readers["keys"]), ("shared", "acquired", "1"));
    assert_eq!(span("span, writer")["outcome"], "busy");
    guard.release().await.unwrap();
    let guard = manager.lock("k").label("span, holder").acquire().await.unwrap();
    manager.lock("k").label("span, late").no_wait().acquire().await.unwrap_err();
    assert!(span("span, late")["holder"].starts_with("dl1:"), "{:?}", span("span, late"));
    guard.release().await.unwrap();
}

/// The fields that a layer for OpenTelemetry uses as the status of a span.
fn status(entry: &collector::Entry) -> (Option<&str>, Option<&str>) {
    let field = |name: &str| entry.fields.get(name).map(String::as_str);
    (field("otel.status_code"), field("error.type"))
}

fn span_of(label: &str, name: &str) -> collector::Entry {
    let spans: Vec<_> =
        under(label).into_iter().filter(|entry| entry.is_span && entry.name == name).collect();
    let [span] = &spans[..] else { panic!("one span: {spans:?}") };
    span.clone()
}

#[tokio::test]
async fn spans_are_errors_if_there_was_no_lock_or_it_was_lost() {
    start();
    let manager = LockManager::in_memory();
    manager.lock("k").label("status, right").run(async |_| {}).await.unwrap();
    for name in ["lock.acquire", "lock.hold"] {
        assert_eq!(status(&span_of("status, right", name)), (None, None), "{name}");
    }
    let guard = manager.lock("k").acquire().await.unwrap();
    manager.lock("k").label("status, busy").no_wait().acquire().await.unwrap_err();
    assert_eq!(status(&span_of("status, busy", "lock.acquire")), (Some("ERROR"), Some("busy")));
    guard.release().await.unwrap();
    manager.lock("").label("status, no key").acquire().await.unwrap_err();
    assert_eq!(status(&span_of("status, no key", "lock.acquire")), (Some("ERROR"), Some("invalid_key")));
    // Cancelled by the loss.
    let taken = async |manager: &LockManager| manager.force_release("k").await.unwrap();
    let section = manager.lock("k").label("status, lost").run(async |_| {
        taken(&manager).await;
        std::future::pending::<()>().await;
    });
    assert!(section.await.unwrap_err().is_lost());
    let hold = span_of("status, lost", "lock.hold");
    assert_eq!(status(&hold), (Some("ERROR"), Some("lost")));
    assert!(!hold.fields["reason"].is_empty());
    // The body continued to its end, and its value is returned.
    let section = manager.lock("k").label("status, lost at the end").run(async |_| {
        taken(&manager).await;
    });
    section.await.unwrap();
    let hold = span_of("status, lost at the end", "lock.hold");
    assert_eq!(status(&hold), (Some("ERROR"), Some("lost")));
    // A section that is dropped from outside is not a loss.
    let section =
        manager.lock("k").label("status, dropped").run(async |_| std::future::pending::<()>().await);
    tokio::time::timeout(Duration::from_millis(20), section).await.unwrap_err();
    assert_eq!(status(&span_of("status, dropped", "lock.hold")), (None, None));
}

#[test]
fn spans_on_threads_are_errors_if_the_lock_was_lost() {
    start();
    let manager = distlock::blocking::LockManager::in_memory();
    let section = manager.lock("k").label("status, thread").run(|_| manager.force_release("k").unwrap());
    assert!(section.unwrap_err().is_lost());
    assert_eq!(status(&span_of("status, thread", "lock.hold")), (Some("ERROR"), Some("lost")));
}

/// So a layer can add the times.
#[tokio::test]
async fn times_are_numbers_of_milliseconds() {
    start();
    let manager = LockManager::in_memory();
    let guard = manager.lock("k").label("numbers").acquire().await.unwrap();
    manager.lock("k").label("numbers, busy").no_wait().acquire().await.unwrap_err();
    guard.release().await.unwrap();
    for (label, event, field) in [
        ("numbers", "acquired", "waited_ms"),
        ("numbers", "released", "held_ms"),
        ("numbers, busy", "busy", "waited_ms"),
    ] {
        let [event] = &events(label, event)[..] else { panic!("one event") };
        assert!(event.numbers.contains(field), "{event:?}");
        assert!(event.fields[field].parse::<f64>().is_ok_and(|time| time < 60_000.0), "{event:?}");
    }
}

#[test]
fn threads_are_seen_too() {
    start();
    let manager = distlock::blocking::LockManager::in_memory();
    manager.lock("k").label("thread").run(|_| {}).unwrap();
    assert_eq!(events("thread", "acquired").len(), 1);
    assert_eq!(events("thread", "released").len(), 1);
    assert_eq!(spans("thread"), ["lock.acquire", "lock.hold"]);
}

/// Most programs see the begin and the end of an outage with their default level.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_begins_with_a_warning_and_ends_with_an_information() {
    start();
    let mut server = RedisServer::start();
    let manager = LockManager::connect(&server.url()).await.unwrap();
    let (address, outage) =
        (server.address(), |entry: &collector::Entry| entry.fields.contains_key("outage_ms"));
    let of_server = |name: &str| -> Vec<collector::Entry> {
        let here = |entry: &collector::Entry| {
            entry.name == name && entry.fields.get("store").is_some_and(|store| store.contains(&address))
        };
        all().into_iter().filter(here).collect()
    };
    server.kill9();
    eventually("the outage is reported", async || !of_server("not connected").is_empty()).await;
    server.restart();
    eventually("its end is reported", async || !of_server("connected again").is_empty()).await;
    let [began] = &of_server("not connected")[..] else { panic!("one event") };
    assert_eq!(began.level, Level::WARN);
    let [ended] = &of_server("connected again")[..] else { panic!("one event") };
    assert_eq!(ended.level, Level::INFO);
    assert!(outage(ended), "for how long: {ended:?}");
    drop(manager);
}

/// One process waits for another one at the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_at_the_server_and_how_the_lock_came_are_reported() {
    start();
    let server = RedisServer::start();
    let holder = LockManager::connect(&server.url()).await.unwrap();
    let waiter = LockManager::connect(&server.url()).await.unwrap();
    let guard = holder.lock("k").label("held by one").acquire().await.unwrap();
    let waiting = tokio::spawn(async move {
        waiter.lock("k").label("awaited by another").acquire().await.unwrap().release().await
    });
    eventually("the wait is reported", async || !events("awaited by another", "queued").is_empty()).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(events("held by one", "acquired")[0].fields["how"], "Free");
    assert_eq!(events("awaited by another", "queued").len(), 1);
    let [acquired] = &events("awaited by another", "acquired")[..] else { panic!("one event") };
    // By a push of the server, or by a poll if there is no connection for pushes yet.
    assert!(["Granted", "Asked"].contains(&&*acquired.fields["how"]), "{acquired:?}");
    assert_eq!(events("awaited by another", "released").len(), 1);
}

/// There was no release after it, and no further error.
#[tokio::test]
async fn a_loss_that_is_known_is_one_warning() {
    start();
    let manager = LockManager::in_memory();
    let guard = manager.lock("k").label("one warning").ttl(Duration::from_millis(50)).no_renew();
    let guard = guard.acquire().await.unwrap();
    guard.lost().await;
    guard.release().await.unwrap_err();
    // The holder is told before the loss is reported.
    eventually("the loss is reported", async || !events("one warning", "lost").is_empty()).await;
    let warnings: Vec<_> = under("one warning").into_iter().filter(|e| e.level <= Level::INFO).collect();
    let [acquire, lost] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(acquire.is_span && lost.name == "lost" && lost.level == Level::WARN, "{warnings:?}");
    assert_eq!(events("one warning", "ended after a loss").len(), 1);
}

#[tokio::test]
async fn a_loss_that_the_release_finds_is_one_warning() {
    start();
    let server = RedisServer::start();
    let manager = LockManager::connect(&server.url()).await.unwrap();
    let guard = manager.lock("k").label("found late").acquire().await.unwrap();
    server.raw(&["SET", "k", "somebody else"]);
    assert!(guard.release().await.unwrap_err().is_lost());
    let warnings: Vec<_> = under("found late").into_iter().filter(|e| e.level == Level::WARN).collect();
    let [lost] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(lost.name, "lost");
}

/// A layer uses this to recognise text.
#[tokio::test]
async fn every_label_is_text() {
    start();
    let manager = LockManager::in_memory();
    let guard = manager.lock("k").label("text").ttl(Duration::from_millis(50)).no_renew();
    let guard = guard.acquire().await.unwrap();
    manager.lock("k").label("text").no_wait().acquire().await.unwrap_err();
    guard.lost().await;
    drop(guard);
    // The holder is told before the loss is reported.
    eventually("the loss is reported", async || !events("text", "lost").is_empty()).await;
    manager.lock("k").label("text").run(async |_| {}).await.unwrap();
    assert!(under("text").len() >= 8, "{:?}", under("text"));
    for entry in under("text") {
        assert!(entry.is_text("label"), "{entry:?}");
    }
}

/// This does not depend on whether another process holds the lock.
#[tokio::test]
async fn a_wait_in_this_process_begins_with_an_event_too() {
    start();
    let manager = LockManager::in_memory();
    let guard = manager.lock("b").label("holds here").acquire().await.unwrap();
    let one = tokio::spawn(manager.lock("b").label("waits here").acquire());
    let both = tokio::spawn(manager.lock_all(["a", "b"]).label("waits here, for both").acquire());
    for (label, waiting) in [("waits here", "1"), ("waits here, for both", "2")] {
        eventually("the wait is reported", async || !events(label, "queued").is_empty()).await;
        let [event] = &events(label, "queued")[..] else { panic!("one event") };
        assert_eq!(event.level, Level::DEBUG);
        assert_eq!(
            (&*event.fields["key"], &*event.fields["here"], &*event.fields["waiting"]),
            ("b", "true", waiting)
        );
    }
    guard.release().await.unwrap();
    one.await.unwrap().unwrap().release().await.unwrap();
    both.await.unwrap().unwrap().release().await.unwrap();
    assert!(events("holds here", "queued").is_empty(), "it did not wait");
}

#[distributed_lock(key = "slow", label = "slow", warn_wait = "20ms", warn_hold = "20ms", manager = manager)]
async fn slow(manager: &LockManager, end: impl Future<Output = ()>) -> Result<(), LockError> {
    end.await;
    Ok(())
}

#[tokio::test]
async fn a_wait_and_a_hold_that_grow_long_are_warnings_with_numbers() {
    start();
    let manager = LockManager::in_memory();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let holder = slow(&manager, async { drop(ended.await) });
    let waiter = slow(&manager, async {});
    let warned = async {
        for (event, field) in [("waits for a long time", "waited_ms"), ("is held for a long time", "held_ms")]
        {
            eventually(event, async || !events("slow", event).is_empty()).await;
            let warning = &events("slow", event)[0];
            assert_eq!(warning.level, Level::WARN);
            assert!(warning.numbers.contains(field) && !warning.fields.contains_key("key"), "{warning:?}");
        }
        end.send(()).unwrap();
    };
    let (held, waited, ()) = tokio::join!(holder, waiter, warned);
    held.and(waited).unwrap();
}
