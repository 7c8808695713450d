//! Tasks on separate keys, with the server behind a link with a delay.

use std::net::SocketAddr;
use std::time::Duration;

use distlock_fixtures::SlowLink;

use crate::Result;
use crate::alone::distinct;
use crate::locks::{Contender, Place, with_contender};
use crate::report::{Part, Row};

const TURNS: u32 = 3;
const WARM_UP: Duration = Duration::from_secs(1);
const SPAN: Duration = Duration::from_secs(1);

/// The name, the delay in microseconds each way, and the number of tasks.
const LOADS: [(&str, u64, usize); 6] = [
    ("0.5 ms, 1 task", 500, 1),
    ("8 tasks", 500, 8),
    ("64 tasks", 500, 64),
    ("2 ms, 1 task", 2_000, 1),
    ("8 tasks ", 2_000, 8),
    ("64 tasks ", 2_000, 64),
];

pub(crate) async fn far(place: &Place<'_>) -> Result<Part> {
    let contenders = [place.least, Contender::Distlock];
    let mut rows = contenders.map(|it| Row { who: it.name(), figures: Vec::new() });
    for (name, micros, tasks) in LOADS {
        let mut counts = [0, 0];
        for _ in 0..TURNS {
            for (contender, count) in contenders.into_iter().zip(&mut counts) {
                let near = place.url(contender);
                let server = server_in(near)?;
                let link = SlowLink::to(server, Duration::from_micros(micros));
                let url = &near.replace(&server.to_string(), &link.address().to_string());
                *count += with_contender!(contender, url, "far", locks => {
                    // Makes connections and prepares statements before the measurement.
                    distinct(&locks, tasks, WARM_UP).await?;
                    distinct(&locks, tasks, SPAN).await?
                });
            }
        }
        for (row, count) in rows.iter_mut().zip(counts) {
            row.figures.push((name, count as f64 / f64::from(TURNS) / SPAN.as_secs_f64()));
        }
    }
    let title = "locks per s on keys of their own, with a link that takes so long each way".into();
    Ok(Part { place: place.name, title, rows: rows.into() })
}

/// The server's address, which is part of its URL.
fn server_in(url: &str) -> Result<SocketAddr> {
    let start = url.find("127.0.0.1:").ok_or("the server is not on the loopback")?;
    let rest = &url[start..];
    let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.' && one != ':');
    Ok(rest[..end.unwrap_or(rest.len())].parse()?)
}
