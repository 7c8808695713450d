//! Tests of the configuration from URLs and options.

use super::*;
use distlock_store::kit::connection::{Credentials, Provider};

fn read(url: &str) -> RedisConfig {
    RedisConfig::new(url, "c").unwrap()
}

fn login(login: &Login) -> (Option<&str>, Option<&str>) {
    (login.user.as_deref(), login.password.as_deref())
}

#[test]
fn a_sentinel_url_names_sentinels_master_database_and_both_logins() {
    let url = "redis+sentinel://u:p@a:1,[::1],c/my%20master/3?sentinel_user=s&sentinel_pass=p%40w";
    let config = read(url);
    assert_eq!(login(&config.login), (Some("u"), Some("p")));
    assert_eq!(config.login.database, 3);
    assert_eq!(
        config.place.to_string(),
        "the master `my master` of the sentinels at a:1, [::1]:26379, c:26379"
    );
    let ServerLocation::Sentinel(place) = &config.place else { panic!("{:?}", config.place) };
    assert_eq!(login(&place.login), (Some("s"), Some("p@w")));
}

#[test]
fn debug_output_shows_no_secret() {
    let mut options = ConnectionOptions::default();
    let url = "redis+sentinel://user:s3cret@h/m?sentinel_user=s&sentinel_pass=s3cret";
    let config = RedisConfig::with(url, "c", &options).unwrap();
    assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
    options.credentials = Some(Provider::new(async || Ok::<_, String>(Credentials::password("s3cret"))));
    let config = RedisConfig::with("redis://h", "c", &options).unwrap();
    assert!(!format!("{config:?} {options:?}").contains("s3cret"), "{config:?}");
}

#[test]
fn a_password_in_the_url_and_a_function_that_gives_it_exclude_each_other() {
    let provider = Provider::new(async || Ok::<_, String>(Credentials::password("p")));
    let options = ConnectionOptions { credentials: Some(provider), ..ConnectionOptions::default() };
    let error = RedisConfig::with("redis://:s3cret@h", "c", &options).unwrap_err();
    assert!(error.contains("`credentials`") && !error.contains("s3cret"), "{error}");
    assert!(RedisConfig::with("redis://h", "c", &options).is_ok());
}

#[test]
fn the_time_outs_of_the_builder_count_more_than_those_of_the_url() {
    let config = read("redis://h");
    assert_eq!(
        (config.connect_timeout, config.op_timeout),
        (Duration::from_secs(3), Duration::from_millis(500))
    );
    let url = "redis://h?connect_timeout=5s&response_timeout=250ms";
    let config = read(url);
    assert_eq!(
        (config.connect_timeout, config.op_timeout),
        (Duration::from_secs(5), Duration::from_millis(250))
    );
    let options =
        ConnectionOptions { connect_timeout: Some(Duration::from_secs(7)), ..ConnectionOptions::default() };
    let config = RedisConfig::with(url, "c", &options).unwrap();
    assert_eq!(
        (config.connect_timeout, config.op_timeout),
        (Duration::from_secs(7), Duration::from_millis(250))
    );
    let quorum = "redis+quorum://a,b,c?response_timeout=1s&connect_timeout=2s";
    for config in RedisConfig::of_quorum(quorum, "c", &ConnectionOptions::default()).unwrap() {
        assert_eq!(
            (config.connect_timeout, config.op_timeout),
            (Duration::from_secs(2), Duration::from_secs(1))
        );
    }
    for (url, name) in [
        ("redis://h?response_timeout=0s", "`response_timeout`"),
        ("redis://h?response_timeout=9ms", "`response_timeout`"),
        ("redis://h?connect_timeout=61s", "`connect_timeout`"),
    ] {
        let text = RedisConfig::new(url, "c").unwrap_err();
        assert!(text.contains(name) && text.contains("between 10ms and 60s"), "{text}");
    }
}

#[test]
fn the_servers_of_a_quorum_share_what_else_the_url_says() {
    let url = "Redis+Quorum://u:p@a:1,b,[::1]:3/2";
    let configs = RedisConfig::of_quorum(url, "c", &ConnectionOptions::default()).unwrap();
    let places: Vec<_> = configs.iter().map(|config| config.place.to_string()).collect();
    assert_eq!(places, ["a:1", "b:6379", "[::1]:3"]);
    for config in &configs {
        assert_eq!((login(&config.login), config.login.database), ((Some("u"), Some("p")), 2));
    }
    assert!(RedisConfig::new(url, "c").is_err());
}

#[test]
fn replicas_are_a_number_and_not_for_a_cluster() {
    assert_eq!(read("redis://h").replicas, 0);
    assert_eq!(read("redis+sentinel://h/m?replicas=2").replicas, 2);
    for count in ["-1", "two"] {
        let error = RedisConfig::new(&format!("redis://h?replicas={count}"), "c").unwrap_err();
        assert!(error.contains("`replicas=` in the URL is not a number from 0"), "{error}");
    }
    let cluster = read("redis+cluster://h?replicas=1");
    assert!(cluster.check().unwrap_err().contains("not available for a cluster"));
}

#[test]
fn a_client_name_that_would_break_tokens_is_refused() {
    for name in ["", "a b", "a\n"] {
        assert!(RedisConfig::new("redis://h", name).unwrap().check().is_err());
    }
    assert!(RedisConfig::new("redis://h", "a:b{c}-7").unwrap().check().is_ok());
}
