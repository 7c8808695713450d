//! The slots of all keys and channels.

use std::sync::Arc;

use super::{enter, leave, renew, set};

use crate::backend::redis::test_cluster::Cluster;
use crate::backend::redis::test_operations::{AnyOp, AnyReply};
use crate::backend::redis::test_server::{Rig, block_on};
use crate::backend::redis::{ClusterBackend, RedisConfig};
use crate::backend::{AcquireMode, AcquireReply, Backend, Push, ReleaseReply, RenewReply, Token};

#[test]
fn a_lock_and_all_that_belongs_to_it_live_in_one_slot_for_every_key() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let keys = ["k", "a}b", "{", "{}", "{}x", "{a}b", "x{y}{z}", "}{", "a b", "user:{42}:x", "1", "2", "3"];
    for key in keys {
        let Ok(AcquireReply::Acquired { fence: Some(first), .. }) =
            a.send(key, enter(1, AcquireMode::Try, 1))
        else {
            panic!("{key}")
        };
        assert!(matches!(
            b.send(key, enter(2, AcquireMode::Wait, 1)),
            Ok(AcquireReply::Busy { front: true, .. })
        ));
        let seen = block_on(b.backend.inspect(&Arc::from(key))).unwrap().unwrap();
        assert_eq!((seen.first_holder(), seen.waiters), ("dl1:a:1", 1));
        assert!(matches!(a.send(key, renew(1)), Ok(RenewReply::Renewed { .. })));
        assert_eq!(a.send(key, leave(1)).unwrap(), ReleaseReply::Released { gap: false });
        match b.wait_for_push() {
            Push::Grant { key: granted, token: Token(2), fence: Some(second), .. } => {
                assert_eq!(&*granted, key);
                assert!(second > first);
            }
            other => panic!("{other:?}"),
        }
        assert!(block_on(a.backend.force_release(&Arc::from(key))).unwrap());
        assert_eq!(b.send(key, leave(2)).unwrap(), ReleaseReply::NotHeld);
    }
    for key in cluster.keys() {
        assert!(key.starts_with("dl1:f{"), "residue: {key}");
    }
    a.has_one_link();
}

#[test]
fn a_batch_is_shared_out_and_answered_in_order() {
    let cluster = Cluster::start();
    let rig = cluster.rig("a");
    for server in cluster.masters() {
        server.run::<()>("SCRIPT FLUSH");
    }
    let mut batch = Vec::new();
    for number in 0..600 {
        let key: Arc<str> = Arc::from(format!("k{number}"));
        batch.push((key.clone(), AnyOp::from(set(number))));
        batch.push((key.clone(), renew(number).into()));
        batch.push((key, leave(number + u64::from(number % 7 == 0)).into()));
    }
    let results = block_on(rig.backend.send_batch(batch));
    assert_eq!(results.len(), 1_800);
    for (number, three) in results.chunks(3).enumerate() {
        assert!(matches!(three[0], Ok(AnyReply::Acquire(AcquireReply::Acquired { .. }))), "{three:?}");
        assert!(matches!(three[1], Ok(AnyReply::Renew(RenewReply::Renewed { .. }))), "{three:?}");
        let last = three[2].as_ref().unwrap();
        assert_eq!(*last == AnyReply::Release(ReleaseReply::NotHeld), number % 7 == 0, "{three:?}");
    }
    assert_eq!(cluster.keys().len(), 86);
}

#[test]
fn a_prefix_with_a_hash_tag_puts_everything_into_one_slot() {
    let cluster = Cluster::start();
    let config =
        RedisConfig { prefix: "{shop}:".to_owned(), ..RedisConfig::new(&cluster.url(), "a").unwrap() };
    let rig = Rig::run(ClusterBackend::new(config).unwrap());
    rig.wait_until_up();
    for key in ["a", "b{c}", "}{"] {
        assert!(matches!(rig.send(key, enter(1, AcquireMode::Wait, 1)), Ok(AcquireReply::Acquired { .. })));
        assert!(matches!(rig.send(key, enter(2, AcquireMode::Wait, 1)), Ok(AcquireReply::Busy { .. })));
        assert_eq!(rig.send(key, leave(2)).unwrap(), ReleaseReply::Cancelled);
        assert_eq!(rig.send(key, leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    }
    assert_eq!(cluster.keys(), ["{shop}:dl1:f"]);
}
