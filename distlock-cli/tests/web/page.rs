//! What a browser shows.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use distlock::blocking::LockManager;
use distlock_fixtures::eventually_blocking;
use distlock_tests::RedisServer;

use crate::browser::Browser;
use crate::server::{Killed, Page, TOKEN, distlock};

/// The row of a key, in the table of that id.
fn row(table: &str, key: &str) -> String {
    let key = serde_json::to_string(key).unwrap();
    format!("[...document.querySelectorAll('#{table} tr')].find((row) => row.dataset.key === {key})")
}

/// `distlock run`, which holds the key, or waits for it.
fn run(store: &RedisServer, key: &str, name: &str) -> Killed {
    let arguments =
        ["--name", name, "run", "--key", key, "--ttl", "3s", "--kill-after", "100ms", "--wait", "forever"];
    let mut command = distlock(store, &arguments);
    let child: Child = command.args(["--", "sleep", "600"]).stdout(Stdio::null()).spawn().expect("it starts");
    Killed(child)
}

/// The best of some, because the machine may be slow at times.
#[test]
fn a_lock_that_is_taken_elsewhere_is_shown_within_a_second() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let browser = Browser::start();
    browser.go(&page.url);
    browser.until("the page is told", "document.getElementById('state').textContent === 'live'");
    let manager = LockManager::connect(store.url()).unwrap();
    let shown: Vec<Duration> = (0..5)
        .map(|number| {
            let key = format!("order:{number}");
            let (guard, begin) = (manager.lock(key.as_str()).acquire().unwrap(), Instant::now());
            browser.until("it is shown", &format!("!!{}", row("locks", &key)));
            let shown = begin.elapsed();
            guard.release().unwrap();
            browser.until("it is not shown any more", &format!("!{}", row("locks", &key)));
            shown
        })
        .collect();
    assert!(shown.iter().min().is_some_and(|best| *best < Duration::from_secs(1)), "{shown:?}");
}

#[test]
fn a_holder_its_waiter_and_its_loss_are_shown() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let browser = Browser::start();
    browser.go(&page.url);
    let (locks, losses) = (row("locks", "stock:tea"), row("losses", "stock:tea"));
    let mut holder = run(&store, "stock:tea", "the-holder");
    browser.until("the holder is shown", &format!("!!{locks}?.textContent.includes('the-holder')"));
    assert!(browser.text(&format!("{locks}.textContent")).contains(&format!("pid {}", holder.0.id())));
    let waiter = run(&store, "stock:tea", "the-waiter");
    let cell = format!("{locks}?.querySelector('[data-name=Waiting]').textContent.includes('the-waiter')");
    browser.until("the waiter is shown", &cell);
    // Its guardian ends the command; nobody renews the lease.
    holder.0.kill().unwrap();
    holder.0.wait().unwrap();
    browser.until("the loss is shown", &format!("!!{losses}?.textContent.includes('the-holder')"));
    assert!(browser.text(&format!("{losses}.textContent")).contains("nobody renewed it"));
    let next = format!("{locks}?.querySelector('[data-name=Holder]').textContent.includes('the-waiter')");
    browser.until("the next one holds it", &next);
    assert_eq!(browser.text("document.getElementById('lost').textContent"), "1");
    drop(waiter);
}

/// What the clients count of themselves; this process is one of them.
#[test]
fn requests_that_are_busy_and_holds_that_are_lost_are_counted_by_the_second() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let browser = Browser::start();
    browser.go(&page.url);
    let figure = |id: &str| browser.text(&format!("document.getElementById('{id}').textContent"));
    eventually_blocking("nobody tells yet", || figure("held") == "0");
    assert_eq!((&*figure("busy-rate"), &*figure("lost-rate")), ("–", "–"));
    let manager = LockManager::connect(store.url()).unwrap();
    let guard = manager.lock("k").acquire().unwrap();
    eventually_blocking("it tells", || figure("busy-rate") == "0.0" && figure("lost-rate") == "0.0");
    let is_more = |id: &str| figure(id).parse::<f64>().is_ok_and(|rate| rate > 0.0);
    eventually_blocking("busy", || {
        assert!(manager.lock("k").no_wait().acquire().unwrap_err().is_busy());
        is_more("busy-rate")
    });
    assert_eq!(figure("lost-rate"), "0.0");
    manager.force_release("k").unwrap();
    eventually_blocking("it is lost", || !guard.is_held());
    eventually_blocking("lost", || is_more("lost-rate"));
    // Nothing happens any more.
    eventually_blocking("quiet", || figure("busy-rate") == "0.0" && figure("lost-rate") == "0.0");
}

#[test]
fn a_key_is_text_whatever_it_says() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let browser = Browser::start();
    browser.go(&page.url);
    let manager = LockManager::connect(store.url()).unwrap();
    let keys = [
        "<img src=x onerror=\"document.title='taken over'\">",
        "</script><script>document.title='taken over'</script>",
        "\"'`${document.title='taken over'}",
        "__proto__",
        "line\nand \u{202e}backwards",
    ];
    let request = |key: &'static str| manager.lock(key).label(key.to_owned()).acquire().unwrap();
    let guards: Vec<_> = keys.iter().map(|key| request(key)).collect();
    for key in keys {
        browser.until("it is shown", &format!("!!{}", row("locks", key)));
        let shown = browser.text(&format!("{}.cells[0].textContent", row("locks", key)));
        assert_eq!(shown, key);
    }
    assert_eq!(browser.text("document.title"), "distlock");
    assert_eq!(browser.eval("document.querySelectorAll('main img, main script').length"), 0);
    drop(guards);
}

#[test]
fn a_lock_is_released_with_the_token_and_after_a_question() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &["--token", TOKEN]);
    let browser = Browser::start();
    browser.go(&page.url);
    let manager = LockManager::connect(store.url()).unwrap();
    let guard = manager.lock("stuck").label("a stuck job").acquire().unwrap();
    let locks = row("locks", "stuck");
    browser.until("there is a button", &format!("!!{locks}?.querySelector('button')"));
    assert!(!browser.text("window.location.href").contains(TOKEN), "it does not stay in the address");
    browser.eval(&format!("void window.setTimeout(() => {locks}.querySelector('button').click())"));
    let mut question = String::new();
    eventually_blocking("the page asks", || {
        question = browser.accept_question().unwrap_or_default();
        !question.is_empty()
    });
    assert!(question.contains("stuck") && question.contains("middle of its work"), "{question}");
    eventually_blocking("it is lost", || !guard.is_held());
    browser.until(
        "the page says it",
        &format!("!!{}?.textContent.includes('taken away')", row("losses", "stuck")),
    );
    let next = manager.lock("stuck").acquire().unwrap();
    browser.until("the next one is shown", &format!("!!{locks}"));
    drop(next);
}

/// Nothing is cut off, wide or narrow, light or dark. Pictures are kept where `DISTLOCK_WEB_PICTURES` says.
#[test]
fn it_fits_wide_and_narrow_windows_light_and_dark() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let browser = Browser::start();
    browser.go(&page.url);
    let manager = LockManager::connect(store.url()).unwrap();
    let _export = manager.lock("export:2026-11-22").label("export:<day>").acquire().unwrap();
    let _readers = manager.lock("catalogue").shared().label("read catalogue").acquire().unwrap();
    let _slots = manager.lock("mail-slots").max_holders(3).label("send mail").acquire().unwrap();
    let dead = run(&store, "import:customers", "importer-1");
    let import = row("locks", "import:customers");
    browser.until("it is shown", &format!("!!{import}"));
    drop(dead);
    browser.until("a loss is shown", &format!("!!{}", row("losses", "import:customers")));
    let _holder = run(&store, "order:1042", "checkout-7");
    let order = row("locks", "order:1042");
    browser.until("it is shown", &format!("!!{order}"));
    let _waiters = [run(&store, "order:1042", "checkout-2"), run(&store, "order:1042", "checkout-5")];
    browser.until(
        "both wait",
        &format!("{order}?.textContent.includes('checkout-2') && {order}.textContent.includes('checkout-5')"),
    );
    let mut backgrounds = Vec::new();
    for (name, width, height) in [("wide", 1280, 800), ("narrow", 390, 1400)] {
        for scheme in ["light", "dark"] {
            browser.look(width, height, scheme);
            let overflow = browser.eval("document.documentElement.scrollWidth - window.innerWidth");
            assert!(
                overflow.as_i64().is_some_and(|pixels| pixels <= 0),
                "{name}: {overflow} pixels too wide"
            );
            backgrounds.push(browser.text("getComputedStyle(document.body).backgroundColor"));
            let picture = browser.picture();
            assert!(picture.starts_with(b"\x89PNG"), "a picture");
            if let Ok(directory) = std::env::var("DISTLOCK_WEB_PICTURES") {
                std::fs::write(format!("{directory}/{name}-{scheme}.png"), picture).unwrap();
            }
        }
    }
    assert_ne!(backgrounds[0], backgrounds[1], "dark is dark");
}
