//! The connection for pushes.

use super::{busy, enter, leave, with_user};

use crate::backend::redis::RedisConfig;
use crate::backend::redis::test_server::{Rig, Seen, TestServer};
use crate::backend::{AcquireMode, EarlierCommands, LinkEvent, Notifications, Push, Token};

fn is_pushes(seen: &Seen, wanted: Notifications) -> Option<()> {
    matches!(seen, Seen::Link(LinkEvent::Notifications(now)) if *now == wanted).then_some(())
}

fn grant_arrives(server: &TestServer, rig: &Rig) {
    server.run::<()>("SET k dl1:x:1 PX 10000");
    let holder = Rig::up(server, "x");
    busy(rig.send("k", enter(7, AcquireMode::Wait)));
    holder.send("k", leave(1)).unwrap();
    assert!(matches!(rig.wait_for_push(), Push::Grant { token: Token(7), .. }));
    rig.send("k", leave(7)).unwrap();
}

#[test]
fn pushes_are_there_with_the_first_up_and_come_over_resp3() {
    let server = TestServer::start(&[]);
    let rig = Rig::start(RedisConfig::new(&server.url(), "a").unwrap());
    assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    assert_eq!(server.client_ids(|line| line.contains("sub=1") && line.contains("resp=3")).len(), 1);
    grant_arrives(&server, &rig);
}

#[test]
fn where_hello_is_forbidden_pushes_come_over_resp2() {
    let server = TestServer::start(&[]);
    let url = with_user(&server, "old", "~* &* +@all -hello");
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    grant_arrives(&server, &rig);
}

#[test]
fn a_killed_push_connection_is_reported_and_made_again() {
    for (name, rules) in [("three", "~* &* +@all"), ("two", "~* &* +@all -hello")] {
        let server = TestServer::start(&[]);
        let url = with_user(&server, name, rules);
        let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
        rig.wait_until_up();
        let ids = server.client_ids(|line| line.contains("sub=1"));
        server.run_words::<()>(&["CLIENT", "KILL", "ID", &ids[0]]);
        rig.wait_for("Pushes(Off)", |seen| is_pushes(seen, Notifications::Off));
        rig.wait_for("Pushes(On)", |seen| is_pushes(seen, Notifications::On));
        grant_arrives(&server, &rig);
    }
}
