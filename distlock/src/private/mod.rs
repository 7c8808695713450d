//! The functions that the expansion of `#[distributed_lock]` and `key!` calls. They are not part of the public
//! interface: the macro crate is pinned to the exact version of this crate.
//!
//! Everything that is generic over a user's type is kept as thin as possible, because it is compiled once per
//! annotated function.

mod fenced;
mod hold;
mod key;
mod locked;
mod manager;
mod request;
mod result;
mod returned;

pub use core::mem::drop;
pub use core::option::Option::Some;
pub use core::pin::pin;
pub use core::result::Result::{Err, Ok};
pub use core::{concat, module_path, stringify};

pub use crate::{Release, Retry};

pub use fenced::{
    Database, Ended, ReturnsResult, commit, connection_of, database, fence, transaction_blocking,
    transaction_of,
};
#[cfg(feature = "once")]
pub use fenced::{Once, Run, once_blocking};
pub use hold::{
    Acquiring, Hold, Inside, OnLost, Outside, Releasing, Slot, guard, hold, hold_blocking, token,
};
pub use key::{AnyKey, KeyLike, KeyList, KeyOf, KeyValue, Part, key, keys, literal_placeholder};
pub use locked::{Entered, Locked, LockedIn, enter, section, section_in};
pub use manager::{AsLockManager, Manager, current};
pub use request::{Asked, ask, ask_for_all, ask_for_nothing, ask_in_vain, is_busy, millis};
#[allow(deprecated, reason = "the expansion names them to make the compiler warn")]
pub use request::{former_name, literal_name};
pub use result::{
    AnyOutcome, CarriesLockError, CarriesOtherLockErrors, HasError, Outcome, finish, finish_map_err,
    finish_on_error, finish_unless_busy, placeholder,
};
pub use returned::{AnyType, Awaited, Collected, JoinHandle, NoElement, TypeOf, type_of};
