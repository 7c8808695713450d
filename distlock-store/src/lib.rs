//! The contract of the stores of `distlock`, which acquire, renew and release locks.
//!
//! A [`LockStore`] acquires, renews and releases a key for an owner and a ttl. The crate `distlock` does everything
//! else. It re-exports this contract as `distlock::store`, and its builder accepts a store by
//! `LockManagerBuilder::store`. [`kit`] has tools for stores with a server. A store depends on this crate, and on no
//! other crate of the project.
//!
//! This crate is young: before 1.0, a minor release may change it. Where possible, types are `#[non_exhaustive]`, so
//! they can grow without a breaking change.

mod abilities;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
mod clock_offset;
mod details;
mod error;
mod escaped;
mod events;
#[doc(hidden)]
mod failure;
mod fencing_token;
#[doc(hidden)]
pub mod fields;
mod finding;
#[doc(hidden)]
mod gave_up;
mod key_rules;
pub mod kit;
mod limits;
mod listing;
mod lock_kind;
mod lock_store;
mod observed_leases;
#[doc(hidden)]
mod owner;
mod reply;
mod request;
mod server_clock;
#[doc(hidden)]
mod time;
#[doc(hidden)]
mod who;

pub use abilities::{Abilities, Ability, Fencing, LeaseRule, Waiting};
pub use details::OwnerDetails;
pub use error::StoreError;
pub use escaped::Escaped;
pub use events::{EarlierCommands, Grant, Heartbeat, Notifications, StoreEvents};
pub use fencing_token::FencingToken;
pub use finding::{Finding, Severity};
pub use key_rules::KeyRules;
pub use limits::{LATE_COMMANDS, LONGEST_VALUE, NOTIFIED_WITHIN};
pub use listing::{List, StoredPage};
pub use lock_kind::LockKind;
pub use lock_store::LockStore;
pub use observed_leases::ObservedLeases;
pub use reply::{AcquireReply, Busy, KEPT, ReleaseReply, RenewReply, ReplaceReply, StoredLock};
pub use request::{Acquire, Owner, Publish, Queue, Release, Renew, Replace};
pub use server_clock::{Asking, ServerClock};

/// Internal parts of this crate for `distlock` and its own stores. They may change with every release.
#[doc(hidden)]
pub mod engine {
    pub use crate::clock_offset::{ClockOffset, Step};
    pub use crate::escaped::Escaping;
    pub use crate::events::Report;
    pub use crate::failure::{Failure, OwnLines, is_told, told, with_causes};
    pub use crate::fields;
    pub use crate::gave_up::{GaveUp, show_cause};
    pub use crate::lock_kind::{go_together, room};
    pub use crate::owner::{
        LIMITED_MARKER, MARK, Token, client_of, parse_owner, parse_token, shared_token_text, token_text,
        with_token_text,
    };
    pub use crate::reply::{HolderRelease, SOMEBODY};
    pub use crate::time::{ServerTime, Time, drift};
    pub use crate::who::{LONGEST_NAME, Met, Who};
}
