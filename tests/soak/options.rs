//! The command line.

use std::time::Duration;

use crate::plan::Offer;

pub(crate) const USAGE: &str = "soak [--minutes N | --seconds N | --sections N] [--seed N]
     [--store redis|sentinel|cluster|quorum|postgres|mysql|etcd|zookeeper|memcached|control|all]
     [--clients N] [--tasks N] [--long PERCENT] [--keys TIMES]";

/// The store of the locks. `--topology` is another name for `--store`, and `one` for `redis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Redis,
    Sentinel,
    Cluster,
    Quorum,
    Postgres,
    MariaDb,
    Etcd,
    ZooKeeper,
    Memcached,
    Control,
}

impl Store {
    /// All stores, with their names.
    const NAMES: [(&str, Store); 10] = [
        ("redis", Store::Redis),
        ("sentinel", Store::Sentinel),
        ("cluster", Store::Cluster),
        ("quorum", Store::Quorum),
        ("postgres", Store::Postgres),
        ("mysql", Store::MariaDb),
        ("etcd", Store::Etcd),
        ("zookeeper", Store::ZooKeeper),
        ("memcached", Store::Memcached),
        ("control", Store::Control),
    ];

    pub(crate) fn named(name: &str) -> Option<Store> {
        let name = if name == "one" { "redis" } else { name };
        Store::NAMES.iter().find(|(known, _)| *known == name).map(|(_, store)| *store)
    }

    pub(crate) fn name(self) -> &'static str {
        Store::NAMES.iter().find(|(_, store)| *store == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Store::Redis => "Redis, one server",
            Store::Sentinel => "Redis, Sentinel",
            Store::Cluster => "Redis, cluster of 3",
            Store::Quorum => "Redis, quorum of five",
            Store::Postgres => "PostgreSQL",
            Store::MariaDb => "MariaDB",
            Store::Etcd => "etcd, three members",
            Store::ZooKeeper => "ZooKeeper, three members",
            Store::Memcached => "Memcached",
            Store::Control => "control: half of the clients broken",
        }
    }

    /// The abilities of the store. Requests for other abilities are refused.
    pub(crate) fn offer(self, long_percent: u32, key_factor: u32) -> Offer {
        let all =
            Offer { shared: true, fenced: true, min_hold: true, linger: true, long_percent, key_factor };
        match self {
            Store::Redis | Store::Sentinel | Store::Cluster | Store::Control => all,
            Store::Postgres | Store::MariaDb | Store::Etcd => all,
            Store::Quorum => Offer { shared: false, linger: false, ..all },
            Store::ZooKeeper => Offer { min_hold: false, ..all },
            Store::Memcached => Offer { shared: false, fenced: false, ..all },
        }
    }
}

/// How long the faults continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// On all stores together.
    Time(Duration),
    /// Until this many sections have ended, on each store. No times are judged.
    Sections(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) length: Length,
    pub(crate) seed: u64,
    pub(crate) stores: Vec<Store>,
    pub(crate) clients: usize,
    pub(crate) tasks: usize,
    pub(crate) long_percent: u32,
    pub(crate) key_factor: u32,
}

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
        let all = Store::NAMES.iter().map(|(_, store)| *store).filter(|store| *store != Store::Control);
        let mut options = Options {
            length: Length::Time(Duration::from_secs(60)),
            seed: 1,
            stores: all.clone().collect(),
            clients: 4,
            tasks: 16,
            long_percent: 100,
            key_factor: 1,
        };
        for pair in words.chunks(2) {
            let [option, value] = pair else { return Err(format!("`{}` has no value", pair[0])) };
            let number = || value.parse::<u64>().map_err(|error| format!("{option} {value}: {error}"));
            let count = || number().map(|number| usize::try_from(number).unwrap_or(usize::MAX));
            match option.as_str() {
                "--minutes" => options.length = Length::Time(Duration::from_secs(60 * number()?)),
                "--seconds" => options.length = Length::Time(Duration::from_secs(number()?)),
                "--sections" => options.length = Length::Sections(count()?),
                "--seed" => options.seed = number()?,
                "--clients" => options.clients = count()?,
                "--tasks" => options.tasks = count()?,
                "--long" => options.long_percent = u32::try_from(number()?).unwrap_or(u32::MAX),
                "--keys" => options.key_factor = u32::try_from(number()?.max(1)).unwrap_or(u32::MAX),
                "--store" | "--topology" if value == "all" => options.stores = all.clone().collect(),
                "--store" | "--topology" => {
                    let store = Store::named(value).ok_or_else(|| format!("unknown store `{value}`"))?;
                    options.stores = vec![store];
                }
                _ => return Err(format!("unknown option `{option}`")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn options_are_read() {
        let options = parse("--minutes 2 --seed 7 --topology quorum").unwrap();
        assert_eq!(options.length, Length::Time(Duration::from_secs(120)));
        assert_eq!((options.seed, options.stores), (7, vec![Store::Quorum]));
        let options = parse("--sections 500 --store one").unwrap();
        assert_eq!((options.length, options.stores), (Length::Sections(500), vec![Store::Redis]));
        assert_eq!(parse("--store all").unwrap().stores.len(), 9);
        let options = parse("--long 2 --keys 8").unwrap();
        assert_eq!((options.long_percent, options.key_factor), (2, 8));
    }

    #[test]
    fn every_store_has_a_name() {
        for (name, store) in Store::NAMES {
            assert_eq!((store.name(), Store::named(name)), (name, Some(store)));
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse("--minutes").unwrap_err().contains("--minutes"));
        assert!(parse("--minutes x").unwrap_err().contains("--minutes x"));
        assert!(parse("--store two").unwrap_err().contains("two"));
        assert!(parse("--fast 1").unwrap_err().contains("--fast"));
    }
}
