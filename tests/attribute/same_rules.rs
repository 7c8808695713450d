//! Rules that both the macro, at compile time, and the library, at run time, check. Both must agree.

use std::time::Duration;

use distlock::{LockError, LockManager, key};

// The macro crate's own files are included, because the crate can export only macros.
#[path = "../../distlock-macros/src/template.rs"]
mod template;

#[path = "../../distlock-macros/src/duration.rs"]
mod duration;

#[test]
fn the_same_characters_are_escaped() {
    let others = ['\u{85}', '\u{a0}', 'é', '\u{2028}', '\u{3000}', '漢', '\u{200b}', '\u{10ffff}'];
    for c in (0..128u8).map(char::from).chain(others) {
        let text = format!("a{c}b");
        let rendered = key!("<text>").unwrap();
        let escaped = rendered.as_str() != text;
        assert_eq!(escaped, template::is_escaped(c), "{c:?} renders as {rendered}");
        if escaped {
            let bytes: String = c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
            assert_eq!(rendered.as_str(), format!("a{bytes}b"));
        }
    }
}

#[tokio::test]
async fn the_same_leases_are_possible() {
    let manager = LockManager::in_memory();
    let ttl = async |ttl: Duration| {
        let guard = manager.lock("k").ttl(ttl).acquire().await?;
        guard.release().await
    };
    let one = Duration::from_millis(1);
    for possible in [duration::SHORTEST_TTL, duration::LONGEST].map(Duration::from_millis) {
        ttl(possible).await.unwrap();
    }
    let shorter = Duration::from_millis(duration::SHORTEST_TTL) - one;
    let longer = Duration::from_millis(duration::LONGEST) + one;
    for impossible in [shorter, longer] {
        assert!(matches!(ttl(impossible).await, Err(LockError::InvalidOptions { .. })), "{impossible:?}");
    }
}

/// Except `1_000ms`, which is a valid literal, and the limits of each option.
#[test]
fn the_same_durations_are_read() {
    let right = ["0ms", "250ms", "10s", "3 s", "5m", "1h", "2d", "007s", "365d"];
    let wrong = ["", "s", "7", "-1s", "+1s", "1.5s", "1h30m", "1 h 30 m", "1S", "5w", "1sec", "s1", "1s1"];
    let too_long = ["99999999999999999999s", "18446744073709551615d"];
    for text in right.into_iter().chain(wrong).chain(too_long) {
        let read = duration::parse(text).ok().map(Duration::from_millis);
        assert_eq!(distlock::store::kit::duration::parse(text), read, "{text}");
        assert_eq!(read.is_some(), right.contains(&text), "{text}");
    }
}

/// The library also accepts the longest literal of each other option.
#[tokio::test]
async fn the_longest_times_of_other_kinds_are_possible() {
    let manager = LockManager::in_memory();
    let longest = Duration::from_millis(duration::LONGEST);
    let guard = manager.lock("k").ttl(longest).wait(longest).max_hold(longest).acquire().await.unwrap();
    guard.release().await.unwrap();
    let retry = distlock::Retry::times(1).delay(longest);
    let guard = manager.lock("k").retry(retry).min_hold(longest).acquire().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn the_same_locks_may_linger() {
    let manager = LockManager::in_memory();
    let longest = Duration::from_millis(duration::LONGEST_LINGER);
    manager.lock("k").linger(longest).acquire().await.unwrap().release().await.unwrap();
    let longer = longest + Duration::from_millis(1);
    let refused = manager.lock("k").linger(longer).acquire().await;
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
}
