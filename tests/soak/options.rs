//! The command line.

use std::time::Duration;

pub(crate) const USAGE: &str =
    "soak [--minutes N | --seconds N] [--seed N] [--topology one|sentinel|cluster|quorum|control|all]
     [--clients N] [--tasks N]";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    One,
    Sentinel,
    Cluster,
    Quorum,
    Control,
}

impl Topology {
    const ALL: [Topology; 4] = [Topology::One, Topology::Sentinel, Topology::Cluster, Topology::Quorum];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Topology::One => "one server",
            Topology::Sentinel => "Sentinel",
            Topology::Cluster => "cluster of 3",
            Topology::Quorum => "quorum of five",
            Topology::Control => "control: half of the clients broken",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// Of all topologies together.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) topologies: Vec<Topology>,
    pub(crate) clients: usize,
    pub(crate) tasks: usize,
}

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
        let mut options = Options {
            time: Duration::from_secs(60),
            seed: 1,
            topologies: Topology::ALL.to_vec(),
            clients: 4,
            tasks: 16,
        };
        for pair in words.chunks(2) {
            let [option, value] = pair else { return Err(format!("`{}` has no value", pair[0])) };
            let number = || value.parse::<u64>().map_err(|error| format!("{option} {value}: {error}"));
            let count = || number().map(|number| usize::try_from(number).unwrap_or(usize::MAX));
            match option.as_str() {
                "--minutes" => options.time = Duration::from_secs(60 * number()?),
                "--seconds" => options.time = Duration::from_secs(number()?),
                "--seed" => options.seed = number()?,
                "--clients" => options.clients = count()?,
                "--tasks" => options.tasks = count()?,
                "--topology" => {
                    options.topologies = match value.as_str() {
                        "one" => vec![Topology::One],
                        "sentinel" => vec![Topology::Sentinel],
                        "cluster" => vec![Topology::Cluster],
                        "quorum" => vec![Topology::Quorum],
                        "control" => vec![Topology::Control],
                        "all" => Topology::ALL.to_vec(),
                        _ => return Err(format!("unknown topology `{value}`")),
                    }
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
        assert_eq!(options.time, Duration::from_secs(120));
        assert_eq!((options.seed, options.topologies), (7, vec![Topology::Quorum]));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse("--minutes").unwrap_err().contains("--minutes"));
        assert!(parse("--minutes x").unwrap_err().contains("--minutes x"));
        assert!(parse("--topology two").unwrap_err().contains("two"));
        assert!(parse("--fast 1").unwrap_err().contains("--fast"));
    }
}
