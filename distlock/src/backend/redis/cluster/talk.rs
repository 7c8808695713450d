//! What is asked of all nodes of a cluster, and messages from client to client.
//!
//! Every node passes messages on to all others, so any one will do; but each knows only the clients that listen on it.

use std::sync::Arc;

use super::ClusterShared;
use super::node::Node;
use crate::backend::redis::diagnosis::{self, Setup};
use crate::backend::redis::errors;
use crate::backend::redis::link::Link;
use crate::backend::{Failure, OpError, Told};
use crate::finding::{Finding, Severity};

impl ClusterShared {
    fn linked(&self) -> Vec<(Arc<Node>, Arc<Link>)> {
        let map = self.map();
        map.nodes.iter().filter_map(|node| Some((Arc::clone(node), node.link()?))).collect()
    }

    fn nobody(&self) -> OpError {
        errors::found(Failure::NotSent, format!("not connected to {}", self.config.place))
    }

    /// Those that listen on any of the nodes.
    pub(super) async fn clients(self: Arc<Self>) -> Result<Vec<String>, OpError> {
        let mut clients = Vec::new();
        let mut linked = self.linked().into_iter();
        let (node, link) = linked.next().ok_or_else(|| self.nobody())?;
        clients.extend(Arc::clone(&node.exec).clients(link).await?);
        for (node, link) in linked {
            clients.extend(Arc::clone(&node.exec).clients(link).await.unwrap_or_default());
        }
        clients.sort_unstable();
        clients.dedup();
        Ok(clients)
    }

    /// What is wrong with any of the masters.
    pub(super) async fn diagnose(self: Arc<Self>) -> Result<Vec<Finding>, OpError> {
        let mut found = Vec::new();
        for node in &self.map().nodes {
            let place = node.address.to_string();
            let Some(link) = node.link() else {
                let cause = node.cause().unwrap_or_else(|| node.not_connected());
                found.push(Finding::new(Severity::Fault, place, cause.to_string()));
                continue;
            };
            let setup = Setup::Single { confirmed: false };
            found.extend(diagnosis::examine(&node.exec, &link, &place, setup).await?);
        }
        if found.is_empty() { Err(self.nobody()) } else { Ok(found) }
    }

    /// Nobody can say how many have got it.
    pub(super) async fn tell(self: Arc<Self>, client: &str, text: &str) -> Result<Told, OpError> {
        let mut linked = self.linked();
        if linked.is_empty() {
            return Err(self.nobody());
        }
        let (node, link) = linked.swap_remove(fastrand::usize(..linked.len()));
        Arc::clone(&node.exec).tell(link, client, text).await.map(|_| Told::Perhaps)
    }
}
