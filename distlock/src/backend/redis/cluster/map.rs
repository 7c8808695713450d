//! Which node serves which slot, as the nodes report it.

use std::collections::HashSet;
use std::sync::Arc;

use redis::{Pipeline, Value};

use super::node::Node;
use crate::backend::redis::config::Address;
use crate::backend::redis::info::{field, text};
use crate::backend::redis::slots::SLOTS;
use distlock_store::kit::connection::AddressMap;

/// What one node has reported about the cluster.
#[derive(Debug)]
pub(super) struct View {
    /// Rises with every change that the nodes have agreed upon; 0 if the node does not report it.
    pub(super) epoch: u64,
    /// First slot, last slot, and the node that serves them.
    ranges: Vec<(u16, u16, Address)>,
    /// Every node that was named, including replicas.
    pub(super) members: HashSet<Address>,
}

/// The commands that ask a node for its view.
pub(super) fn questions() -> Pipeline {
    let mut questions = Pipeline::new();
    questions.cmd("CLUSTER").arg("SLOTS").cmd("CLUSTER").arg("INFO");
    questions
}

impl View {
    /// Reads the replies of the node at `asked`. `None`: they are not understood, or name no master.
    pub(super) fn read(asked: &Address, replies: &[Value], map: Option<&AddressMap>) -> Option<View> {
        let [Value::Array(entries), info] = replies else { return None };
        let mut view = View {
            epoch: field(text(info), "cluster_current_epoch")
                .and_then(|epoch| epoch.parse().ok())
                .unwrap_or(0),
            ranges: Vec::new(),
            members: HashSet::new(),
        };
        for entry in entries {
            let Value::Array(parts) = entry else { return None };
            let [Value::Int(first), Value::Int(last), nodes @ ..] = parts.as_slice() else { return None };
            let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
            if last >= SLOTS {
                return None;
            }
            for (at, node) in nodes.iter().enumerate() {
                let Some(address) = address(asked, node, map) else { continue };
                if at == 0 {
                    view.ranges.push((first, last, address.clone()));
                }
                view.members.insert(address);
            }
        }
        (!view.ranges.is_empty()).then_some(view)
    }

    pub(super) fn masters(&self) -> HashSet<Address> {
        self.ranges.iter().map(|(.., address)| address.clone()).collect()
    }
}

/// A node is `[host, port, ..]`. If the host is missing, it is the host that was asked.
fn address(asked: &Address, node: &Value, map: Option<&AddressMap>) -> Option<Address> {
    let Value::Array(parts) = node else { return None };
    let (host, port) = match parts.as_slice() {
        [host, Value::Int(port), ..] => (host, u16::try_from(*port).ok()?),
        _ => return None,
    };
    beside(asked, text(host).unwrap_or_default(), port, map)
}

/// The node that a redirection (`MOVED <slot> <host>:<port>`) names.
pub(super) fn redirected(asked: &Address, details: &str, map: Option<&AddressMap>) -> Option<(u16, Address)> {
    let (slot, target) = details.split_once(' ')?;
    let (host, port) = target.split_whitespace().next()?.rsplit_once(':')?;
    let slot = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
    Some((slot, beside(asked, host, port.parse().ok()?, map)?))
}

fn beside(asked: &Address, host: &str, port: u16, map: Option<&AddressMap>) -> Option<Address> {
    // A node that listens on all addresses may report such an address. In that case, the address that was asked is
    // used.
    let nowhere = matches!(host, "" | "0.0.0.0" | "::");
    match (host, asked) {
        (NO_HOST, _) => None,
        (_, Address::Tcp { host, .. } | Address::Tls { host, .. }) if nowhere => {
            Some(asked.beside(host, port, map))
        }
        (_, Address::Unix(_)) if nowhere => None,
        _ => Some(asked.beside(host, port, map)),
    }
}

/// Stands for a host name that the node should report but does not know.
const NO_HOST: &str = "?";

/// Whether a node is set up to report host names but knows none.
pub(super) fn lacks_host_names(replies: &[Value]) -> bool {
    let Some(Value::Array(entries)) = replies.first() else { return false };
    let nodes = entries.iter().filter_map(|entry| match entry {
        Value::Array(parts) => parts.get(2..),
        _ => None,
    });
    nodes.flatten().any(|node| match node {
        Value::Array(parts) => parts.first().and_then(text) == Some(NO_HOST),
        _ => false,
    })
}

/// Which node serves which slot.
#[derive(Clone, Debug)]
pub(super) struct Map {
    owners: Vec<Option<u16>>,
    pub(super) nodes: Vec<Arc<Node>>,
}

impl Map {
    pub(super) fn empty() -> Map {
        Map { owners: vec![None; usize::from(SLOTS)], nodes: Vec::new() }
    }

    pub(super) fn new(view: &View, mut node: impl FnMut(&Address) -> Arc<Node>) -> Map {
        let mut map = Map::empty();
        for (first, last, address) in &view.ranges {
            let number = map.number(&node(address));
            for slot in *first..=*last {
                map.set(slot, number);
            }
        }
        map
    }

    /// `owner`: the number of the node that serves a slot.
    pub(super) fn fixed(nodes: Vec<Arc<Node>>, owner: impl Fn(u16) -> usize) -> Map {
        let owners = (0..SLOTS).map(|slot| u16::try_from(owner(slot)).ok()).collect();
        Map { owners, nodes }
    }

    /// The same, except that `slot` is served by `node`.
    pub(super) fn with(&self, slot: u16, node: &Arc<Node>) -> Map {
        let mut map = self.clone();
        let number = map.number(node);
        map.set(slot, number);
        map
    }

    fn number(&mut self, node: &Arc<Node>) -> u16 {
        let known = self.nodes.iter().position(|other| other.address == node.address);
        let number = known.unwrap_or_else(|| {
            self.nodes.push(Arc::clone(node));
            self.nodes.len() - 1
        });
        u16::try_from(number).unwrap_or(u16::MAX)
    }

    fn set(&mut self, slot: u16, number: u16) {
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = Some(number);
        }
    }

    pub(super) fn is_known(&self) -> bool {
        !self.nodes.is_empty()
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        let number = (*self.owners.get(usize::from(slot))?)?;
        self.nodes.get(usize::from(number))
    }

    /// The slots whose owners differ. A node that has ended differs from a later one with its address.
    pub(super) fn changes<'a>(&'a self, other: &'a Map) -> impl Iterator<Item = u16> + 'a {
        let node = |map: &'a Map, slot| map.owner(slot).map(Arc::as_ptr);
        (0..SLOTS).filter(move |slot| node(self, *slot) != node(other, *slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Tuning;
    use crate::backend::redis::command::Wire;
    use crate::backend::redis::names::Names;

    fn at(port: u16) -> Address {
        Address::Tcp { host: "10.0.0.1".to_owned(), port }
    }

    fn parsed(wire: &str) -> Value {
        redis::parse_redis_value(wire.as_bytes()).unwrap()
    }

    #[test]
    fn a_view_names_masters_replicas_and_the_epoch() {
        let slots = parsed(
            "*2\r\n*4\r\n:0\r\n:8000\r\n*3\r\n$0\r\n\r\n:7000\r\n$1\r\na\r\n*3\r\n$8\r\n10.0.0.2\r\n:7001\r\n$1\r\nb\r\n\
             *3\r\n:8001\r\n:16383\r\n*3\r\n$1\r\n?\r\n:7002\r\n$1\r\nc\r\n",
        );
        let info = parsed("$47\r\ncluster_state:ok\r\ncluster_current_epoch:12\r\nx:y\r\n");
        let view = View::read(&at(9), &[slots, info], None).unwrap();
        assert_eq!(view.epoch, 12);
        assert_eq!(view.masters(), HashSet::from([at(7000)]), "an unknown host is left out");
        assert_eq!(view.members.len(), 2);
    }

    #[test]
    fn nonsense_is_no_view() {
        for wire in ["*0\r\n", "+OK\r\n", "*1\r\n*2\r\n:0\r\n:99999\r\n"] {
            assert!(View::read(&at(9), &[parsed(wire), Value::Nil], None).is_none(), "{wire:?}");
        }
    }

    #[test]
    fn redirections_are_read_even_without_a_host() {
        assert_eq!(redirected(&at(9), "77 10.0.0.1:7000", None), Some((77, at(7000))));
        for host in ["", "0.0.0.0", "::"] {
            assert_eq!(redirected(&at(9), &format!("77 {host}:7000"), None), Some((77, at(7000))), "{host}");
        }
        let v6 = Address::Tcp { host: "::1".to_owned(), port: 7 };
        assert_eq!(redirected(&at(9), "77 ::1:7", None), Some((77, v6)));
        for text in ["", "x", "77", "77 h", "77 ?:7000", "16384 h:7000"] {
            assert_eq!(redirected(&at(9), text, None), None, "{text}");
        }
    }

    #[test]
    fn announced_addresses_are_reached_where_the_map_says() {
        let map = AddressMap::new(|host, port| (host == "10.0.0.1").then(|| ("nat".to_owned(), port + 1)));
        let slots = parsed(
            "*1\r\n*4\r\n:0\r\n:16383\r\n*3\r\n$8\r\n10.0.0.1\r\n:7000\r\n$1\r\na\r\n\
             *3\r\n$8\r\n10.0.0.2\r\n:7001\r\n$1\r\nb\r\n",
        );
        let view = View::read(&at(9), &[slots, Value::Nil], Some(&map)).unwrap();
        let nat = Address::Tcp { host: "nat".to_owned(), port: 7001 };
        let other = Address::Tcp { host: "10.0.0.2".to_owned(), port: 7001 };
        assert_eq!(view.masters(), HashSet::from([nat.clone()]));
        assert_eq!(view.members, HashSet::from([nat.clone(), other]));
        assert_eq!(redirected(&at(9), "77 10.0.0.1:7000", Some(&map)), Some((77, nat)));
    }

    #[test]
    fn the_node_that_follows_one_that_has_ended_is_another_one() {
        let wire = Arc::new(Wire::new(Names::clustered(String::new()), "a".into(), &Tuning::default()));
        let [ended, next] = [(); 2].map(|()| Arc::new(Node::new(at(7000), wire.clone())));
        let before = Map::empty().with(7, &ended);
        assert_eq!(Map::empty().with(7, &next).changes(&before).collect::<Vec<_>>(), [7]);
        assert_eq!(Map::empty().with(7, &ended).changes(&before).count(), 0);
    }
}
