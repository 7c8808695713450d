//! The entry point of the fuzz target `stores`: all code here that reads data of a server or of another client.
//!
//! No input may cause a panic. The other requirements are asserted.

use std::time::Instant;

use super::keys::Names;
use super::link::lasting;
use super::places::{Place, QueueState, kept_value, value};

/// The places of a lock, one in each line: the name of the key, `=` and the value.
pub fn server(data: &[u8]) {
    let names = Names::below("r");
    let place = |line: &[u8]| {
        let end = line.iter().position(|byte| *byte == b'=')?;
        Place::of(&line[..end], &line[end + 1..], &names)
    };
    let places: Vec<Place> = data.split(|byte| *byte == b'\n').filter_map(place).collect();
    for place in &places {
        let read = names.read(&place.name);
        let again = read.as_ref().map(|read| names.place(&read.key, &read.seat));
        assert_eq!(again.as_ref().and_then(|again| names.read(again.as_bytes())), read, "{again:?}");
        let of = |value: String| Place::of(&place.name, value.as_bytes(), &names);
        let next = of(value(place.kind, "dl1:n:1")).map(|next| (next.kind, next.kept, next.owner, next.seat));
        assert_eq!(next, Some((place.kind, false, "dl1:n:1".into(), place.seat.clone())));
        let kept = of(kept_value(place.kind)).map(|kept| (kept.kind, kept.kept));
        assert_eq!(kept, Some((place.kind, true)));
    }
    queue(&QueueState::of(places));
    if let Ok(key) = str::from_utf8(data) {
        let place = names.place(key, "dl1:c:7");
        assert_eq!(names.read(place.as_bytes()).map(|read| read.key).as_deref(), Some(key));
    }
    if let Some(ttl) = data.first_chunk().and_then(|bytes| lasting(i64::from_le_bytes(*bytes))) {
        assert!(Instant::now().checked_add(ttl).is_some(), "a session that ends after all time");
    }
}

fn queue(queue: &QueueState) {
    let holders = queue.holders().len();
    assert_eq!(holders == 0, queue.places.is_empty(), "a lock that its first place does not hold");
    for (behind, place) in queue.places.iter().enumerate() {
        assert!(queue.in_the_way(behind, place.kind).count() <= behind);
        assert_eq!(queue.busy(&place.owner, behind).front, behind <= holders);
        queue.has_room(place.kind);
        queue.other_kind(place.kind);
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
        super::read_seeds::all_pass(b"e", super::server);
    }
}
