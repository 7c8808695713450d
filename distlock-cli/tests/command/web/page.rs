//! The page in a browser.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use distlock::blocking::LockManager;
use distlock_fixtures::{eventually_blocking, wait_until};
use distlock_tests::{BOUND, RedisServer};

use crate::web::browser::Browser;
use crate::web::server::{Killed, Page, SHORT_TTL, TOKEN, distlock};

/// The row of a key, in the table of that id.
fn row(table: &str, key: &str) -> String {
    let key = serde_json::to_string(key).unwrap();
    format!("[...document.querySelectorAll('#{table} tr')].find((row) => row.dataset.key === {key})")
}

/// `distlock run` that holds the key or waits for it.
fn run(store: &RedisServer, key: &str, name: &str) -> Killed {
    let arguments =
        ["--name", name, "run", "--key", key, "--ttl", "3s", "--kill-after", "100ms", "--wait", "forever"];
    let mut command = distlock(store, &arguments);
    let child: Child = command.args(["--", "sleep", "600"]).stdout(Stdio::null()).spawn().expect("it starts");
    Killed(child)
}

/// Keeps the keys of each event that the page gets from now on.
const KEEP_EVENTS: &str = "(() => { const parse = JSON.parse; window.told = []; JSON.parse = (...all) => { const value = parse(...all); if (value?.locks) window.told.push(value.locks.map((lock) => lock.key)); return value; }; })()";

/// The server looks twice a second. The machine may be so slow that a look takes longer, so the looks are counted.
#[test]
fn a_lock_that_is_taken_elsewhere_is_shown_after_the_next_look() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let browser = Browser::start();
    browser.go(&page.url);
    browser.eval(KEEP_EVENTS);
    let count = || browser.eval("window.told.length").as_i64().unwrap();
    eventually_blocking("the page is told", || count() > 0);
    let manager = LockManager::connect(store.url()).unwrap();
    let shown = (0..5).map(|number| {
        let key = format!("order:{number}");
        let (guard, begin) = (manager.lock(key.as_str()).acquire().unwrap(), Instant::now());
        let before = count();
        browser.until("it is shown", &format!("!!{}", row("locks", &key)));
        let shown = begin.elapsed();
        let quoted = serde_json::to_string(&key).unwrap();
        let without = format!("window.told.slice({before}).findIndex((keys) => keys.includes({quoted}))");
        let without = browser.eval(&without).as_i64().unwrap();
        // One look may have been on its way to the page, and another one in progress.
        assert!(without <= 2, "{key} is missing in {without} events");
        guard.release().unwrap();
        browser.until("it is not shown any more", &format!("!{}", row("locks", &key)));
        shown
    });
    let best = shown.min().unwrap();
    assert!(best < Duration::from_secs(20), "{best:?}");
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
    // Its guardian ends the command, and the lease is no longer renewed.
    holder.0.kill().unwrap();
    holder.0.wait().unwrap();
    browser.until("the loss is shown", &format!("!!{losses}?.textContent.includes('the-holder')"));
    assert!(browser.text(&format!("{losses}.textContent")).contains("without a renewal"));
    let next = format!("{locks}?.querySelector('[data-name=Holder]').textContent.includes('the-waiter')");
    browser.until("the next one holds it", &next);
    assert_eq!(browser.text("document.getElementById('lost').textContent"), "1");
    drop(waiter);
}

/// The counters of the clients. This process is one of them.
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
    // From now on, nothing happens.
    wait_until("quiet", BOUND * 4, || figure("busy-rate") == "0.0" && figure("lost-rate") == "0.0");
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
    // Its label is written when it is renewed.
    let guard = manager.lock("stuck").label("a stuck job").ttl(SHORT_TTL).acquire().unwrap();
    let locks = row("locks", "stuck");
    browser.until("it is labelled", &format!("!!{locks}?.textContent.includes('a stuck job')"));
    assert!(!browser.text("window.location.href").contains(TOKEN), "it does not stay in the address");
    browser.look(1280, 800, "light");
    assert_eq!(browser.eval(&format!("{locks}.querySelector('button').offsetHeight < 40")), true, "one line");
    browser.eval(&format!("{locks}.querySelector('button').click()"));
    browser.until("the page asks", "document.getElementById('ask').open");
    let question = browser.text("document.getElementById('ask').textContent");
    for part in ["stuck", "middle of its work", "a stuck job", &guard.owner()] {
        assert!(question.contains(part), "{part}: {question}");
    }
    assert!(guard.is_held());
    browser.eval("document.getElementById('ask-yes').click()");
    eventually_blocking("it is lost", || !guard.is_held());
    browser.until(
        "the page says it",
        &format!("!!{}?.textContent.includes('released by')", row("losses", "stuck")),
    );
    browser.until("it is gone, although its button had the focus", &format!("!{locks}"));
    browser.until("it is counted", "document.getElementById('held').textContent === '0'");
    let next = manager.lock("stuck").acquire().unwrap();
    browser.until("the next one is shown", &format!("!!{locks}"));
    // An open question notices that its lock has another holder, and the focus stays.
    browser.eval(&format!("{locks}.querySelector('button').focus()"));
    browser.eval(&format!("{locks}.querySelector('button').click()"));
    drop(next);
    let after = manager.lock("stuck").acquire().unwrap();
    browser.until("the answer is not possible any more", "document.getElementById('ask-yes').disabled");
    assert_eq!(browser.eval("document.getElementById('ask').open"), true);
    browser.eval("document.getElementById('ask-no').click()");
    browser.until(
        "the button has the focus again",
        &format!("document.activeElement === {locks}.querySelector('button')"),
    );
    drop(after);
}

/// The next look does not disturb a user who copies a key or has focused a button.
#[test]
fn a_selection_and_the_focus_survive_what_comes_and_goes() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &["--token", TOKEN]);
    let browser = Browser::start();
    browser.go(&page.url);
    let manager = LockManager::connect(store.url()).unwrap();
    let hold = |key: &str| manager.lock(key.to_owned()).acquire().unwrap();
    let _middle = hold("m");
    let row_of_m = row("locks", "m");
    browser.until("it is shown", &format!("!!{row_of_m}?.querySelector('button')"));
    browser.eval(&format!("(() => {{ getSelection().selectAllChildren({row_of_m}.cells[0]); {row_of_m}.querySelector('button').focus(); }})()"));
    let held_for = format!("{row_of_m}.querySelector('.number').textContent");
    let before = browser.text(&held_for);
    let (first, _last) = (hold("a"), hold("z"));
    browser.until("others are shown", &format!("!!{} && !!{}", row("locks", "a"), row("locks", "z")));
    drop(first);
    browser.until("one is gone", &format!("!{}", row("locks", "a")));
    browser.until("the times go on", &format!("{held_for} !== '{before}'"));
    assert_eq!(browser.text("getSelection().toString()"), "m");
    assert_eq!(browser.text("document.activeElement.textContent"), "Release");
    let order = "[...document.querySelectorAll('#locks tr')].map((row) => row.dataset.key).join()";
    assert_eq!(browser.text(order), "m,z");
}

/// The last known data stays, greyed. No part of the page claims that all is well.
#[test]
fn while_the_store_is_down_the_page_says_so_and_shows_what_it_knew() {
    let mut store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let browser = Browser::start();
    browser.go(&page.url);
    let none = "document.getElementById('none').textContent";
    browser.until("nothing is held", &format!("{none} === 'No lock is held or awaited.'"));
    let holder = run(&store, "order:1", "a-holder");
    let order = row("locks", "order:1");
    browser.until("it is shown", &format!("!!{order}"));
    let state = "document.getElementById('state')";
    store.kill9();
    browser.until("it is noticed", &format!("{state}.textContent.startsWith('store unreachable since ')"));
    assert_eq!(browser.text(&format!("{state}.className")), "bad");
    assert!(browser.text("document.title").starts_with("⚠ store unreachable since "));
    let trouble = browser.text("document.getElementById('trouble').textContent");
    assert!(trouble.contains("been unreachable") && trouble.contains("was seen at "), "{trouble}");
    assert_eq!(browser.eval(&format!("!!{order} && document.body.className === 'stale'")), true);
    let figures = "[...document.querySelectorAll('dd')].every((figure) => figure.textContent === '–')";
    assert_eq!(browser.eval(figures), true);
    // The page does not claim that a key that was not listed is free.
    browser.eval("(() => { const f = document.getElementById('filter'); f.value = 'x'; f.dispatchEvent(new Event('input')); })()");
    browser.until("it is careful", &format!("{none}.startsWith('No lock was seen at ')"));
    browser.eval("(() => { const f = document.getElementById('filter'); f.value = ''; f.dispatchEvent(new Event('input')); })()");
    drop(holder);
    store.restart();
    browser.until(
        "it is live again",
        // The lock is lost, if its lease has ended by now.
        &format!("{state}.textContent === 'live' && !document.title.includes('unreachable')"),
    );
    drop(page);
    browser.until(
        "its own server is gone",
        &format!("{state}.textContent.startsWith('page server unreachable since ')"),
    );
    let trouble = browser.text("document.getElementById('trouble').textContent");
    assert!(trouble.contains("`distlock web`"), "{trouble}");
    assert_eq!(browser.text("document.getElementById('held').textContent"), "–");
}

/// A process with very many locks dies. All of them are counted while their leases last, and as lost when they end.
#[test]
fn all_locks_of_a_process_that_died_are_counted() {
    const COUNT: usize = 300;
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let browser = Browser::start();
    browser.go(&page.url);
    let figure = |id: &str| browser.text(&format!("document.getElementById('{id}').textContent"));
    // It holds them in one request.
    let keys: Vec<String> = (0..COUNT).map(|number| format!("k{number:03}")).collect();
    let mut arguments = vec!["--name", "it-dies", "run", "--ttl", "10m", "--kill-after", "100ms"];
    arguments.extend(keys.iter().flat_map(|key| ["--key", key]));
    let mut command = distlock(&store, &arguments);
    let mut holder = Killed(command.args(["--", "sleep", "600"]).spawn().unwrap());
    wait_until("all are held", BOUND * 4, || figure("held") == COUNT.to_string());
    holder.0.kill().unwrap();
    holder.0.wait().unwrap();
    // Instead of the 15 s after which a client counts as silent.
    let records: Vec<String> = store.run_words(&["KEYS", "dl1:i:it-dies.*"]);
    store.raw(&["DEL", &records[0]]);
    wait_until("all are silent", BOUND * 4, || figure("silent") == COUNT.to_string());
    assert!(browser.text("document.getElementById('note').textContent").contains("no sign of life"));
    assert!(browser.text("document.title").ends_with("silent · distlock"));
    // So that the test does not wait for the rest of ten minutes.
    for key in &keys {
        store.raw(&["PEXPIRE", key, "10000"]);
    }
    wait_until("all are lost", BOUND * 4, || figure("lost") == COUNT.to_string());
    wait_until("none is left", BOUND * 4, || figure("held") == "0" && figure("silent") == "0");
}

/// No text is cut off in wide and narrow, light and dark windows. Pictures are stored in the folder that
/// `DISTLOCK_WEB_PICTURES` names.
#[test]
fn it_fits_wide_and_narrow_windows_light_and_dark() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let browser = Browser::start();
    browser.go(&page.url);
    let manager = LockManager::connect(store.url()).unwrap();
    let _export = manager.lock("export:2026-11-22").label("export:<day>").acquire().unwrap();
    let _readers = manager.lock("catalogue").shared().label("read catalogue").acquire().unwrap();
    let others = LockManager::connect(store.url()).unwrap();
    let _other = others.lock("catalogue").shared().label("read catalogue").acquire().unwrap();
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
            let isolated = "[...document.querySelectorAll('.who, .key')].every((one) => getComputedStyle(one).unicodeBidi === 'isolate')";
            assert_eq!(browser.eval(isolated), true, "no name turns what stands beside it");
            if name == "wide" {
                let top = "querySelector('.number').getBoundingClientRect().top";
                let in_line = format!(
                    "[...document.querySelectorAll('div.holder:has(.who)')].every((one) => Math.abs(one.{top} - one.getBoundingClientRect().top) < 4)"
                );
                assert_eq!(browser.eval(&in_line), true, "each holder's times stand beside it");
            }
            let picture = browser.picture();
            assert!(picture.starts_with(b"\x89PNG"), "a picture");
            if let Ok(directory) = std::env::var("DISTLOCK_WEB_PICTURES") {
                std::fs::write(format!("{directory}/{name}-{scheme}.png"), picture).unwrap();
            }
        }
    }
    assert_ne!(backgrounds[0], backgrounds[1], "dark is dark");
}
