//! Requests to all nodes of a cluster.

use std::sync::Arc;

use redis::Cmd;

use super::ClusterShared;
use super::batch::join_all;
use crate::backend::redis::diagnosis::{self, Setup};
use crate::backend::redis::errors;
use crate::backend::redis::exec::Exec;
use crate::backend::redis::link::Link;
use crate::backend::redis::listing::{self, ScanResult};
use crate::backend::{BoxFuture, Failure, HoldNote, StoreError};
use distlock_store::{Finding, Severity};

impl ClusterShared {
    fn nobody(&self) -> StoreError {
        errors::found(Failure::NotSent, format!("not connected to {}", self.config.place))
    }

    /// Searches the names on all masters. If only some masters are unreachable, the result names them.
    pub(super) async fn search(&self, found: &mut ScanResult) -> Result<(), StoreError> {
        let map = self.map();
        if !map.is_known() {
            // Starts to connect.
            self.route("")?;
        }
        let mut failed = None;
        for node in &map.nodes {
            let place = node.address.to_string();
            let searched = match node.link() {
                Some(link) => listing::search(&node.exec, &link, &place, found).await,
                None => Err(node.not_connected()),
            };
            match searched {
                Ok(()) => {}
                Err(error) if error.kind == Failure::Refused => return Err(error),
                Err(error) => {
                    found.unread.push(place);
                    failed = Some(error);
                }
            }
        }
        if found.unread.len() < map.nodes.len() {
            Ok(())
        } else {
            Err(failed.unwrap_or_else(|| self.nobody()))
        }
    }

    /// Each note goes to the node that serves the lock.
    pub(super) fn note(&self, notes: &mut dyn Iterator<Item = HoldNote>) -> BoxFuture<()> {
        let mut shares: Vec<(Arc<Link>, Vec<Cmd>)> = Vec::new();
        for note in notes {
            let Ok((_, link)) = self.route(&note.key) else { continue };
            let record = self.wire.note(&note);
            match shares.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &link)) {
                Some((_, records)) => records.push(record),
                None => shares.push((link, vec![record])),
            }
        }
        let writing: Vec<BoxFuture<()>> = shares
            .into_iter()
            .map(|(link, records)| -> BoxFuture<()> { Box::pin(Exec::write(link, records)) })
            .collect();
        Box::pin(async move { drop(join_all(writing).await) })
    }

    /// The findings of all masters.
    pub(super) async fn diagnose(self: Arc<Self>) -> Result<Vec<Finding>, StoreError> {
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
}
