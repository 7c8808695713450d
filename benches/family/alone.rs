//! Uncontended locks: each kind compared with an exclusive lock on one key.

use distlock_benches::Result;
use distlock_benches::options::Length;
use distlock_benches::rounds::{Contender, Extent, Rounds};
use distlock_benches::server::Server;
use distlock_benches::stats::micros;
use distlock_benches::table::{Table, say};

use crate::members::{Ask, AsyncRedisLock, Distlock, DistributedLock, Member, Rlock};

const KINDS: [(&str, Ask); 4] = [
    ("exclusive, one key", Ask::Alone),
    ("shared", Ask::Read),
    ("8 holders", Ask::Limited(8)),
    ("two keys", Ask::Both),
];

async fn add<M: Member>(server: &Server, contenders: &mut Vec<Contender>) -> Result<()> {
    let locks = M::connect(&server.url()).await?;
    for (kind, ask) in KINDS {
        if M::offers(ask) {
            let locks = locks.clone();
            contenders.push(Contender::new(format!("{}, {kind}", M::NAME), move |at| {
                let locks = locks.clone();
                async move {
                    M::release(locks.acquire(ask, &format!("bench:{ask:?}:{}", at % 999)).await?).await
                }
            }));
        }
    }
    Ok(())
}

pub(super) async fn measure(server: &Server, length: Length) -> Result<()> {
    say("each kind of lock, uncontended …");
    let connect = async || {
        let mut contenders = Vec::new();
        add::<Distlock>(server, &mut contenders).await?;
        add::<Rlock>(server, &mut contenders).await?;
        add::<DistributedLock>(server, &mut contenders).await?;
        add::<AsyncRedisLock>(server, &mut contenders).await?;
        Ok(contenders)
    };
    let extent = Extent { rounds: length.pick(21, 5), turns: length.pick(10, 5) };
    let rounds = Rounds::run(extent, connect).await?;
    let mut table = Table::new(&["uncontended", "p50", "÷ distlock, exclusive, one key"]);
    for (at, name) in rounds.names().iter().enumerate() {
        table.row([name.clone(), micros(rounds.p50(at)), format!("{:.2}", rounds.ratio(at, 0))]);
    }
    table.print("Nobody else wants the lock");
    Ok(())
}
