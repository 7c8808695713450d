//! A store of any type, so that its users are compiled once.

use std::pin::Pin;

use distlock_store::{
    Abilities, Acquire, AcquireReply, Finding, List, LockStore, Publish, Release, ReleaseReply, Renew,
    RenewReply, Replace, ReplaceReply, StoreError, StoreEvents, StoredLock, StoredPage,
};

/// A [`LockStore`] whose type is not known.
#[derive(Debug)]
pub(super) struct AnyStore(Box<dyn Erased>);

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;
type Done<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

trait Erased: std::fmt::Debug + Send + Sync {
    fn abilities(&self) -> Abilities;
    fn describe(&self) -> String;
    fn acquire<'a>(&'a self, request: &'a Acquire) -> Answer<'a, AcquireReply>;
    fn renew<'a>(&'a self, request: &'a Renew) -> Answer<'a, RenewReply>;
    fn release<'a>(&'a self, request: &'a Release) -> Answer<'a, ReleaseReply>;
    fn inspect<'a>(&'a self, key: &'a str) -> Answer<'a, Option<StoredLock>>;
    fn replace<'a>(&'a self, request: &'a Replace) -> Answer<'a, ReplaceReply>;
    fn hand_over<'a>(&'a self, request: &'a Renew) -> Answer<'a, RenewReply>;
    fn publish<'a>(&'a self, request: &'a Publish) -> Answer<'a, ()>;
    fn unpublish<'a>(&'a self, request: &'a Publish) -> Answer<'a, ()>;
    fn list<'a>(&'a self, request: &'a List) -> Answer<'a, StoredPage>;
    fn diagnose(&self) -> Answer<'_, Vec<Finding>>;
    fn force_release<'a>(&'a self, key: &'a str) -> Answer<'a, bool>;
    fn acquire_all<'a>(&'a self, requests: &'a [Acquire]) -> Answer<'a, Vec<AcquireReply>>;
    fn renew_all<'a>(&'a self, requests: &'a [Renew]) -> Answer<'a, Vec<RenewReply>>;
    fn run(&self, events: StoreEvents) -> Done<'_>;
    fn close(&self) -> Done<'_>;
}

impl<S: LockStore> Erased for S {
    fn abilities(&self) -> Abilities {
        LockStore::abilities(self)
    }

    fn describe(&self) -> String {
        LockStore::describe(self)
    }

    fn acquire<'a>(&'a self, request: &'a Acquire) -> Answer<'a, AcquireReply> {
        Box::pin(LockStore::acquire(self, request))
    }

    fn renew<'a>(&'a self, request: &'a Renew) -> Answer<'a, RenewReply> {
        Box::pin(LockStore::renew(self, request))
    }

    fn release<'a>(&'a self, request: &'a Release) -> Answer<'a, ReleaseReply> {
        Box::pin(LockStore::release(self, request))
    }

    fn inspect<'a>(&'a self, key: &'a str) -> Answer<'a, Option<StoredLock>> {
        Box::pin(LockStore::inspect(self, key))
    }

    fn replace<'a>(&'a self, request: &'a Replace) -> Answer<'a, ReplaceReply> {
        Box::pin(LockStore::replace(self, request))
    }

    fn hand_over<'a>(&'a self, request: &'a Renew) -> Answer<'a, RenewReply> {
        Box::pin(LockStore::hand_over(self, request))
    }

    fn publish<'a>(&'a self, request: &'a Publish) -> Answer<'a, ()> {
        Box::pin(LockStore::publish(self, request))
    }

    fn unpublish<'a>(&'a self, request: &'a Publish) -> Answer<'a, ()> {
        Box::pin(LockStore::unpublish(self, request))
    }

    fn list<'a>(&'a self, request: &'a List) -> Answer<'a, StoredPage> {
        Box::pin(LockStore::list(self, request))
    }

    fn diagnose(&self) -> Answer<'_, Vec<Finding>> {
        Box::pin(LockStore::diagnose(self))
    }

    fn force_release<'a>(&'a self, key: &'a str) -> Answer<'a, bool> {
        Box::pin(LockStore::force_release(self, key))
    }

    fn acquire_all<'a>(&'a self, requests: &'a [Acquire]) -> Answer<'a, Vec<AcquireReply>> {
        Box::pin(LockStore::acquire_all(self, requests))
    }

    fn renew_all<'a>(&'a self, requests: &'a [Renew]) -> Answer<'a, Vec<RenewReply>> {
        Box::pin(LockStore::renew_all(self, requests))
    }

    fn run(&self, events: StoreEvents) -> Done<'_> {
        Box::pin(LockStore::run(self, events))
    }

    fn close(&self) -> Done<'_> {
        Box::pin(LockStore::close(self))
    }
}

impl AnyStore {
    pub(super) fn new(store: impl LockStore) -> Self {
        AnyStore(Box::new(store))
    }
}

impl LockStore for AnyStore {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        self.0.acquire(request).await
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        self.0.renew(request).await
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        self.0.release(request).await
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        self.0.inspect(key).await
    }

    async fn replace(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
        self.0.replace(request).await
    }

    async fn hand_over(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        self.0.hand_over(request).await
    }

    async fn publish(&self, request: &Publish) -> Result<(), StoreError> {
        self.0.publish(request).await
    }

    async fn unpublish(&self, request: &Publish) -> Result<(), StoreError> {
        self.0.unpublish(request).await
    }

    async fn list(&self, request: &List) -> Result<StoredPage, StoreError> {
        self.0.list(request).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>, StoreError> {
        self.0.diagnose().await
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        self.0.force_release(key).await
    }

    async fn acquire_all(&self, requests: &[Acquire]) -> Result<Vec<AcquireReply>, StoreError> {
        self.0.acquire_all(requests).await
    }

    async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
        self.0.renew_all(requests).await
    }

    async fn run(&self, events: StoreEvents) {
        self.0.run(events).await;
    }

    async fn close(&self) {
        self.0.close().await;
    }
}
