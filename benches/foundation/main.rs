//! The cost of an uncontended lock, compared with the raw client and other libraries in one process and one run, with
//! 1, 16, 64 and 1 000 tasks. Each task locks its own keys. One task is measured twice: with the server on a separate
//! core, and on the client's core (see [`Cores`]).
//!
//! `cargo bench -p distlock-benches --bench foundation [-- --quick] [loopback] [links] [readers]`
//!
//! `links`: the same through links with a delay (see [`SlowLink`]), as between two machines.
//!
//! `readers`: the gain if the callers' runtime reads replies. It is measured on a runtime that was declared to have
//! I/O, and on one that was not, for which the manager's I/O thread reads all replies.
//!
//! The raw client is measured with both settings of its socket. In each row, all others are compared with the better
//! one. Every round measures every contender, in an order that changes. A ratio is computed within a round, and the
//! result is the median over the rounds. So a busy machine changes the rounds, but not the ratio. CPU time is that of
//! the whole client process, and that of the server (`INFO cpu`), divided by the number of locks.

mod load;
mod results;
mod sections;

use std::time::Duration;

use distlock_benches::Result;
use distlock_benches::cores::Cores;
use distlock_benches::options::{Length, Parts};
use distlock_benches::server::Server;
use distlock_benches::table::say;
use distlock_fixtures::SlowLink;

use load::{Figures, Load, Shape};
use results::Row;
use sections::Contender;

const LOOPBACK: [(usize, Cores); 5] =
    [(1, Cores::Apart), (1, Cores::Shared), (16, Cores::Any), (64, Cores::Any), (1_000, Cores::Any)];
const FAR: [usize; 4] = [1, 8, 64, 1_000];
/// The delay of a link, each way.
const LINKS: [Duration; 4] = [
    Duration::from_micros(100),
    Duration::from_micros(500),
    Duration::from_millis(2),
    Duration::from_millis(50),
];
/// How often the measurement of a failed contender is repeated.
const ATTEMPTS: usize = 3;

#[tokio::main]
async fn main() -> Result<()> {
    let (length, parts) = (Length::from_args(), Parts::from_args());
    let server = Server::start();
    let (mut rows, mut readers) = (Vec::new(), Vec::new());
    if parts.wants("loopback") {
        let rounds = length.pick(25, 11);
        let span = length.pick(Duration::from_millis(150), Duration::from_millis(100));
        say(format!("uncontended: {rounds} rounds, {span:?} for each contender and number of tasks"));
        let url = server.url();
        let loads = loopback(span, &server, &url);
        rows.extend(measure(rounds, &Contender::ALL, &loads).await?);
    }
    if parts.wants("links") {
        let rounds = length.pick(9, 3);
        say(format!("links that take time: {rounds} rounds for each contender and number of tasks"));
        for each_way in LINKS {
            let link = SlowLink::to(server.address(), each_way);
            let url = format!("redis://{}/", link.address());
            // Each lock is two round trips.
            let span = Duration::from_millis(150) + 40 * each_way;
            let shapes = FAR.map(|tasks| Shape { tasks, cores: Cores::Any, each_way });
            let loads = shapes.map(|shape| Load { shape, span, server: &server, url: &url });
            rows.extend(measure(rounds, &Contender::FAR, &loads).await?);
        }
    }
    if parts.wants("readers") {
        let (rounds, span) = (length.pick(25, 5), Duration::from_millis(100));
        say(format!(
            "which thread reads replies: {rounds} rounds, {span:?} for each contender and number of tasks"
        ));
        let url = server.url();
        readers = measure(rounds, &Contender::READERS, &loopback(span, &server, &url)).await?;
    }
    results::report(&rows, &readers, &server.machine()?, length)
}

fn loopback<'a>(span: Duration, server: &'a Server, url: &'a str) -> [Load<'a>; LOOPBACK.len()] {
    let shapes = LOOPBACK.map(|(tasks, cores)| Shape { tasks, cores, each_way: Duration::ZERO });
    shapes.map(|shape| Load { shape, span, server, url })
}

/// One row for each load.
async fn measure(rounds: usize, contenders: &'static [Contender], loads: &[Load<'_>]) -> Result<Vec<Row>> {
    let row = |load: &Load<'_>| Row { shape: load.shape, contenders, rounds: Vec::new() };
    let mut rows: Vec<Row> = loads.iter().map(row).collect();
    for round in 0..=rounds {
        let figures = one_round(contenders, loads).await?;
        // The first round warms up.
        if round > 0 {
            for (at, row) in rows.iter_mut().enumerate() {
                row.rounds.push(figures.iter().filter_map(|loads| loads.get(at)).copied().collect());
            }
        }
    }
    Ok(rows)
}

/// The figures of each contender, with each number of tasks.
async fn one_round(contenders: &[Contender], loads: &[Load<'_>]) -> Result<Vec<Vec<Figures>>> {
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    fastrand::shuffle(&mut order);
    let mut all = vec![Vec::new(); order.len()];
    for at in order {
        all[at] = measured(contenders[at], loads).await?;
    }
    Ok(all)
}

/// Some libraries time out if a busy machine delays them for half a second. Their measurement is repeated.
async fn measured(contender: Contender, loads: &[Load<'_>]) -> Result<Vec<Figures>> {
    for _ in 0..ATTEMPTS {
        match contender.measure(loads).await {
            Ok(figures) => return Ok(figures),
            Err(error) => say(format!("{} is measured again: {error}", contender.name())),
        }
    }
    contender.measure(loads).await
}
