//! The examples of the book, which are compiled like all other examples.

#[doc = include_str!("../../docs/book/src/introduction.md")]
struct Introduction;

#[doc = include_str!("../../docs/book/src/quick-start.md")]
struct QuickStart;

#[doc = include_str!("../../docs/book/src/kinds.md")]
struct Kinds;

#[doc = include_str!("../../docs/book/src/jobs-and-leaders.md")]
struct JobsAndLeaders;

#[doc = include_str!("../../docs/book/src/with-a-database.md")]
struct WithADatabase;

#[doc = include_str!("../../docs/book/src/errors.md")]
struct Errors;

#[doc = include_str!("../../docs/book/src/other-languages.md")]
struct OtherLanguages;

#[doc = include_str!("../../docs/book/src/coming-from.md")]
struct ComingFrom;

#[doc = include_str!("../../docs/book/src/faq.md")]
struct Faq;

#[doc = include_str!("../../docs/book/src/web-services.md")]
struct WebServices;

#[doc = include_str!("../../docs/book/src/testing.md")]
struct Testing;

#[doc = include_str!("../../docs/book/src/write-a-store.md")]
struct WriteAStore;

#[doc = include_str!("../../docs/book/src/observing.md")]
struct Observing;

#[doc = include_str!("../../docs/book/src/do-i-need-a-lock.md")]
struct DoINeedALock;

#[doc = include_str!("../../docs/book/src/from-handler-to-commit.md")]
struct FromHandlerToCommit;

#[doc = include_str!("../../docs/book/src/kubernetes.md")]
struct Kubernetes;

#[doc = include_str!("../../docs/book/src/symptoms.md")]
struct Symptoms;

#[doc = include_str!("../../docs/book/src/coming-from-more.md")]
struct ComingFromMore;
