//! CPU time of other processes.

use std::time::Duration;

use crate::Result;

/// The CPU time of a process, of its children, and of their ended children.
pub(crate) fn cpu_time_of(pid: u32) -> Result<Duration> {
    let mut ticks = of_one(&pid.to_string()).ok_or("the server has ended")?.ticks;
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        // Other processes start and end meanwhile.
        if let Some(found) = name.to_str().and_then(of_one)
            && found.parent == pid
        {
            ticks += found.ticks;
        }
    }
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

struct Process {
    parent: u32,
    ticks: u64,
}

fn of_one(pid: &str) -> Option<Process> {
    let number: u32 = pid.parse().ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // The user and system time of the process and of its awaited children.
    let ticks = [11, 12, 13, 14].into_iter().map(number).sum::<Option<u64>>()?;
    Some(Process { parent: u32::try_from(number(1)?).ok()?, ticks })
}
