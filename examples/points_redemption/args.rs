//! The command line, read by hand: six options do not pay for a parser.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

pub(crate) const HELP: &str = "\
usage: points_redemption [options]          compare the unguarded and the guarded function
       points_redemption serve [options]    run the HTTP service alone

  --url URL          where the locks are kept: memory: (default), redis://host:port/, postgres://..., etcd://...
  --instances N      service instances in this process (default 4)
  --processes N      service instances as processes of their own; needs a --url that they can share
  --requests N       concurrent redemptions (default 200)
  --points N         points on the account; a gift costs 100 (default 500)
  --database PATH    keep the SQLite file here (default: a temporary one)
  --json             print one JSON object instead of the table
  --listen ADDRESS   serve: where to listen (default 127.0.0.1:3000)
  --until-eof        serve: stop when standard input ends";

#[derive(Debug)]
pub(crate) enum Command {
    Compare(Compare),
    Serve(Serve),
    Help,
}

#[derive(Debug)]
pub(crate) struct Compare {
    pub(crate) url: String,
    pub(crate) instances: usize,
    pub(crate) place: Place,
    pub(crate) requests: usize,
    pub(crate) points: i64,
    pub(crate) database: Option<PathBuf>,
    pub(crate) output: Output,
}

/// Where the service instances run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    Processes,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Table,
    Json,
}

#[derive(Debug)]
pub(crate) struct Serve {
    pub(crate) url: String,
    pub(crate) listen: SocketAddr,
    pub(crate) database: PathBuf,
    pub(crate) until_eof: bool,
}

pub(crate) fn is_memory(url: &str) -> bool {
    url.starts_with("memory:")
}

pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Command, String> {
    // `--name=value` reads like `--name value`.
    let mut args = args.flat_map(|arg| match arg.split_once('=') {
        Some((name, value)) if name.starts_with("--") => vec![name.to_owned(), value.to_owned()],
        _ => vec![arg],
    });
    let (mut serve, mut until_eof) = (false, false);
    let mut listen = SocketAddr::from(([127, 0, 0, 1], 3000));
    let mut compare = Compare {
        url: "memory:".to_owned(),
        instances: 4,
        place: Place::Here,
        requests: 200,
        points: 500,
        database: None,
        output: Output::Table,
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "serve" => serve = true,
            "--url" => compare.url = value(&arg, args.next())?,
            "--instances" => compare.instances = positive(&arg, args.next())?,
            "--processes" => {
                compare.instances = positive(&arg, args.next())?;
                compare.place = Place::Processes;
            }
            "--requests" => compare.requests = positive(&arg, args.next())?,
            "--points" => compare.points = value(&arg, args.next())?,
            "--database" => compare.database = Some(value(&arg, args.next())?),
            "--json" => compare.output = Output::Json,
            "--listen" => listen = value(&arg, args.next())?,
            "--until-eof" => until_eof = true,
            "-h" | "--help" => return Ok(Command::Help),
            _ => return Err(format!("unknown argument `{arg}`")),
        }
    }
    if serve {
        let database = compare.database.unwrap_or_else(|| PathBuf::from("points.db"));
        return Ok(Command::Serve(Serve { url: compare.url, listen, database, until_eof }));
    }
    if compare.place == Place::Processes && is_memory(&compare.url) {
        return Err("`--processes` needs a lock server that processes can share: `--url redis://127.0.0.1/`"
            .to_owned());
    }
    Ok(Command::Compare(compare))
}

fn value<T: FromStr>(name: &str, value: Option<String>) -> Result<T, String> {
    let value = value.ok_or_else(|| format!("`{name}` needs a value"))?;
    value.parse().map_err(|_| format!("`{name}` cannot be `{value}`"))
}

fn positive(name: &str, text: Option<String>) -> Result<usize, String> {
    match value(name, text)? {
        0 => Err(format!("`{name}` must be at least 1")),
        number => Ok(number),
    }
}
