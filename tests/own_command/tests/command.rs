//! A command that was built with your own store has all subcommands, on that store.

#![allow(clippy::unwrap_used)]

use std::process::Output;

use distlock_toy_store::ToyServer;
use tokio::process::Command;

/// The output and the exit status of the command.
async fn own(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_distlock-own-command"));
    command.args(["--url", url]).args(arguments);
    command.env_remove("DISTLOCK_PREFIX").env_remove("DISTLOCK_NAME").output().await.unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn it_asks_lists_and_runs_under_a_lock_of_that_store() {
    let server = ToyServer::start().await.unwrap();
    let url = format!("toy://{}", server.address());

    let pinged = own(&url, &["ping"]).await;
    assert_eq!(pinged.status.code(), Some(0), "{}", text(&pinged));

    // The command that runs under the lock sees it in the list, and `run` returns its status. The other processes that
    // `run` starts are this program, too.
    let listed = format!("{} --url {url} ls; exit 7", env!("CARGO_BIN_EXE_distlock-own-command"));
    let ran = own(&url, &["run", "--key", "nightly:report", "-c", &listed]).await;
    assert_eq!(ran.status.code(), Some(7), "{}", text(&ran));
    assert!(text(&ran).contains("nightly:report"), "{}", text(&ran));

    // It was released.
    let listed = own(&url, &["ls"]).await;
    assert_eq!(listed.status.code(), Some(0), "{}", text(&listed));
    assert!(!text(&listed).contains("nightly:report"), "{}", text(&listed));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_its_store_says_of_a_url_is_wrong_usage() {
    let refused = own("toy://nowhere", &["ping"]).await;
    assert_eq!(refused.status.code(), Some(64));
    assert!(text(&refused).contains("toy://127.0.0.1:4000"), "{}", text(&refused));
}

/// The extension of a granted lock gets no reply. (If the grant expires before the next extension, the command runs in
/// a later term.)
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_extension_gets_no_reply_runs_its_command() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own_unanswered"));
    command.args(["--url", "unanswered://", "leader", "office", "-c", "echo ran; exit 7"]);
    let ran = command.output().await.unwrap();
    assert_eq!((ran.status.code(), &*ran.stdout), (Some(7), &b"ran\n"[..]), "{}", text(&ran));
}
