//! Risks for locks in an ensemble, and causes of slowness.
//!
//! The time-out comes from the session. The rest comes from the four-letter command `srvr` of each member, which is
//! allowed by default.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ZooKeeperStore;
use distlock_store::Severity::{Fine, Note, Warning};
use distlock_store::{Finding, StoreError};

/// How long a member may take to reply. All members are asked at the same time.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// No reply of a member is longer.
const MOST_BYTES: u64 = 64 * 1024;
/// On average, in milliseconds. Each acquisition waits for a few requests.
const SLOW: f64 = 100.0;

impl ZooKeeperStore {
    pub(super) async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let granted = self.linked()?.client.session_timeout();
        let mut found = vec![session(self.config.session_timeout, granted)];
        let mut asked = JoinSet::new();
        for (at, member) in self.config.members.iter().cloned().enumerate() {
            asked.spawn(async move {
                let said = timeout(REPLY_TIMEOUT, ask(&member)).await;
                let said = said.unwrap_or_else(|error| Err(error.into()));
                (at, of_member(&member, said.map_err(|error| error.to_string()).as_deref()))
            });
        }
        let mut told = asked.join_all().await;
        told.sort_unstable_by_key(|(at, _)| *at);
        found.push(members(self.config.members.len()));
        found.extend(told.into_iter().map(|(_, finding)| finding));
        Ok(found)
    }
}

async fn ask(member: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(member).await?;
    stream.write_all(b"srvr").await?;
    let mut said = String::new();
    stream.take(MOST_BYTES).read_to_string(&mut said).await?;
    Ok(said)
}

fn session(wanted: Duration, granted: Duration) -> Finding {
    let about = "session";
    if granted == wanted {
        return Finding::new(Fine, about, format!("lasts {granted:?} without a heartbeat"));
    }
    let (what, setting) =
        if granted < wanted { ("shorter", "maxSessionTimeout") } else { ("longer", "minSessionTimeout") };
    let text =
        format!("lasts {granted:?} without a heartbeat, {what} than the {wanted:?} that were requested");
    Finding::new(Note, about, text).remedy(format!("change {setting} of all members, or `?session_timeout=`"))
}

/// The number of members in the URL.
fn members(count: usize) -> Finding {
    if count > 1 && count.is_multiple_of(2) {
        return Finding::new(
            Note,
            "members",
            format!("{count} in the URL: an ensemble has an odd number, or wastes one"),
        )
        .remedy("name all members, of which there are three or five");
    }
    Finding::new(Fine, "members", format!("{count} in the URL"))
}

/// The reply of a member to `srvr`, or the reason why there is none.
pub(super) fn of_member(member: &str, said: Result<&str, &String>) -> Finding {
    let finding = |severity, text: &str| Finding::new(severity, member, text);
    let said = match said {
        Ok(said) => said,
        Err(error) => {
            return finding(Warning, &format!("cannot be asked: {error}")).remedy("bring the member back");
        }
    };
    let field = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let Some(mode) = field("Mode:") else {
        return match said {
            said if said.contains("whitelist") => finding(Note, "does not report its state")
                .remedy("add srvr to 4lw.commands.whitelist in its configuration"),
            _ => {
                finding(Warning, "does not serve: it has no majority").remedy("bring the other members back")
            }
        };
    };
    let average =
        field("Latency min/avg/max:").and_then(|three| three.split('/').nth(1)?.parse::<f64>().ok());
    match (mode, average) {
        (_, Some(average)) if average >= SLOW => {
            finding(Warning, &format!("{mode}, answers after {average} ms on average"))
                .remedy("give its transaction log (dataLogDir) a disk of its own")
        }
        ("standalone", _) => finding(Note, "is alone: if it ends, no lock can be acquired until it is back")
            .remedy("use three members"),
        ("observer" | "leader" | "follower", _) => finding(Fine, mode),
        (other, _) => finding(Note, other).remedy("connect to a member that writes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn severity(said: &str) -> distlock_store::Severity {
        of_member("zk1:2181", Ok(said)).severity
    }

    #[test]
    fn a_member_is_judged_by_what_it_says() {
        assert_eq!(severity("Latency min/avg/max: 0/0.5/9\nMode: leader\n"), Fine);
        assert_eq!(severity("Latency min/avg/max: 0/100.0/900\nMode: follower\n"), Warning);
        assert_eq!(severity("Mode: standalone\n"), Note);
        assert_eq!(severity("srvr is not executed because it is not in the whitelist.\n"), Note);
        assert_eq!(severity("This ZooKeeper instance is not currently serving requests\n"), Warning);
        assert_eq!(of_member("zk1:2181", Err(&"refused".to_owned())).severity, Warning);
    }

    #[test]
    fn a_session_that_is_not_as_asked_names_the_setting() {
        let seconds = Duration::from_secs;
        assert_eq!(session(seconds(30), seconds(30)).severity, Fine);
        assert!(session(seconds(60), seconds(40)).remedy.is_some_and(|it| it.contains("maxSessionTimeout")));
        assert!(session(seconds(1), seconds(4)).remedy.is_some_and(|it| it.contains("minSessionTimeout")));
    }

    #[test]
    fn an_even_number_of_members_is_found() {
        assert_eq!(members(1).severity, Fine);
        assert_eq!(members(2).severity, Note);
        assert_eq!(members(3).severity, Fine);
    }
}
