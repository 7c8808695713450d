//! What is written is read, and nothing else.

use distlock_store::engine::{LONGEST_NAME, Met};

use super::*;

const ODD: [&str; 8] = ["order:42", "a b", "line\nend", "100%", "%", "", "\u{e4}\u{1f512}", "-"];

fn accounts() -> Vec<Account> {
    let label = String::from;
    let (since, left) = (Duration::from_millis(1_500), Duration::from_secs(28));
    let each = ODD.iter().enumerate().map(|(at, key)| {
        let hold = HoldAccount {
            token: Token(7),
            kind: [Kind::Exclusive, Kind::Shared, Kind::Limited(3)][at % 3],
            users: 2,
            label: label(ODD[(at + 1) % ODD.len()]),
            since,
            left,
        };
        let wait = WaitAccount {
            token: (at % 2 == 0).then_some(Token(9)),
            kind: Kind::Exclusive,
            requests: 12,
            label: label("nightly report"),
            since,
            behind: Some(ODD[(at + 2) % ODD.len()].into()),
        };
        Account {
            key: (*key).into(),
            holds: if at == 3 { Vec::new() } else { vec![hold.clone(), hold] },
            wait: (at != 5).then_some(wait),
        }
    });
    each.collect()
}

#[test]
fn what_is_written_is_read_whatever_the_keys_contain() {
    let who = Who {
        host: Some("web 1".into()),
        pid: Some(4711),
        program: Some("-".into()),
        version: None,
        met: Some(Met { busy: 3, lost: 1 }),
    };
    let mut text = Answer::begin("checkout.0a", 5, &who);
    for account in accounts() {
        assert_eq!(text.add(&account, usize::MAX), Room::Enough);
    }
    let answer =
        Answer { client: "checkout.0a".into(), number: 5, rest: Rest::More, who, accounts: accounts() };
    assert_eq!(Message::read(&text.end(Rest::More)), Some(Message::Answer(answer)));
}

#[test]
fn questions_are_read_as_they_were_written() {
    for key in ODD {
        let list = |after: Option<&str>| About::List {
            pattern: Pattern::read(key).unwrap(),
            after: after.map(Arc::from),
        };
        for about in [About::Key(key.into()), list(None), list(Some(key))] {
            let question = Question { asker: "a.1".into(), number: 3, room: 4096, about };
            assert_eq!(Message::read(&question.to_string()), Some(Message::Question(question)));
        }
    }
}

#[test]
fn an_account_that_has_no_room_is_left_out() {
    let all = accounts();
    let mut text = Answer::begin("c", 1, &Who::default());
    let released = Account { holds: Vec::new(), wait: None, ..all[2].clone() };
    assert_eq!((text.add(&released, 10), text.tells()), (Room::Enough, false));
    assert_eq!(text.add(&all[0], 10), Room::Enough, "else there would be no end");
    assert_eq!((text.add(&all[1], 10), text.tells()), (Room::Full, true));
    let Some(Message::Answer(answer)) = Message::read(&text.end(Rest::End)) else { panic!("an answer") };
    assert_eq!((answer.accounts, answer.rest), (vec![all[0].clone()], Rest::End));
}

#[test]
fn what_a_later_version_adds_is_ignored_and_what_is_garbled_is_nothing() {
    let text = "a c 1 e later\nc host 1 prog 0.1 later\nz later\nh k dl1:x 7 1 5 6 label later";
    let Some(Message::Answer(answer)) = Message::read(text) else { panic!("an answer") };
    assert_eq!(answer.accounts.len(), 1);
    assert!(Message::read("i a 1 100 k key later").is_some());
    for odd in [
        "",
        "i",
        "i a",
        "i a x 1 k k",
        "i a 1 1 z k",
        "i a 1 1 k %G1",
        "i a 1 1 k %C3",
        "a c 1",
        "q 1",
        "a c 1 e\nh k dl1:x x 1 5 6 l",
        "a c 1 e\nh k",
        "i a 1 1 k %\u{e4}",
    ] {
        assert_eq!(Message::read(odd), None, "{odd}");
    }
}

#[test]
fn a_long_label_is_cut_between_two_characters() {
    let cut = |label: &str| cut(label, LONGEST_LABEL).len();
    assert_eq!(cut("short"), 5);
    let long = "\u{e4}".repeat(LONGEST_LABEL);
    assert_eq!(cut(&long), LONGEST_LABEL);
    assert_eq!(cut(&format!("x{long}")), LONGEST_LABEL - 1);
}

/// Whatever another client sends: nothing that is too long is believed, and so nothing of it can be kept.
#[test]
fn a_field_that_is_too_long_makes_no_message() {
    let long = |bytes: usize| "x".repeat(bytes);
    let messages = |field: &dyn Fn(usize) -> String| {
        [
            (LONGEST_CLIENT, format!("i {} 1 100 k key", field(LONGEST_CLIENT))),
            (LONGEST_KEY, format!("i a 1 100 k {}", field(LONGEST_KEY))),
            (LONGEST_PATTERN, format!("i a 1 100 l {}", field(LONGEST_PATTERN))),
            (LONGEST_KEY, format!("i a 1 100 l * {}", field(LONGEST_KEY))),
            (LONGEST_CLIENT, format!("a {} 1 e", field(LONGEST_CLIENT))),
            (LONGEST_NAME, format!("a c 1 e\nc {} 1 prog 0.1", field(LONGEST_NAME))),
            (LONGEST_NAME, format!("a c 1 e\nc host 1 {} 0.1", field(LONGEST_NAME))),
            (LONGEST_NAME, format!("a c 1 e\nc host 1 prog {}", field(LONGEST_NAME))),
            (LONGEST_KEY, format!("a c 1 e\nh {} dl1:x 7 1 5 6 l", field(LONGEST_KEY))),
            (LONGEST_LABEL, format!("a c 1 e\nh k dl1:x 7 1 5 6 {}", field(LONGEST_LABEL))),
            (LONGEST_KEY, format!("a c 1 e\nw {} dl1:x 7 1 5 - l", field(LONGEST_KEY))),
            (LONGEST_OWNER, format!("a c 1 e\nw k dl1:x 7 1 5 {} l", field(LONGEST_OWNER))),
            (LONGEST_LABEL, format!("a c 1 e\nw k dl1:x 7 1 5 - {}", field(LONGEST_LABEL))),
        ]
    };
    for (longest, message) in messages(&|longest| long(longest)) {
        assert!(Message::read(&message).is_some(), "{longest}: {message}");
    }
    for (longest, message) in messages(&|longest| long(longest + 1)) {
        assert_eq!(Message::read(&message), None, "{longest}: {message}");
    }
    let lines = "\nh k dl1:x 7 1 5 6 l".repeat(LONGEST_MESSAGE / 20);
    assert_eq!(Message::read(&format!("a c 1 e{lines}")), None);
}

/// However long the fields are that an account has, and however many leases.
#[test]
fn what_is_written_is_never_too_long_to_be_read() {
    let odd = |bytes: usize| "%".repeat(bytes);
    let hold = HoldAccount {
        token: Token(u64::MAX),
        kind: Kind::Limited(u32::MAX),
        users: u64::MAX,
        label: odd(10_000),
        since: Duration::from_millis(u64::MAX),
        left: Duration::from_millis(u64::MAX),
    };
    let wait = WaitAccount {
        token: Some(Token(u64::MAX)),
        kind: Kind::Limited(u32::MAX),
        requests: u64::MAX,
        label: odd(10_000),
        since: Duration::from_millis(u64::MAX),
        behind: Some(odd(10_000).into()),
    };
    let key = odd(LONGEST_KEY).into();
    let account = Account { key, holds: vec![hold; 1_000], wait: Some(wait) };
    let name = Some(odd(10_000));
    let (host, program, version) = (name.clone(), name.clone(), name);
    let who = Who { host, pid: Some(u32::MAX), program, version, met: None };
    let mut text = Answer::begin(&odd(LONGEST_CLIENT), u64::MAX, &who);
    assert_eq!(text.add(&account, MOST_LINES), Room::Enough);
    let Some(Message::Answer(answer)) = Message::read(&text.end(Rest::End)) else { panic!("an answer") };
    assert!(answer.accounts[0].holds.len() > 10 && answer.accounts[0].wait.is_some());
}
