//! Independent servers that share the keys.

use std::sync::Arc;
use std::time::Duration;

use super::test_operations::AnyOp;
use super::test_server::{LONG, Rig, Seen, TestServer, block_on, wait_until};
use super::{ClusterBackend, RedisConfig};
use crate::backend::{
    AcquireMode, AcquireReply, Backend, EarlierCommands, Failure, LinkEvent, LockKind, Notifications, Push,
    ReleaseReply, RenewReply, Token, op,
};

const TTL: Duration = Duration::from_secs(60);
const LIST: &str = "dl1:shards";

fn set(token: u64) -> op::TryAcquire {
    op::TryAcquire { token: Token(token), ttl: TTL }
}

fn enter(token: u64) -> op::Acquire {
    let (kind, claim) = (LockKind::Exclusive, Duration::from_secs(3));
    op::Acquire { token: Token(token), kind, ttl: TTL, claim, mode: AcquireMode::Wait, fences: 1 }
}

fn leave(token: u64) -> op::Release {
    op::Release::new(Token(token), op::Ends::ExclusiveLease)
}

fn start(count: usize) -> Vec<TestServer> {
    (0..count).map(|_| TestServer::start(&[])).collect()
}

fn url<'a>(servers: impl IntoIterator<Item = &'a TestServer>) -> String {
    let hosts: Vec<_> = servers.into_iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    format!("sharded+redis://{}", hosts.join(","))
}

fn begin(url: &str, client: &str) -> Rig<ClusterBackend> {
    Rig::run(ClusterBackend::new(RedisConfig::new(url, client).unwrap()).unwrap())
}

fn up(url: &str, client: &str) -> Rig<ClusterBackend> {
    let rig = begin(url, client);
    assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    rig
}

/// The list on each of the servers.
fn lists(servers: &[TestServer]) -> Vec<Option<String>> {
    servers.iter().map(|server| server.get(LIST)).collect()
}

/// A key that is kept on the server at `at`, whether or not the others are up.
fn key_at(rig: &Rig<ClusterBackend>, servers: &[TestServer], at: usize) -> String {
    let is_there = |key: &String| {
        let found = rig.send(key, set(999)).is_ok() && servers[at].exists(key);
        // No key of a server that is down was acquired.
        drop(rig.send(key, leave(999)));
        found
    };
    (0..).map(|number| format!("k{number}")).find(is_there).unwrap()
}

#[test]
fn each_server_has_its_share_and_pushes_from_all_of_them_arrive() {
    let servers = start(3);
    let mut reversed: Vec<_> = servers.iter().collect();
    reversed.reverse();
    // The order of the list does not matter.
    let (a, b) = (up(&url(&servers), "a"), up(&url(reversed), "b"));
    let mut homes = vec![0; 3];
    for number in 0..30 {
        let key = format!("k{number}");
        let AcquireReply::Acquired { fence: Some(first), .. } = a.send(&key, enter(1)).unwrap() else {
            panic!("{key}")
        };
        assert!(matches!(b.send(&key, enter(2)), Ok(AcquireReply::Busy { front: true, .. })));
        let home = servers.iter().position(|server| server.exists(&key)).unwrap();
        homes[home] += 1;
        // The names are those of a single server.
        let queue = format!("dl1:q:{key}");
        assert_eq!(servers.iter().position(|server| server.exists(&queue)), Some(home));
        let seen = block_on(b.backend.inspect(&Arc::from(&*key))).unwrap().unwrap();
        assert_eq!((seen.first_holder(), seen.waiters), ("dl1:a:1", 1));
        assert_eq!(a.send(&key, leave(1)).unwrap(), ReleaseReply::Released { gap: false });
        match b.wait_for_push() {
            Push::Grant { key: granted, token: Token(2), fence: Some(second), .. } => {
                assert_eq!(*granted, key);
                assert!(second > first);
            }
            other => panic!("{other:?}"),
        }
        assert!(block_on(a.backend.force_release(&Arc::from(&*key))).unwrap());
    }
    assert!(homes.iter().all(|keys| *keys > 0), "{homes:?}");
    a.has_one_link();
    let batch = (0..60).map(|number| (Arc::from(format!("k{number}")), AnyOp::from(set(number)))).collect();
    assert!(block_on(a.backend.send_batch(batch)).iter().all(Result::is_ok));
    let page = block_on(b.backend.list("k", None)).unwrap();
    assert_eq!(page.keys.len(), 60, "{page:?}");
    // Keys with one hash tag are on one server. One command acquires them, and all other keys of that server.
    let tagged: Vec<Arc<str>> = (0..5).map(|number| Arc::from(format!("{{order}}:{number}"))).collect();
    assert_eq!(a.backend.acquires_all(&tagged), 5);
    let (here, there) = (key_at(&a, &servers, 0), key_at(&a, &servers, 1));
    let across = [Arc::from(&*here), Arc::from(format!("{{{here}}}")), Arc::from(there)];
    assert_eq!(a.backend.acquires_all(&across), 2);
}

#[test]
fn a_client_with_another_list_is_refused_everywhere_until_the_list_is_deleted() {
    let servers = start(3);
    let a = up(&url(&servers[..2]), "a");
    assert_eq!(lists(&servers)[2], None);
    let b = begin(&url(&servers), "b");
    let cause = b.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused, "{cause}");
    let [one, two, three] = [0, 1, 2].map(|at: usize| format!("127.0.0.1:{}", servers[at].port));
    let sorted = |names: &[&String]| {
        let mut names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
        names.sort_unstable();
        names.join(",")
    };
    for part in [&*sorted(&[&one, &two]), &*sorted(&[&one, &two, &three]), "delete the key `dl1:shards`"] {
        assert!(cause.to_string().contains(part), "{part} in {cause}");
    }
    // Neither the new server nor another one is used.
    for number in 0..20 {
        assert_eq!(b.send(&format!("k{number}"), set(1)).unwrap_err().kind, Failure::NotSent);
    }
    assert_eq!(servers[2].get(LIST), Some(format!("?{}", sorted(&[&one, &two, &three]))), "not agreed upon");
    assert!(a.send("k", set(1)).is_ok());
    // The steps of docs/redis.md: all clients are stopped, and the key is deleted on every server.
    drop(a);
    servers.iter().for_each(|server| server.run::<()>("DEL dl1:shards"));
    b.wait_until_up();
    assert!(b.send("other", set(2)).is_ok());
    let agreed = Some(sorted(&[&one, &two, &three]));
    wait_until("the list is agreed upon", LONG, || lists(&servers).iter().all(|list| *list == agreed));
}

#[test]
fn a_client_that_finds_another_list_later_gives_up_all_servers() {
    let servers = start(2);
    let a = up(&url(&servers), "a");
    let (elsewhere, key) = (key_at(&a, &servers, 0), key_at(&a, &servers, 1));
    servers[0].run::<()>("SET dl1:shards other:6379");
    a.send(&key, set(1)).unwrap();
    servers[0].run::<()>("CLIENT KILL TYPE normal");
    let cause = a.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused, "{cause}");
    assert_eq!(a.send(&key, leave(1)).unwrap_err().kind, Failure::NotSent);
    servers[0].run::<()>("DEL dl1:shards");
    a.wait_until_up();
    // Any other refusal concerns its server alone.
    servers[0].run_words::<()>(&["ACL", "SETUSER", "default", "-set"]);
    servers[0].run::<()>("DEL dl1:shards");
    servers[0].run::<()>("CLIENT KILL TYPE normal");
    wait_until("that server is not used", LONG, || {
        let error = a.send(&elsewhere, set(2)).err();
        error.is_some_and(|error| error.kind == Failure::NotSent && error.to_string().contains("`+evalsha"))
    });
    assert!(matches!(a.send(&key, leave(1)), Ok(ReleaseReply::Released { .. })));
}

#[test]
fn a_server_that_is_not_admitted_at_first_still_reports_that_earlier_commands_may_arrive() {
    let servers = start(2);
    // The client cannot end the commands of its former links.
    servers[0].run_words::<()>(&["ACL", "SETUSER", "default", "-client|info"]);
    let a = up(&url(&servers), "a");
    let key = key_at(&a, &servers, 0);
    servers[0].run_words::<()>(&["ACL", "SETUSER", "default", "-set"]);
    servers[0].run::<()>("DEL dl1:shards");
    servers[0].run::<()>("CLIENT KILL TYPE normal");
    wait_until("an attempt is refused after its handshake", LONG, || {
        a.send(&key, leave(1)).is_err_and(|error| error.to_string().contains("`+evalsha"))
    });
    servers[0].run_words::<()>(&["ACL", "SETUSER", "default", "+set"]);
    assert_eq!(a.wait_until_up().0, EarlierCommands::MayArrive);
}

#[test]
fn a_new_list_is_used_once_every_server_has_it_and_then_without_one_of_them() {
    let mut servers = start(3);
    let address = url(&servers);
    servers[2].kill();
    let a = begin(&address, "a");
    let cause = a.wait_for_down();
    assert_eq!(cause.kind, Failure::NotSent, "{cause}");
    servers[2].start_again();
    a.wait_until_up();
    let agreed = lists(&servers)[0].clone().unwrap();
    assert!(!agreed.starts_with('?'), "{agreed}");
    let lost = key_at(&a, &servers, 2);
    servers[2].kill();
    let b = begin(&address, "b");
    b.wait_until_up();
    let other = key_at(&b, &servers, 0);
    b.send(&other, set(1)).unwrap();
    assert_eq!(b.send(&lost, set(2)).unwrap_err().kind, Failure::NotSent);
    // A server that comes back without data gets the list.
    servers[2].start_again();
    wait_until("the list is there again", LONG, || servers[2].get(LIST).as_ref() == Some(&agreed));
    wait_until("its keys are served", LONG, || b.send(&lost, set(3)).is_ok());
    assert!(matches!(b.send(&other, leave(1)), Ok(ReleaseReply::Released { .. })));
}

#[test]
fn a_server_that_is_gone_disturbs_neither_locks_nor_pushes_of_the_others() {
    let mut servers = start(3);
    let (a, b) = (up(&url(&servers), "a"), up(&url(&servers), "b"));
    let (lost, other) = (key_at(&a, &servers, 1), key_at(&a, &servers, 2));
    a.send(&other, enter(1)).unwrap();
    b.send(&other, enter(2)).unwrap();
    servers[1].kill();
    wait_until("the link is lost", LONG, || {
        a.send(&lost, set(3)).is_err_and(|error| error.kind == Failure::NotSent)
    });
    let renew = op::Renew { token: Token(1), kind: LockKind::Exclusive, ttl: TTL, last: false };
    assert!(matches!(a.send(&other, renew), Ok(RenewReply::Renewed { .. })));
    a.send(&other, leave(1)).unwrap();
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    servers[1].start_again();
    for rig in [&a, &b] {
        assert_eq!(rig.wait_until_up(), (EarlierCommands::Ended, Notifications::On));
    }
    for rig in [&a, &b] {
        let downs =
            rig.seen().iter().filter(|seen| matches!(seen, Seen::Link(LinkEvent::Down { .. }))).count();
        assert_eq!(downs, 0, "one server's loss is not that of all");
    }
    // A grant of the server that came back is heard.
    a.send(&lost, enter(4)).unwrap();
    b.send(&lost, enter(5)).unwrap();
    a.send(&lost, leave(4)).unwrap();
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(5), .. }));
}

#[test]
fn a_node_of_a_cluster_is_no_independent_server() {
    let node = TestServer::start(&["--cluster-enabled", "yes"]);
    let rig = begin(&url([&node]), "a");
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused, "{cause}");
    assert!(cause.to_string().contains("`redis+cluster://`"), "{cause}");
}
