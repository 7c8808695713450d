//! The words of the command line.

use std::{path::PathBuf, time::Duration};

use distlock_referee::{campaign::Options, history::FaultKind, servers::Store, table};

use crate::Failure;

pub(crate) const USAGE: &str = "\
distlock-referee run ADAPTER [OPTIONS]      judges an adapter; `list` names those that come with the referee
distlock-referee soak STORE MINUTES [OPTIONS]      the same as: run distlock --store STORE, with all faults
distlock-referee compile DIR                the adapter in Java, into DIR; prints which packages are missing
distlock-referee list                       the adapters, and what runs each of them
distlock-referee table DIR                  the reports in DIR, and in the directories in it, as a table
    --seconds 60          how long faults happen
    --seed 7              decides the faults and the sections
    --processes 4         processes of the adapter
    --tasks 1             requests of each process for each key at a time
    --keys 2              keys
    --ttl 1000            the ttl of a lock, in milliseconds
    --hold MS             the longest section; if missing, two ttls if the library renews, and a third of one if not
    --faults stop,kill,cut,delay,server      which faults happen; `none`
    --store redis         redis, postgres, mysql, etcd, zookeeper, memcached, sqlite, memory
    --command 'PROGRAM ARGUMENTS'      an adapter of your own, instead of a known one
    --report DIR          writes report.txt, report.json and report.html";

pub(crate) struct Run {
    pub(crate) options: Options,
    pub(crate) report: Option<PathBuf>,
}

pub(crate) fn parse(words: &[&str]) -> Result<Run, Failure> {
    let (name, mut store, mut time, rest) = match *words {
        ["soak", store, minutes, ref rest @ ..] => {
            ("distlock", Some(store_named(store)?), Duration::from_secs(minutes.parse::<u64>()? * 60), rest)
        }
        ["run", name, ref rest @ ..] => (name, None, Duration::from_secs(60), rest),
        _ => return Err("which adapter?".into()),
    };
    let mut options = Options {
        command: Vec::new(),
        store: Store::Redis,
        time,
        seed: 7,
        processes: 4,
        tasks: 1,
        keys: 2,
        ttl: Duration::from_secs(1),
        hold: None,
        faults: FaultKind::ALL.to_vec(),
    };
    let (mut report, mut command) = (None, None);
    for pair in rest.chunks(2) {
        let &[option, value] = pair else { return Err(format!("{} without a value", pair.join(" ")).into()) };
        match option {
            "--seconds" => time = Duration::from_secs(value.parse()?),
            "--seed" => options.seed = value.parse()?,
            "--processes" => options.processes = value.parse()?,
            "--tasks" => options.tasks = value.parse()?,
            "--keys" => options.keys = value.parse()?,
            "--ttl" => options.ttl = Duration::from_millis(value.parse()?),
            "--hold" => options.hold = Some(Duration::from_millis(value.parse()?)),
            "--faults" => options.faults = faults_named(value)?,
            "--store" => store = Some(store_named(value)?),
            "--command" => command = Some(value.split_whitespace().map(str::to_owned).collect()),
            "--report" => report = Some(PathBuf::from(value)),
            _ => return Err(format!("unknown option {option}").into()),
        }
    }
    options.time = time;
    if let Some(command) = command {
        (options.command, options.store) = (command, store.unwrap_or(Store::Redis));
    } else {
        let adapter = table::find(name, store, &std::env::current_exe()?);
        let adapter = adapter.ok_or_else(|| format!("no adapter `{name}`"))?;
        (options.command, options.store) = (adapter.command, adapter.store);
    }
    Ok(Run { options, report })
}

fn store_named(name: &str) -> Result<Store, Failure> {
    Store::named(name).ok_or_else(|| format!("no store `{name}`").into())
}

fn faults_named(names: &str) -> Result<Vec<FaultKind>, Failure> {
    let named = |name: &str| FaultKind::ALL.into_iter().find(|kind| kind.name() == name);
    let names = names.split(',').filter(|name| *name != "none");
    names.map(|name| named(name).ok_or_else(|| format!("no fault `{name}`").into())).collect()
}
