//! Stores whose members agree by a majority, for tests with the same faults on each of them.

use crate::{EtcdServers, ZooKeeperServers};

/// Servers of one kind, and their special properties.
pub trait Ensemble: Sized {
    /// The name in rows of tables.
    const NAME: &'static str;
    /// The module of its tests, and the scheme of its URLs.
    const MODULE: &'static str;
    /// How long a session of a client outlives it.
    const SESSION: &'static str;
    /// How long it does if the leader is stopped, and the others elect a new one.
    const SESSION_OVER_A_STOP: &'static str;

    /// Starts this many members.
    fn start(members: usize) -> Self;
    /// The number of members.
    fn count(&self) -> usize;
    /// `host:port` of a member.
    fn address(&self, member: usize) -> String;
    /// The leader.
    fn leader(&self) -> usize;
    /// Whether this member is the leader.
    fn leads(&self, member: usize) -> bool;
    /// kill −9.
    fn kill9(&mut self, member: usize);
    /// Starts a member again with its data.
    fn restart(&mut self, member: usize);
    /// SIGSTOP.
    fn stop(&self, member: usize);
    /// SIGCONT.
    fn cont(&self, member: usize);
    /// The places of the holders and the waiters.
    fn places(&self) -> Vec<String>;
    /// Waits until no process holds a lock or waits for one.
    fn has_no_locks(&self);
    /// The regular maintenance by an administrator, if there is any.
    fn maintain(&self, _member: usize) {}

    /// A URL for clients whose sessions have this duration, and that tolerate a silence of a second.
    #[must_use]
    fn url_of(addresses: &[String], session: &str) -> String {
        let (scheme, addresses) = (Self::MODULE, addresses.join(","));
        format!("{scheme}://{addresses}?session_timeout={session}&response_timeout=1s")
    }

    /// The URL that names all members.
    fn url(&self) -> String {
        self.url_with(Self::SESSION)
    }

    /// The URL that names all members, for sessions of this duration.
    fn url_with(&self, session: &str) -> String {
        let addresses: Vec<String> = (0..self.count()).map(|member| self.address(member)).collect();
        Self::url_of(&addresses, session)
    }

    /// A member that is not the leader.
    fn follower(&self) -> usize {
        (self.leader() + 1) % self.count()
    }
}

/// The functions that the fixtures of such servers share.
macro_rules! as_the_fixture_does {
    () => {
        fn start(members: usize) -> Self {
            Self::start(members, &[])
        }

        fn count(&self) -> usize {
            self.count()
        }

        fn address(&self, member: usize) -> String {
            self.address(member)
        }

        fn leader(&self) -> usize {
            self.leader()
        }

        fn leads(&self, member: usize) -> bool {
            self.leads(member)
        }

        fn kill9(&mut self, member: usize) {
            self.kill9(member);
        }

        fn restart(&mut self, member: usize) {
            self.restart(member);
        }

        fn stop(&self, member: usize) {
            self.stop(member);
        }

        fn cont(&self, member: usize) {
            self.cont(member);
        }
    };
}

impl Ensemble for EtcdServers {
    const NAME: &'static str = "etcd";
    const MODULE: &'static str = "etcd";
    const SESSION: &'static str = "5s";
    /// Members before 3.4.31 that resume after a stop end sessions that seem to be over.
    const SESSION_OVER_A_STOP: &'static str = "120s";

    as_the_fixture_does!();

    fn places(&self) -> Vec<String> {
        self.keys("distlock/locks/")
    }

    fn has_no_locks(&self) {
        self.has_no_locks("distlock/");
    }

    /// Compacts the history up to now, and defragments the file. Either may be refused, because nothing was written
    /// since then, or because the member has no leader now.
    fn maintain(&self, member: usize) {
        let said = self.ctl_at(member, &["get", "nothing", "--write-out=json"]).unwrap_or_default();
        let rest = said.split_once("\"revision\":").map_or("", |(_, rest)| rest);
        let revision: String = rest.chars().take_while(char::is_ascii_digit).collect();
        drop(self.ctl_at(member, &["compact", &revision]));
        drop(self.ctl_at(member, &["defrag"]));
    }
}

impl Ensemble for ZooKeeperServers {
    const NAME: &'static str = "ZooKeeper";
    const MODULE: &'static str = "zookeeper";
    const SESSION: &'static str = "3s";
    const SESSION_OVER_A_STOP: &'static str = "3s";

    as_the_fixture_does!();

    fn places(&self) -> Vec<String> {
        self.places("/distlock")
    }

    fn has_no_locks(&self) {
        self.has_no_locks("/distlock");
    }
}
