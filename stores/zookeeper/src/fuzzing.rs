//! The entry point of the fuzz target `stores`: all code here that reads data of a server or of another client.
//!
//! No input may cause a panic. The other requirements are asserted.

use super::diagnosis::of_member;
use super::names::{Names, PlaceName};
use super::queue::{QueueState, Standing};

/// The names of nodes, one in each line. The same text is also read as the status of a member.
pub fn server(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let names = Names::below("r");
    for node in text.lines().chain([text]) {
        if let Some(key) = Names::key(node) {
            assert_eq!(names.lock(&key), format!("/r/locks/{node}"));
        }
        let lock = names.lock(node);
        let part = lock.strip_prefix("/r/locks/").filter(|part| !part.contains('/'));
        assert_eq!(part.and_then(Names::key).as_deref(), Some(node), "{lock}");
    }
    queue(&QueueState::read(text.lines().map(str::to_owned).collect()));
    of_member("zk1:2181", Ok(text));
}

fn queue(queue: &QueueState) {
    let holders = queue.holders().len();
    assert_eq!(holders == 0, queue.places.is_empty(), "a lock that its first place does not hold");
    for (behind, place) in queue.places.iter().enumerate() {
        let (owner, session, number) = (place.owner(), 0x1f, place.number);
        let name = format!("{}{number:010}", PlaceName::prefix(owner, session, place.kind));
        let next = place.taken_over("dl1:n:1", session);
        assert_eq!((next.owner(), next.number), ("dl1:n:1", place.number));
        let again = PlaceName::read(name);
        assert_eq!(again.as_ref().map(|again| (again.owner(), again.kind)), Some((owner, place.kind)));
        assert!(again.is_some_and(|again| again.is_of(owner, session)), "{place:?}");
        assert_eq!(queue.standing(behind, place.kind) == Standing::Holds, behind < holders, "{place:?}");
        let busy = queue.busy(owner, behind);
        assert!(busy.holder.as_deref() != Some(owner), "it is in its own way");
    }
    if let Some(stored) = queue.stored() {
        assert_eq!(stored.holders.len() + stored.waiting.len(), queue.places.len());
    }
}

#[cfg(test)]
#[path = "../../../fuzz/read_seeds.rs"]
mod read_seeds;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_pass() {
        super::read_seeds::all_pass(b"z", super::server);
    }
}
