//! Tests of TLS with a real server, a separate authority and its certificates.

use std::time::Duration;

use super::test_cluster::{Cluster, MASTERS, REPLICA};
use super::test_operations::SendTo;
use super::test_sentinels::Guarded;
use super::test_server::{LONG, Rig, wait_until};
use super::test_tls_files::TlsFiles;
use super::url::{RedisUrl, Transport};
use super::{ClusterBackend, RedisConfig};
use crate::backend::{
    AcquireMode, AcquireReply, Backend, EarlierCommands, Failure, LockKind, Push, RenewReply, Token, op,
};
use distlock_store::kit::connection::{ConnectionOptions, Roots, TlsOptions};

/// Longer than any fail-over takes here.
const TTL: Duration = Duration::from_secs(60);

fn rig(url: &str, client: &str) -> Rig {
    Rig::start(RedisConfig::new(url, client).unwrap())
}

/// Sends until there is a reply.
fn persist<B: Backend, O: SendTo<B> + Copy>(rig: &Rig<B>, key: &str, op: &O) -> O::Reply {
    let mut reply = None;
    wait_until("a reply", LONG, || {
        reply = rig.send(key, *op).ok();
        reply.is_some()
    });
    reply.unwrap()
}

fn waiting(token: u64) -> op::Acquire {
    op::Acquire {
        token: Token(token),
        kind: LockKind::Exclusive,
        ttl: TTL,
        claim: Duration::from_secs(3),
        mode: AcquireMode::Wait,
        fences: 0,
    }
}

fn leaving(token: u64) -> op::Release {
    op::Release::new(Token(token), op::Ends::ExclusiveLease)
}

fn renewing(token: u64) -> op::Renew {
    op::Renew { token: Token(token), kind: LockKind::Exclusive, ttl: TTL, last: false }
}

#[test]
fn with_an_authority_and_a_certificate_of_our_own_locks_and_pushes_work() {
    let tls_files = TlsFiles::issue();
    let (server, port) = tls_files.serve("yes");
    let files = tls_files.files();
    let (a, b) = (
        rig(&format!("rediss://localhost:{port}/?{files}"), "a"),
        rig(&format!("rediss://127.0.0.1:{port}?{files}"), "b"),
    );
    for rig in [&a, &b] {
        assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    }
    assert!(matches!(a.send("k", waiting(1)), Ok(AcquireReply::Acquired { .. })));
    assert!(matches!(b.send("k", waiting(2)), Ok(AcquireReply::Busy { .. })));
    a.send("k", leaving(1)).unwrap();
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    // A link that breaks is replaced here too.
    for id in server.command_ids("b") {
        server.run_words::<()>(&["CLIENT", "KILL", "ID", &id]);
    }
    b.wait_for_down();
    assert_eq!(b.wait_until_up().0, EarlierCommands::Ended);
}

#[test]
fn a_server_that_cannot_be_verified_is_not_talked_to() {
    let tls_files = TlsFiles::issue();
    let (_server, port) = tls_files.serve("no");
    for url in [
        format!("rediss://localhost:{port}/"),
        format!("rediss://localhost:{port}/?ca={}", tls_files.path("other.pem")),
    ] {
        let cause = rig(&url, "a").wait_for_down();
        assert_eq!(cause.kind, Failure::NotSent);
        assert!(cause.to_string().to_lowercase().contains("certificate"), "{cause}");
    }
    rig(&format!("rediss://localhost:{port}/?ca={}", tls_files.path("ca.pem")), "a").wait_until_up();
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_one_or_no_link() {
    let tls_files = TlsFiles::issue();
    let (_server, port) = tls_files.serve("yes");
    let rig = rig(&format!("rediss://localhost:{port}/?ca={}", tls_files.path("ca.pem")), "a");
    rig.wait_for_down();
}

fn rig_with(url: &str, tls: TlsOptions) -> Rig {
    let options = ConnectionOptions { tls: Some(tls), ..ConnectionOptions::default() };
    Rig::start(RedisConfig::with(url, "a", &options).unwrap())
}

#[test]
fn certificates_and_keys_may_be_given_in_memory() {
    let tls_files = TlsFiles::issue();
    let (_server, port) = tls_files.serve("yes");
    let tls = TlsOptions::new()
        .authority_pem(tls_files.text("ca.pem"))
        .client_certificate_pem(tls_files.text("client.pem"), tls_files.text("client.key"));
    rig_with(&format!("rediss://localhost:{port}/"), tls).wait_until_up();
}

#[test]
fn a_server_may_be_certified_for_another_name_than_it_is_reached_by() {
    let tls_files = TlsFiles::issue();
    tls_files.certify("server", "ca", "DNS:redis.internal");
    let (_server, port) = tls_files.serve("no");
    let url = format!("rediss://127.0.0.1:{port}/?ca={}", tls_files.path("ca.pem"));
    let cause = rig(&url, "a").wait_for_down();
    assert!(cause.to_string().to_lowercase().contains("certificate"), "{cause}");
    let cause = rig(&format!("{url}&tls_name=other.internal"), "a").wait_for_down();
    assert!(cause.to_string().to_lowercase().contains("certificate"), "{cause}");
    let rig = rig(&format!("{url}&tls_name=redis.internal"), "a");
    assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    rig_with(&url, TlsOptions::new().server_name("redis.internal")).wait_until_up();
}

#[test]
fn the_roots_of_the_system_do_not_know_our_authority() {
    let tls_files = TlsFiles::issue();
    let (_server, port) = tls_files.serve("no");
    match RedisConfig::new(&format!("rediss://localhost:{port}/?roots=system"), "a") {
        Ok(config) => {
            let cause = Rig::start(config).wait_for_down().to_string();
            assert!(cause.to_lowercase().contains("certificate"), "{cause}");
        }
        // A machine without any.
        Err(error) => assert!(error.contains("SSL_CERT_FILE"), "{error}"),
    }
}

#[test]
fn a_certificate_that_is_replaced_while_we_run_is_shown_from_then_on() {
    let tls_files = TlsFiles::issue();
    let (server, port) = tls_files.serve("yes");
    let rig = rig(&format!("rediss://localhost:{port}/?{}", tls_files.files()), "a");
    rig.wait_until_up();
    let cut = || {
        for id in server.client_ids(|line| !line.contains("cmd=client|list")) {
            server.run_words::<i64>(&["CLIENT", "KILL", "ID", &id]);
        }
        rig.wait_for_down();
    };
    // Written in two steps. The intermediate state cannot be used, so the old pair still counts.
    tls_files.write("client.key", "half a key");
    cut();
    rig.wait_until_up();
    // From here on the server accepts what the other authority has certified, and nothing else.
    tls_files.certify("client", "other", "DNS:client");
    server.run::<()>(&format!("CONFIG SET tls-ca-cert-file {}", tls_files.path("other.pem")));
    cut();
    rig.wait_until_up();
    assert!(matches!(rig.send("k", waiting(1)), Ok(AcquireReply::Acquired { .. })));
}

#[test]
fn sentinels_and_the_servers_they_name_are_reached_over_tls() {
    let tls_files = TlsFiles::issue();
    let mut guarded = Guarded::start_over_tls(&tls_files.directives("yes"));
    let url = guarded.tls_url();
    // Neither sentinels nor servers accept a client without a certificate.
    let stranger = rig(&format!("{url}?ca={}", tls_files.path("ca.pem")), "x");
    assert_eq!(stranger.wait_for_down().kind, Failure::NotSent);
    let [a, b] = ["a", "b"].map(|client| rig(&format!("{url}?{}", tls_files.files()), client));
    for rig in [&a, &b] {
        assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    }
    assert!(matches!(a.send("k", waiting(1)), Ok(AcquireReply::Acquired { .. })));
    assert!(matches!(b.send("k", waiting(2)), Ok(AcquireReply::Busy { .. })));
    wait_until("the lock is replicated", LONG, || guarded.servers[1].run::<i64>("EXISTS k") == 1);
    guarded.servers[0].kill();
    assert!(matches!(persist(&a, "k", &renewing(1)), RenewReply::Renewed { .. }));
    assert!(matches!(persist(&b, "k", &waiting(2)), AcquireReply::Busy { .. }));
    wait_until("both listen at the new master", LONG, || {
        guarded.servers[1].client_ids(|line| line.contains("sub=1") && line.contains("resp=3")).len() == 2
    });
    a.send("k", leaving(1)).unwrap();
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
}

#[test]
fn the_nodes_of_a_cluster_are_reached_over_tls() {
    let tls_files = TlsFiles::issue();
    let mut cluster = Cluster::start_over_tls(&tls_files.directives("yes"));
    let url = cluster.tls_url();
    let start =
        |url: &str, client| Rig::run(ClusterBackend::new(RedisConfig::new(url, client).unwrap()).unwrap());
    let stranger = start(&format!("{url}?ca={}", tls_files.path("ca.pem")), "x");
    assert_eq!(stranger.wait_for_down().kind, Failure::NotSent);
    let [a, b] = ["a", "b"].map(|client| start(&format!("{url}?{}", tls_files.files()), client));
    for rig in [&a, &b] {
        assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    }
    for at in 0..MASTERS {
        let key = cluster.key_at(at);
        assert!(matches!(persist(&a, &key, &waiting(1)), AcquireReply::Acquired { .. }));
        assert!(matches!(persist(&b, &key, &waiting(2)), AcquireReply::Busy { .. }));
        assert_eq!(cluster.servers[at].run::<String>(&format!("GET {key}")), "dl1:a:1");
        a.send(&key, leaving(1)).unwrap();
        assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    }
    let key = cluster.key_at(0);
    // Granted for its claim only, which ends sooner than a fail-over may.
    assert!(matches!(persist(&b, &key, &renewing(2)), RenewReply::Renewed { .. }));
    wait_until("the lock is replicated", LONG, || {
        let (master, replica) = (&cluster.servers[0], &cluster.servers[REPLICA]);
        master.run::<i64>("WAIT 1 1") == 1 && replica.run::<String>("INFO keyspace").contains("keys=")
    });
    cluster.servers[0].kill();
    assert!(matches!(persist(&b, &key, &renewing(2)), RenewReply::Renewed { .. }));
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    for (query, part) in [
        ("ca=/nowhere/ca.pem", "`ca=/nowhere/ca.pem`"),
        ("cert=/dev/null&key=/nowhere/k.pem", "`key=/nowhere/k.pem`"),
        ("cert=/dev/null", "both `cert=` and `key=`"),
        ("ca=/dev/null", "no certificate"),
        ("ca=/dev/null&roots=system", "exclude each other"),
        ("roots=other", "neither `system` nor `web`"),
        ("tls_name=a%20b", "`tls_name=`"),
    ] {
        let error = RedisConfig::new(&format!("rediss://h?{query}"), "c").unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn options_for_tls_need_a_url_with_tls() {
    let options = ConnectionOptions { tls: Some(TlsOptions::new()), ..ConnectionOptions::default() };
    assert!(RedisConfig::with("redis://h", "c", &options).unwrap_err().contains("`rediss`"));
    assert!(RedisConfig::with("rediss://h", "c", &options).is_ok());
}

#[test]
fn options_of_the_builder_count_more_than_those_of_the_url() {
    let url =
        TlsOptions::new().authority_file("/url").client_certificate_files("/c", "/k").server_name("url");
    let over = TlsOptions::new().system_roots().server_name("over");
    let both = url.clone().overlaid(&over);
    assert_eq!((&both.authority, both.roots), (&None, Some(Roots::System)));
    assert_eq!(both.server_name.as_deref(), Some("over"));
    assert_eq!((&both.certificate, &both.key), (&url.certificate, &url.key));
    assert_eq!(url.clone().overlaid(&TlsOptions::new()).authority, url.authority);
}

#[test]
fn every_form_with_tls_is_read() {
    for url in [
        "rediss://h",
        "VALKEYS://h",
        "rediss+sentinel://h/m",
        "valkeys+sentinel://h/m?sentinel_user=u&sentinel_pass=p&tls_name=n",
        "rediss+cluster://h",
        "valkeys+cluster://h?ca=/ca&cert=/c&key=/k",
        "rediss+quorum://a,b,c",
        "valkeys+quorum://a,b,c?roots=system",
    ] {
        assert_eq!(RedisUrl::read(url).unwrap().transport, Transport::Tls, "{url}");
    }
}
