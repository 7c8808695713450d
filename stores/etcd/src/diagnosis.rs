//! Risks for locks in a cluster, and causes of slowness.

use etcd_client::{AlarmAction, AlarmType, StatusResponse};

use super::EtcdStore;
use super::errors::{Connection, LinkError};
use super::link::Link;
use distlock_store::Severity::{Fault, Fine, Note, Warning};
use distlock_store::{Finding, StoreError};

/// The default of `--quota-backend-bytes`. Members before 3.6 do not report their value.
const USUAL_QUOTA: i64 = 2 * 1024 * 1024 * 1024;

/// What a cluster reports about itself. `None`: the user has no permission to ask.
#[derive(Default)]
pub(super) struct ClusterStatus {
    pub(super) status: Option<StatusResponse>,
    pub(super) alarms: Option<Vec<AlarmType>>,
    /// Whether each member is a learner.
    pub(super) members: Option<Vec<bool>>,
}

impl EtcdStore {
    pub(super) async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let link = self.linked()?;
        Ok(found(&link.told().await?))
    }
}

impl Link {
    async fn told(&self) -> Result<ClusterStatus, StoreError> {
        let mut maintenance = self.member.client.maintenance_client();
        let mut cluster = self.member.client.cluster_client();
        let alarms = self.member.answer(maintenance.alarm(AlarmAction::Get, AlarmType::None, None)).await;
        let status = self.member.answer(maintenance.status()).await;
        let members = self.member.answer(cluster.member_list()).await;
        Ok(ClusterStatus {
            alarms: permitted(alarms)?.map(|said| said.alarms().iter().map(|alarm| alarm.alarm()).collect()),
            status: permitted(status)?,
            members: permitted(members)?
                .map(|said| said.members().iter().map(|member| member.is_learner()).collect()),
        })
    }
}

/// `None`: the member works, and refuses.
fn permitted<T>(answer: Result<T, LinkError>) -> Result<Option<T>, StoreError> {
    match answer {
        Ok(said) => Ok(Some(said)),
        Err(error) if error.connection == Connection::GoesOn => Ok(None),
        Err(error) => Err(error.store),
    }
}

fn found(told: &ClusterStatus) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(members) = &told.members {
        found.push(of_members(members));
    }
    if let Some(alarms) = &told.alarms {
        found.push(of_alarms(alarms));
    }
    if let Some(status) = &told.status {
        let quota = Some(status.db_size_quota()).filter(|quota| *quota > 0);
        found.push(of_size(status.db_size(), quota));
    }
    if told.members.is_none() || told.alarms.is_none() || told.status.is_none() {
        let text = "the user may not ask for all members, alarms and sizes: these were not examined";
        found.push(
            Finding::new(Note, "permissions", text)
                .remedy("run `distlock doctor` as a user with the role root"),
        );
    }
    found
}

fn of_members(is_learner: &[bool]) -> Finding {
    let voters = is_learner.iter().filter(|is_learner| !**is_learner).count();
    let learners = is_learner.len() - voters;
    let finding = |severity, text| Finding::new(severity, "members", text);
    match (voters, learners) {
        (0 | 1, _) => finding(Note, "one: if it ends, no lock can be acquired until it is back".to_owned())
            .remedy("use three members"),
        (even, _) if even % 2 == 0 => {
            finding(Warning, format!("{even}: no more of them may fail than of {}", even - 1))
                .remedy("use an odd number of members")
        }
        (_, 0) => finding(Fine, voters.to_string()),
        (_, learners) => finding(Note, format!("{voters}, and {learners} learners, which do not vote"))
            .remedy("promote them when they have caught up: etcdctl member promote ID"),
    }
}

fn of_alarms(alarms: &[AlarmType]) -> Finding {
    if alarms.contains(&AlarmType::Corrupt) {
        return Finding::new(Fault, "alarms", "CORRUPT: members differ in what they have stored")
            .remedy("stop the members that differ, and replace them");
    }
    if alarms.contains(&AlarmType::Nospace) {
        return Finding::new(Fault, "alarms", "NOSPACE: the quota is used up, and no lock can be acquired")
            .remedy("compact and defragment the members, then run `etcdctl alarm disarm`");
    }
    Finding::new(Fine, "alarms", "none")
}

fn of_size(size: i64, quota: Option<i64>) -> Finding {
    let (limit, known) = (quota.unwrap_or(USUAL_QUOTA), if quota.is_some() { "" } else { "usual " });
    let mib = |bytes: i64| bytes / (1024 * 1024);
    let text = format!("{} MiB of the {known}quota of {} MiB", mib(size), mib(limit));
    if size > limit / 4 * 3 {
        let remedy =
            "set --auto-compaction-retention, compact and defragment, or raise --quota-backend-bytes";
        return Finding::new(Warning, "size", text).remedy(remedy);
    }
    Finding::new(Fine, "size", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_number_of_members_is_found_and_learners_do_not_count() {
        let severity = |members: &[bool]| of_members(members).severity;
        assert_eq!(severity(&[false]), Note);
        assert_eq!(severity(&[false, false]), Warning);
        assert_eq!(severity(&[false, false, false]), Fine);
        assert_eq!(severity(&[false, false, false, true]), Note);
        assert_eq!(severity(&[false, false, true]), Warning);
    }

    #[test]
    fn a_database_is_too_large_from_three_quarters_of_the_quota_on() {
        assert_eq!(of_size(751, Some(1_000)).severity, Warning);
        assert_eq!(of_size(750, Some(1_000)).severity, Fine);
        assert_eq!(of_size(USUAL_QUOTA, None).severity, Warning);
        assert!(of_size(1, None).text.contains("usual quota"));
    }

    #[test]
    fn corruption_comes_before_the_room() {
        assert!(of_alarms(&[AlarmType::Nospace, AlarmType::Corrupt]).text.starts_with("CORRUPT"));
        assert_eq!(of_alarms(&[AlarmType::None]).severity, Fine);
    }

    #[test]
    fn what_the_user_may_not_ask_is_a_note() {
        let found = found(&ClusterStatus::default());
        assert_eq!(found.iter().map(|finding| &*finding.about).collect::<Vec<_>>(), ["permissions"]);
    }
}
