//! The examples of the book on this crate.

#[doc = include_str!("../../docs/book/src/with-tokio-postgres.md")]
struct WithTokioPostgres;

#[doc = include_str!("../../docs/book/src/with-mysql-async.md")]
struct WithMysqlAsync;

#[doc = include_str!("../../docs/book/src/with-rusqlite.md")]
struct WithRusqlite;

#[doc = include_str!("../../docs/book/src/with-diesel.md")]
struct WithDiesel;

#[doc = include_str!("../../docs/book/src/with-sea-orm.md")]
struct WithSeaOrm;

#[doc = include_str!("../../docs/book/src/with-redis-values.md")]
struct WithRedisValues;

#[doc = include_str!("../../docs/book/src/with-objects.md")]
struct WithObjects;

#[doc = include_str!("../../docs/book/src/with-http.md")]
struct WithHttp;

#[doc = include_str!("../../docs/book/src/migrations.md")]
struct Migrations;

#[doc = include_str!("../../docs/book/src/recipes.md")]
struct Recipes;
