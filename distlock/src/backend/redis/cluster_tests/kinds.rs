//! Shared and limited locks.

use super::{enter, enter_as, granted, leave, renew_as};

use crate::backend::redis::slots::slot_of;
use crate::backend::redis::test_cluster::Cluster;
use crate::backend::{AcquireMode, AcquireReply, LockKind, RenewReply};

#[test]
fn readers_share_and_take_turns_with_a_writer_here_too() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let key = cluster.key_at(1);
    for (rig, token) in [(&a, 1), (&b, 2)] {
        assert!(matches!(
            rig.send(&key, enter_as(LockKind::Shared, token)),
            Ok(AcquireReply::Acquired { .. })
        ));
    }
    assert!(matches!(b.send(&key, enter(3, AcquireMode::Wait, 0)), Ok(AcquireReply::Busy { .. })));
    // A reader does not overtake the writer that waits.
    assert!(matches!(a.send(&key, enter_as(LockKind::Shared, 4)), Ok(AcquireReply::Busy { .. })));
    let (all, slot) = (cluster.keys(), slot_of("", &key).to_string());
    assert_eq!(all.len(), 4, "{all:?}");
    let mut there: Vec<String> = cluster.servers[1].run_words(&["CLUSTER", "GETKEYSINSLOT", &slot, "9"]);
    there.sort();
    assert_eq!(there, all);
    for (rig, token) in [(&a, 1), (&b, 2)] {
        assert!(matches!(rig.send(&key, renew_as(LockKind::Shared, token)), Ok(RenewReply::Renewed { .. })));
    }
    assert_eq!(a.send(&key, renew_as(LockKind::Shared, 4)).unwrap(), RenewReply::NotHeld);
    a.send(&key, leave(1)).unwrap();
    b.send(&key, leave(2)).unwrap();
    granted(&b, 3);
    b.send(&key, leave(3)).unwrap();
    granted(&a, 4);
    a.send(&key, leave(4)).unwrap();
    assert_eq!(cluster.keys(), Vec::<String>::new());
}

#[test]
fn no_more_than_the_limit_get_in_here_too() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let (key, kind) = (cluster.key_at(2), LockKind::Limited { max_holders: 2 });
    for (rig, token) in [(&a, 1), (&b, 2)] {
        assert!(matches!(rig.send(&key, enter_as(kind, token)), Ok(AcquireReply::Acquired { .. })));
    }
    assert!(matches!(b.send(&key, enter_as(kind, 3)), Ok(AcquireReply::Busy { .. })));
    assert!(matches!(a.send(&key, enter(4, AcquireMode::Wait, 0)), Ok(AcquireReply::WrongKind { .. })));
    a.send(&key, leave(1)).unwrap();
    granted(&b, 3);
    for token in [2, 3] {
        assert!(matches!(b.send(&key, renew_as(kind, token)), Ok(RenewReply::Renewed { .. })));
        b.send(&key, leave(token)).unwrap();
    }
    assert_eq!(cluster.keys(), Vec::<String>::new());
}
