//! Independent servers that share the keys (`sharded+redis://`): which of them serves which slot, and how all clients
//! agree on it.
//!
//! Clients with different lists of servers would lock one key on two servers. So every server stores the list. The
//! first client proposes its list to all servers by SET NX, and uses no server until each of them has the list. From
//! then on, the list is agreed upon. A server that has lost the list gets it again. A client that finds another list on
//! any of the servers uses none of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::cmd;
use tokio::sync::watch;
use tokio::time::timeout;

use super::map::Map;
use super::node::Node;
use crate::backend::redis::config::Address;
use crate::backend::redis::errors;
use crate::backend::redis::exec::{self, Exec};
use crate::backend::redis::info::{first_error, text};
use crate::backend::redis::link::Link;
use crate::backend::{Failure, StoreError};

/// The prefix of a list that no client has found on all of its servers yet.
const PROPOSED: char = '?';
/// Records that a list is agreed upon.
const AGREE: &str = include_str!("../scripts/agree.lua");

/// The servers, and the list on each of them.
#[derive(Debug)]
pub(super) struct Shards {
    /// In the order of their names.
    servers: Vec<(String, Address)>,
    lists: watch::Sender<HashMap<Address, List>>,
}

/// The list on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
enum List {
    Proposed,
    Agreed,
    Other(String),
}

/// The conclusion from all lists.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Agreed,
    /// This server has this list.
    Refused(Address, String),
    Undecided,
}

/// The server's name: its address in the URL, with the host in lower case.
fn name(address: &Address) -> String {
    address.to_string().to_lowercase()
}

/// FNV-1a of 64 bits.
fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finalizer of MurmurHash3, of 64 bits.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

fn weight(name: u64, slot: u16) -> u64 {
    mix(name ^ mix(slot.into()))
}

/// Which of the servers serves the slot: the one with the highest weight (rendezvous hashing). `names`: hashed.
fn heaviest(names: &[u64], slot: u16) -> usize {
    (0..names.len()).max_by_key(|at| weight(names[*at], slot)).unwrap_or_default()
}

impl Shards {
    pub(super) fn new(addresses: Vec<Address>) -> Shards {
        let mut servers: Vec<_> = addresses.into_iter().map(|address| (name(&address), address)).collect();
        servers.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        servers.dedup_by(|(one, _), (other, _)| one == other);
        Shards { servers, lists: watch::Sender::default() }
    }

    /// The list as it is stored on every server.
    fn list(&self) -> String {
        self.servers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",")
    }

    fn hashed_names(&self) -> Vec<u64> {
        self.servers.iter().map(|(name, _)| fnv1a(name)).collect()
    }

    pub(super) fn map(&self, node: impl Fn(&Address) -> Arc<Node>) -> Map {
        let names = self.hashed_names();
        let nodes = self.servers.iter().map(|(_, address)| node(address)).collect();
        Map::fixed(nodes, |slot| heaviest(&names, slot))
    }

    /// Returns when the server of `link` may be used. Each of the other servers is asked over its own link.
    pub(super) async fn admit(
        &self,
        (exec, link, address): (&Exec, &Link, &Address),
        within: Duration,
    ) -> Result<(), StoreError> {
        let key = exec.wire.names.shards().to_string();
        let (list, proposal) = (self.list(), format!("{PROPOSED}{}", self.list()));
        let propose = cmd("SET").arg(&key).arg(&proposal).arg("NX").to_owned();
        let answers = exec::ask_all(link, vec![propose, cmd("GET").arg(&key).to_owned()]).await?;
        let said = match answers.last().and_then(text) {
            Some(said) if said == list => List::Agreed,
            Some(said) if said == proposal => List::Proposed,
            Some(other) => List::Other(other.trim_start_matches(PROPOSED).to_owned()),
            None => {
                let error = first_error(&answers).cloned();
                return Err(error.map_or_else(|| exec::garbled(link), |error| exec::failed(link, error)));
            }
        };
        let is_proposed = said == List::Proposed;
        self.note(address, said);
        let mut lists = self.lists.subscribe();
        let decided = lists.wait_for(|lists| self.verdict(lists) != Verdict::Undecided);
        let verdict = match timeout(within, decided).await {
            Ok(Ok(lists)) => self.verdict(&lists),
            _ => Verdict::Undecided,
        };
        match verdict {
            Verdict::Agreed if is_proposed => {
                // A client that still reads the proposal must find it on all servers once more.
                let agree = cmd("EVAL").arg(AGREE).arg(1).arg(&key).arg(&proposal).arg(&list).to_owned();
                exec::ask(link, agree).await?;
                self.note(address, List::Agreed);
                Ok(())
            }
            Verdict::Agreed => Ok(()),
            Verdict::Refused(at, other) => Err(refused(&list, &at, &other, &key)),
            Verdict::Undecided => Err(self.unconfirmed()),
        }
    }

    fn note(&self, address: &Address, list: List) {
        self.lists.send_modify(|lists| drop(lists.insert(address.clone(), list)));
    }

    /// Whether a server has another list.
    pub(super) fn are_refused(&self) -> bool {
        matches!(self.verdict(&self.lists.borrow()), Verdict::Refused(..))
    }

    /// The link to this server is lost, and the server may have lost its list, too. But if it had another list, it
    /// stays refused until it has answered again.
    pub(super) fn forget(&self, address: &Address) {
        self.lists.send_if_modified(|lists| {
            let is_ours = lists.get(address).is_some_and(|said| !matches!(said, List::Other(_)));
            is_ours && lists.remove(address).is_some()
        });
    }

    fn verdict(&self, lists: &HashMap<Address, List>) -> Verdict {
        let mut said = self.servers.iter().map(|(_, address)| (address, lists.get(address)));
        let other = said.clone().find_map(|(address, list)| match list {
            Some(List::Other(other)) => Some(Verdict::Refused(address.clone(), other.clone())),
            _ => None,
        });
        let is_agreed = said.clone().any(|(_, list)| list == Some(&List::Agreed));
        match other {
            Some(refused) => refused,
            None if is_agreed || said.all(|(_, list)| list.is_some()) => Verdict::Agreed,
            None => Verdict::Undecided,
        }
    }

    fn unconfirmed(&self) -> StoreError {
        let lists = self.lists.borrow();
        let missing: Vec<_> = self
            .servers
            .iter()
            .filter(|(_, at)| !lists.contains_key(at))
            .map(|(name, _)| name.as_str())
            .collect();
        let text = format!(
            "this list of servers is new, and {} cannot be asked about it: every server must be reachable once",
            missing.join(", ")
        );
        errors::found(Failure::NotSent, text)
    }
}

fn refused(list: &str, at: &Address, other: &str, key: &str) -> StoreError {
    let text = format!(
        "the URL lists the servers {list}, but {at} belongs to the list {other}: a key would be locked on two servers. \
         Give all clients the same list. To change it, stop all of them and delete the key `{key}` on every server"
    );
    errors::found(Failure::Refused, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::slots::{SLOTS, slot_of};

    fn shards(hosts: &[&str]) -> Shards {
        let address = |host: &&str| Address::Tcp { host: (*host).to_owned(), port: 6379 };
        Shards::new(hosts.iter().map(address).collect())
    }

    /// The name of the server that serves a slot.
    fn server(shards: &Shards, slot: u16) -> &str {
        &shards.servers[heaviest(&shards.hashed_names(), slot)].0
    }

    /// The vectors of docs/protocol.md.
    #[test]
    fn every_client_finds_the_same_server() {
        assert_eq!(fnv1a(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a("a:6379"), 0x8682_55be_bcc8_39c5);
        assert_eq!(mix(1), 0xb456_bcfc_34c2_cb2c);
        assert_eq!(weight(fnv1a("a:6379"), 7), 0x8ed5_8f6a_9a60_6d3d);
        let three = shards(&["C", "a", "b", "A"]);
        assert_eq!(three.list(), "a:6379,b:6379,c:6379");
        for (key, name) in [
            ("order:42", "b:6379"),
            ("{order:42}:stock", "b:6379"),
            ("order:7", "c:6379"),
            ("user:1", "a:6379"),
            ("user:{42}:x", "c:6379"),
            ("k", "c:6379"),
        ] {
            assert_eq!(server(&three, slot_of("", key)), name, "{key}");
        }
    }

    #[test]
    fn one_server_more_takes_its_share_and_moves_nothing_else() {
        let (three, four) = (shards(&["a", "b", "c"]), shards(&["a", "b", "c", "d"]));
        let mut share = HashMap::new();
        for slot in 0..SLOTS {
            let (before, after) = (server(&three, slot), server(&four, slot));
            assert!(after == before || after == "d:6379", "slot {slot} went from {before} to {after}");
            *share.entry(after).or_insert(0) += 1;
        }
        assert!(share.values().all(|slots| (3_800..4_400).contains(slots)), "{share:?}");
    }

    #[test]
    fn a_list_is_agreed_upon_when_all_servers_or_one_that_knows_have_it() {
        let three = shards(&["a", "b", "c"]);
        let [a, b, c] = [0, 1, 2].map(|at: usize| three.servers[at].1.clone());
        let verdict = |lists: &[(&Address, List)]| {
            three.verdict(&lists.iter().map(|(at, list)| ((*at).clone(), list.clone())).collect())
        };
        let other = || List::Other("a:6379".to_owned());
        let refused = Verdict::Refused(c.clone(), "a:6379".to_owned());
        assert_eq!(verdict(&[(&a, List::Proposed), (&b, List::Proposed)]), Verdict::Undecided);
        let all = [(&a, List::Proposed), (&b, List::Proposed), (&c, List::Proposed)];
        assert_eq!(verdict(&all), Verdict::Agreed);
        assert_eq!(verdict(&[(&b, List::Agreed)]), Verdict::Agreed);
        assert_eq!(verdict(&[(&a, List::Agreed), (&b, List::Agreed), (&c, other())]), refused);
        // The answer of a server no longer counts after its link was lost, unless it was another list.
        for (at, list) in [(a, List::Agreed), (c, other())] {
            three.note(&at, list);
            three.forget(&at);
        }
        assert_eq!(three.verdict(&three.lists.borrow()), refused);
        assert_eq!(three.lists.borrow().len(), 1);
    }
}
