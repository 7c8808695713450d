//! The shapes of the files that the benches write. Fields that no chart needs are ignored.

use serde::Deserialize;

/// A number that has a place on a logarithmic axis.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "f64")]
pub(crate) struct Positive(f64);

impl Positive {
    pub(crate) fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Positive {
    type Error = String;

    fn try_from(value: f64) -> Result<Positive, String> {
        // The limit is far beyond any time or rate, and has few enough decades for an axis.
        if value > 1e-12 && value < 1e18 {
            Ok(Positive(value))
        } else {
            Err(format!("{value} is not a number above 0 that can be drawn"))
        }
    }
}

/// `foundation.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Foundation {
    pub(crate) machine: String,
    pub(crate) command: String,
    pub(crate) rounds: u32,
    pub(crate) rows: Vec<Load>,
}

/// All contenders with one number of tasks.
#[derive(Debug, Deserialize)]
pub(crate) struct Load {
    pub(crate) tasks: Positive,
    /// The name of the raw client at its better setting.
    pub(crate) raw: String,
    pub(crate) contenders: Vec<Contender>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) locks_per_second: Figure,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Figure {
    pub(crate) median: Positive,
}

/// `waiting.json`. A run of some parts has no data for the others.
#[derive(Debug, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) machine: String,
    pub(crate) command: String,
    pub(crate) tasks: Option<Vec<Queue>>,
    pub(crate) processes: Option<HandOffs>,
}

/// The tasks of one process that queue for one key, for one contender.
#[derive(Debug, Deserialize)]
pub(crate) struct Queue {
    pub(crate) name: String,
    /// The points of the runs that ended in time.
    pub(crate) points: Vec<QueuePoint>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct QueuePoint {
    pub(crate) tasks: Positive,
    /// The total time, divided by the time of the holds alone.
    pub(crate) to_ideal: Positive,
}

/// Several processes on one key.
#[derive(Debug, Deserialize)]
pub(crate) struct HandOffs {
    /// The time of a message between two processes without any library.
    pub(crate) floor: Times,
    pub(crate) rows: Vec<HandOff>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Times {
    pub(crate) p50_ns: Positive,
    pub(crate) p99_ns: Positive,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HandOff {
    pub(crate) name: String,
    pub(crate) processes: u32,
    pub(crate) p50_ns: Positive,
    pub(crate) p99_ns: Positive,
}

/// One of the parts in `stores*.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    pub(crate) place: String,
    pub(crate) part: String,
    pub(crate) rows: Vec<PartRow>,
}

/// Only the part with processes has hand-offs.
#[derive(Debug, Deserialize)]
pub(crate) struct PartRow {
    pub(crate) who: String,
    #[serde(rename = "hand-off p50 µs")]
    pub(crate) hand_off: Option<Positive>,
    #[serde(rename = "p99 µs")]
    pub(crate) p99: Option<Positive>,
}

/// One of the objects in `growth.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Fleet {
    pub(crate) load: String,
    pub(crate) processes: Positive,
    pub(crate) sections_per_s: f64,
    pub(crate) commands_per_section: f64,
    pub(crate) heartbeats_per_s: f64,
    pub(crate) server_busy: Positive,
    /// In bytes.
    pub(crate) server_memory: Positive,
}
