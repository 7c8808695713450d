//! Sets of servers.

/// A set of servers, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Servers(u32);

impl Servers {
    pub(super) const MOST: usize = 31;

    pub(super) fn add(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    pub(super) fn remove(&mut self, node: usize) {
        self.0 &= !(1 << node);
    }

    pub(super) fn only(node: usize) -> Servers {
        let mut servers = Servers::default();
        servers.add(node);
        servers
    }

    pub(super) fn all() -> Servers {
        Servers(u32::MAX)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn has(self, node: usize) -> bool {
        self.0 & (1 << node) != 0
    }
}
