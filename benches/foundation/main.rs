//! What a lock costs when nobody else wants it: against the raw client and other libraries, in one process
//! and one run, with 1, 16, 64 and 1 000 tasks that each lock keys of their own. One task is measured twice: with
//! the server on a core of its own, and on the client's (see [`Cores`]).
//!
//! `cargo bench -p distlock-benches --bench foundation [-- --quick]`
//!
//! The raw client is measured with both settings of its socket, and the better one of each row is what all
//! others are compared with. Every round measures every contender, in an order that changes; a ratio is taken
//! within a round, and the median over the rounds is what counts. So a busy machine makes the rounds differ,
//! not the ratio. CPU time is that of the whole process of the client, and that of the server (`INFO cpu`),
//! divided by the number of locks.

mod load;
mod results;
mod sections;

use std::time::Duration;

use distlock_benches::Result;
use distlock_benches::cores::Cores;
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::table::say;

use load::{Figures, Load, Shape};
use results::Row;
use sections::Contender;

const SHAPES: [Shape; 5] = [
    Shape { tasks: 1, cores: Cores::Apart },
    Shape { tasks: 1, cores: Cores::Shared },
    Shape { tasks: 16, cores: Cores::Any },
    Shape { tasks: 64, cores: Cores::Any },
    Shape { tasks: 1_000, cores: Cores::Any },
];
/// How often a contender that fails is measured once more.
const ATTEMPTS: usize = 3;

#[tokio::main]
async fn main() -> Result<()> {
    let length = Length::from_args();
    let rounds = length.pick(25, 11);
    let span = length.pick(Duration::from_millis(150), Duration::from_millis(100));
    let server = Server::start();
    let loads = SHAPES.map(|shape| Load { shape, span, server: &server });
    let mut rows = SHAPES.map(|shape| Row { shape, rounds: Vec::new() });
    say(format!("uncontended: {rounds} rounds, {span:?} for each contender and number of tasks"));
    for round in 0..=rounds {
        let figures = one_round(&loads).await?;
        // The first round warms up.
        if round > 0 {
            for (at, row) in rows.iter_mut().enumerate() {
                row.rounds.push(figures.iter().filter_map(|loads| loads.get(at)).copied().collect());
            }
        }
    }
    results::report(&rows, &server.machine()?, length)
}

/// The figures of each contender, with each number of tasks.
async fn one_round(loads: &[Load<'_>]) -> Result<Vec<Vec<Figures>>> {
    let mut order: Vec<usize> = (0..Contender::ALL.len()).collect();
    fastrand::shuffle(&mut order);
    let mut all = vec![Vec::new(); order.len()];
    for at in order {
        all[at] = measured(Contender::ALL[at], loads).await?;
    }
    Ok(all)
}

/// Some libraries give up when a busy machine keeps them waiting for half a second: they are measured again.
async fn measured(contender: Contender, loads: &[Load<'_>]) -> Result<Vec<Figures>> {
    for _ in 0..ATTEMPTS {
        match contender.measure(loads).await {
            Ok(figures) => return Ok(figures),
            Err(error) => say(format!("{} is measured again: {error}", contender.name())),
        }
    }
    contender.measure(loads).await
}
