//! The charts of each result.

use crate::drawing::{Axis, Limit, Line, Lines, Pen, Scale, Span, Spans, draw_lines, draw_spans};
use crate::shapes::{Fleet, Foundation, Load, Part, Queue, Times, Waiting};

/// A drawn chart.
#[derive(Debug)]
pub(crate) struct Picture {
    /// The name of the file, without `.svg`.
    pub(crate) name: String,
    pub(crate) svg: String,
}

/// The charts, and the data that the file lacks because only some parts were run.
type Drawn = Result<(Vec<Picture>, Vec<String>), String>;

const RAW: &str = "raw redis-rs, better setting";
const OURS: &str = "distlock";

fn pen(name: &str) -> Pen {
    if name.starts_with(OURS) { Pen::Bold } else { Pen::Plain }
}

fn line(name: &str, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.to_owned(), pen: pen(name), points }
}

/// An axis of numbers of tasks or processes.
fn counts(title: &str) -> Axis {
    Axis { title: title.to_owned(), scale: Scale::Log }
}

/// Throughput by the number of tasks.
pub(crate) fn foundation(results: &Foundation) -> Drawn {
    let first = results.rows.first().ok_or("field `rows` is empty")?;
    // One line for both settings of the raw client, with the better one of each row.
    let raw_names: Vec<&str> = results.rows.iter().map(|row| &*row.raw).collect();
    let others = first.contenders.iter().map(|one| &*one.name);
    let others = others.filter(|name| !name.starts_with("raw,") && !raw_names.contains(name));
    let mut series = vec![line(RAW, through(&results.rows, |row| &row.raw)?)];
    for name in others {
        series.push(line(name, through(&results.rows, |_| name)?));
    }
    let chart = Lines {
        title: "Uncontended locks per second, each task on keys of its own".to_owned(),
        under: vec![
            format!("{}; medians of {} rounds", results.machine, results.rounds),
            results.command.clone(),
        ],
        x: counts("tasks of one process"),
        y: Axis { title: "locks per second".to_owned(), scale: Scale::Log },
        series,
        limit: None,
    };
    Ok((vec![Picture { name: "throughput".to_owned(), svg: draw_lines(&chart)? }], Vec::new()))
}

/// The throughput of the contender with this name, in each row.
fn through<'a>(rows: &'a [Load], name: impl Fn(&'a Load) -> &'a str) -> Result<Vec<(f64, f64)>, String> {
    let point = |(index, row): (usize, &'a Load)| {
        let name = name(row);
        let one = row.contenders.iter().find(|one| one.name == name);
        let one =
            one.ok_or_else(|| format!("field `rows[{index}].contenders`: nobody is called `{name}`"))?;
        Ok((row.tasks.get(), one.locks_per_second.median.get()))
    };
    rows.iter().enumerate().map(point).collect()
}

/// Contended waiting, and hand-offs between processes.
pub(crate) fn waiting(results: &Waiting) -> Drawn {
    let (mut pictures, mut absent) = (Vec::new(), Vec::new());
    let under = vec![results.machine.clone(), results.command.clone()];
    if let Some(queues) = &results.tasks {
        let points = |queue: &Queue| {
            queue.points.iter().map(|point| (point.tasks.get(), point.to_ideal.get())).collect()
        };
        let mut series: Vec<Line> = queues.iter().map(|queue| line(&queue.name, points(queue))).collect();
        // The order decides the marks, so they are the same as in the chart of the throughput.
        series.sort_by_key(|line| !line.name.starts_with("raw"));
        let chart = Lines {
            title: "Tasks of one process that each take the same key once, hold 2 ms".to_owned(),
            under: under.clone(),
            x: counts("tasks"),
            y: Axis { title: "total time ÷ time of the holds (1 = no loss)".to_owned(), scale: Scale::Log },
            series,
            limit: None,
        };
        pictures.push(Picture { name: "contended".to_owned(), svg: draw_lines(&chart)? });
    } else {
        absent.push("field `tasks`".to_owned());
    }
    if let Some(processes) = &results.processes {
        let Times { p50_ns, p99_ns } = &processes.floor;
        let mut spans = vec![Span {
            name: "floor: one publishes, another hears".to_owned(),
            pen: Pen::Plain,
            from: p50_ns.get() / 1e6,
            to: p99_ns.get() / 1e6,
        }];
        spans.extend(processes.rows.iter().map(|row| Span {
            name: format!("{} processes, {}", row.processes, row.name),
            pen: pen(&row.name),
            from: row.p50_ns.get() / 1e6,
            to: row.p99_ns.get() / 1e6,
        }));
        let chart = Spans {
            title: "Hand-off between processes on one key, hold 0.5 ms, think 1 ms".to_owned(),
            under,
            axis: "from a release until the next grant, ms".to_owned(),
            guide: Some(p50_ns.get() / 1e6),
            spans,
        };
        pictures.push(Picture { name: "hand_off".to_owned(), svg: draw_spans(&chart)? });
    } else {
        absent.push("field `processes`".to_owned());
    }
    Ok((pictures, absent))
}

/// Hand-offs between processes on the other stores.
pub(crate) fn stores(file: &str, parts: &[Part]) -> Drawn {
    let (mut spans, mut title) = (Vec::new(), None);
    for (index, part) in parts.iter().enumerate() {
        for (nth, row) in part.rows.iter().enumerate() {
            let Some(p50) = row.hand_off else { continue };
            let p99 = row.p99.ok_or_else(|| format!("field `[{index}].rows[{nth}].p99 µs` is missing"))?;
            title = Some(&part.part);
            spans.push(Span {
                name: format!("{}: {}", part.place, row.who),
                pen: pen(&row.who),
                from: p50.get() / 1e3,
                to: p99.get() / 1e3,
            });
        }
    }
    let Some(title) = title else {
        return Ok((Vec::new(), vec!["the part `processes`".to_owned()]));
    };
    let chart = Spans {
        title: format!("Hand-off: {title}"),
        under: vec!["all servers and clients on one machine; compare the rows of one store".to_owned()],
        axis: "from a release until the next grant, ms".to_owned(),
        guide: None,
        spans,
    };
    let name = format!("{}_hand_off", file.replace('-', "_"));
    Ok((vec![Picture { name, svg: draw_spans(&chart)? }], Vec::new()))
}

/// The load of a growing fleet on its server.
pub(crate) fn growth(fleets: &[Fleet]) -> Drawn {
    let mut loads: Vec<&str> = Vec::new();
    for fleet in fleets {
        if !loads.contains(&&*fleet.load) {
            loads.push(&fleet.load);
        }
    }
    let series = |of: fn(&Fleet) -> Option<f64>| -> Vec<Line> {
        let points = |load: &str| {
            let its = fleets.iter().filter(|fleet| fleet.load == load);
            its.filter_map(|fleet| Some((fleet.processes.get(), of(fleet)?))).collect::<Vec<_>>()
        };
        // If locks are only held, there are no sections.
        let lines = loads.iter().map(|load| Line { pen: Pen::Bold, ..line(load, points(load)) });
        lines.filter(|line| !line.points.is_empty()).collect()
    };
    let picture = |name: &str, how: &str, title: &str, y: Axis, series, limit| {
        let (title, under) = (title.to_owned(), vec![how.to_owned()]);
        let svg = draw_lines(&Lines { title, under, x: counts("processes"), y, series, limit })?;
        Ok(Picture { name: name.to_owned(), svg })
    };
    let axis = |title: &str, scale| Axis { title: title.to_owned(), scale };
    let simulated = "simulated: real engines against the model server, without faults";
    let pictures = [
        picture(
            "growth_commands",
            simulated,
            "Commands that a section costs, heartbeats not counted",
            axis("commands per section", Scale::FromZero),
            series(|fleet| (fleet.sections_per_s > 0.0).then_some(fleet.commands_per_section)),
            None,
        ),
        picture(
            "growth_heartbeats",
            simulated,
            "Heartbeats of waiting processes",
            axis("heartbeats per second", Scale::Log),
            series(|fleet| (fleet.heartbeats_per_s > 0.0).then_some(fleet.heartbeats_per_s)),
            None,
        ),
        picture(
            "growth_server",
            "simulated, with the CPU time that each command was measured to take",
            "How busy the server is",
            axis("server busy, % of a core", Scale::Log),
            series(|fleet| Some(fleet.server_busy.get() * 100.0)),
            Some(Limit { at: 100.0, name: "limit of one server" }),
        ),
        picture(
            "growth_memory",
            "computed from measured sizes: locks, places in queues, and two connections of each process",
            "Memory of the server",
            axis("MB", Scale::Log),
            series(|fleet| Some(fleet.server_memory.get() / 1e6)),
            None,
        ),
    ];
    Ok((pictures.into_iter().collect::<Result<_, String>>()?, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{one, stream};

    const FOUNDATION: &str = r#"{
        "bench": "foundation", "machine": "2 cores, redis-server 7", "command": "cargo bench", "rounds": 5,
        "rows": [
            {"tasks": 1, "raw": "raw, TCP_NODELAY", "contenders": [
                {"name": "raw, defaults", "locks_per_second": {"median": 22000.5, "to_raw": 0.9}},
                {"name": "raw, TCP_NODELAY", "locks_per_second": {"median": 23000, "to_raw": 1}},
                {"name": "distlock", "locks_per_second": {"median": 20000.0, "to_raw": 0.9}},
                {"name": "rslock 0.10", "locks_per_second": {"median": 15000.0, "to_raw": 0.7}}]},
            {"tasks": 1000, "raw": "raw, defaults", "contenders": [
                {"name": "raw, defaults", "locks_per_second": {"median": 150000.0, "to_raw": 1}},
                {"name": "raw, TCP_NODELAY", "locks_per_second": {"median": 120000.0, "to_raw": 0.8}},
                {"name": "distlock", "locks_per_second": {"median": 148000.0, "to_raw": 0.98}},
                {"name": "rslock 0.10", "locks_per_second": {"median": 90000.0, "to_raw": 0.6}}]}
        ]}"#;

    const WAITING: &str = r#"{
        "machine": "2 cores, redis-server 7", "command": "cargo bench --bench waiting",
        "figures": [{"what": "8 processes, distlock: commands per section", "measured": 2.0}],
        "tasks": [
            {"name": "distlock", "points": [
                {"tasks": 20, "to_ideal": 1.02, "commands_per_section": 0.1},
                {"tasks": 500, "to_ideal": 1.04, "commands_per_section": 0.09}]},
            {"name": "rlock 0.2", "points": []}],
        "processes": {
            "floor": {"p50_ns": 80000, "p99_ns": 190000},
            "rows": [
                {"name": "distlock", "processes": 32, "p50_ns": 250000, "p99_ns": 400000, "commands_per_section": 2.0},
                {"name": "rslock 0.10", "processes": 8, "p50_ns": 1900000, "p99_ns": 2100000,
                    "commands_per_section": 2.2}]}}"#;

    const STORES: &str = r#"[
        {"place": "etcd", "part": "one task, acquire and release", "rows": [
            {"who": "distlock", "p50 µs": 919.0, "p99 µs": 4883.0}]},
        {"place": "etcd", "part": "8 processes on one key", "rows": [
            {"who": "distlock", "hand-off p50 µs": 1061.0, "p99 µs": 6338.0, "fairness": 1.0},
            {"who": "raw queue", "hand-off p50 µs": 2077.0, "p99 µs": 12660.0, "fairness": 1.0}]}]"#;

    const GROWTH: &str = r#"
        {"load":"one key","processes":100,"sections_per_s":738.0,"commands_per_section":2.001,
         "heartbeats_per_s":2.9,"server_busy":0.047,"server_memory":7000000}
        {"load":"one key","processes":10000,"sections_per_s":776.0,"commands_per_section":2.21,
         "heartbeats_per_s":4231.1,"server_busy":0.16,"server_memory":760000000}
        {"load":"keys held","processes":100,"sections_per_s":0.0,"commands_per_section":0.0,
         "heartbeats_per_s":0.0,"server_busy":0.2,"server_memory":17000000}"#;

    fn assert_shows(picture: &Picture, name: &str, words: &[&str]) {
        assert_eq!(picture.name, name);
        for word in words {
            assert!(picture.svg.contains(word), "{name}: {word}: {}", picture.svg);
        }
    }

    #[test]
    fn throughput_shows_raw_at_its_better_setting_and_everybody_else() {
        let (pictures, absent) = foundation(&one(FOUNDATION).unwrap()).unwrap();
        let names =
            ["redis-rs, better setting: 150\u{a0}000", "distlock: 148\u{a0}000", "rslock 0.10: 90\u{a0}000"];
        assert_shows(&pictures[0], "throughput", &names);
        assert_shows(
            &pictures[0],
            "throughput",
            &["2 cores, redis-server 7; medians of 5 rounds", "cargo bench"],
        );
        assert!(!pictures[0].svg.contains("raw, ") && absent.is_empty());
    }

    #[test]
    fn a_contender_who_is_missing_in_a_row_is_an_error() {
        let text = FOUNDATION.replace(r#""raw": "raw, defaults""#, r#""raw": "raw, other""#);
        let error = foundation(&one(&text).unwrap()).unwrap_err();
        assert!(error.contains("rows[1].contenders") && error.contains("raw, other"), "{error}");
        let empty = r#"{"machine": "m", "command": "c", "rounds": 5, "rows": []}"#;
        assert!(foundation(&one(empty).unwrap()).unwrap_err().contains("`rows`"));
    }

    #[test]
    fn waiting_shows_queues_and_hand_offs() {
        let (pictures, absent) = waiting(&one(WAITING).unwrap()).unwrap();
        let words = ["distlock: 1.04", "rlock 0.2: no figure", "2 cores, redis-server 7", "--bench waiting"];
        assert_shows(&pictures[0], "contended", &words);
        let words =
            ["floor: one publishes, another hears", "32 processes, distlock", "8 processes, rslock 0.10"];
        assert_shows(&pictures[1], "hand_off", &words);
        assert_shows(&pictures[1], "hand_off", &["0.08 … 0.19", "0.25 … 0.4", "1.9 … 2.1", "redis-server 7"]);
        assert!(absent.is_empty());
    }

    #[test]
    fn parts_that_were_not_run_are_named() {
        let (pictures, absent) = waiting(&one(r#"{"machine": "m", "command": "c"}"#).unwrap()).unwrap();
        assert!(pictures.is_empty());
        assert_eq!(absent, ["field `tasks`", "field `processes`"]);
        let (pictures, absent) = stores("stores-etcd-alone", &[]).unwrap();
        assert!(pictures.is_empty());
        assert_eq!(absent, ["the part `processes`"]);
    }

    #[test]
    fn stores_show_hand_offs() {
        let (pictures, absent) = stores("stores-etcd", &one::<Vec<_>>(STORES).unwrap()).unwrap();
        let words = ["etcd: distlock", "1.06 … 6.34", "etcd: raw queue", "8 processes on one key"];
        assert_shows(&pictures[0], "stores_etcd_hand_off", &words);
        assert!(absent.is_empty());
        let text =
            STORES.replace(r#""hand-off p50 µs": 1061.0, "p99 µs": 6338.0"#, r#""hand-off p50 µs": 1061.0"#);
        let error = stores("stores", &one::<Vec<_>>(&text).unwrap()).unwrap_err();
        assert!(error.contains("[1].rows[0].p99 µs"), "{error}");
    }

    #[test]
    fn growth_shows_all_loads() {
        let (pictures, _) = growth(&stream(GROWTH).unwrap()).unwrap();
        assert_shows(&pictures[0], "growth_commands", &["one key: 2.21", "simulated"]);
        assert!(!pictures[0].svg.contains("keys held"), "it has no sections");
        assert_shows(&pictures[1], "growth_heartbeats", &["one key: 4\u{a0}230", "simulated"]);
        assert!(!pictures[1].svg.contains("keys held"), "nobody waits");
        let words = ["one key: 16", "keys held: 20", "% of a core", "limit of one server", "100"];
        assert_shows(&pictures[2], "growth_server", &words);
        assert_shows(&pictures[3], "growth_memory", &["one key: 760", "keys held: 17", "MB", "computed"]);
        assert!(growth(&[]).is_err());
    }
}
