//! What a function returns has to be finished: a future or a stream in it would run without the lock.
//!
//! The macro knows the names in a return type, but not what an alias or an `impl Trait` stands for. It asks here,
//! by method calls: the inherent method exists for the types in question only, and comes before the trait's.

use std::fmt;
use std::marker::PhantomData;

use futures_core::Stream;

/// A type to ask about; there is no value.
pub struct TypeOf<T: ?Sized>(PhantomData<fn(&T)>);

impl<T: ?Sized> fmt::Debug for TypeOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypeOf").finish_non_exhaustive()
    }
}

impl<T: ?Sized> TypeOf<T> {
    /// A type that is written out.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "only the expansion makes one")]
    pub const fn new() -> Self {
        TypeOf(PhantomData)
    }
}

/// The type of a value.
pub const fn type_of<T>(_: &T) -> TypeOf<T> {
    TypeOf::new()
}

impl<T, E> TypeOf<Result<T, E>> {
    /// The type inside.
    #[must_use]
    pub fn result(self) -> TypeOf<T> {
        TypeOf::new()
    }
}

impl<T> TypeOf<Option<T>> {
    /// The type inside.
    #[must_use]
    pub fn option(self) -> TypeOf<T> {
        TypeOf::new()
    }
}

impl<T: IntoFuture + ?Sized> TypeOf<T> {
    /// Refuses a future.
    #[must_use]
    pub fn no_future(self) -> Self
    where
        T: Awaited,
    {
        self
    }
}

impl<T: Stream + ?Sized> TypeOf<T> {
    /// Refuses a stream.
    #[must_use]
    pub fn no_stream(self) -> Self
    where
        T: Collected,
    {
        self
    }
}

/// The same for every other type, which stays what it is; the inherent methods come first.
pub trait AnyType: Sized {
    /// Not a `Result`.
    #[must_use]
    fn result(self) -> Self {
        self
    }

    /// Not an `Option`.
    #[must_use]
    fn option(self) -> Self {
        self
    }

    /// Not a future.
    #[must_use]
    fn no_future(self) -> Self {
        self
    }

    /// Not a stream.
    #[must_use]
    fn no_stream(self) -> Self {
        self
    }
}

impl<T: ?Sized> AnyType for TypeOf<T> {}

/// No future is: nothing implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is awaited after the function has returned, and so without the lock",
    label = "a future in what the function returns",
    note = "await it inside the function, and return what it yields",
    note = "a function whose whole value is a future has to say so, as in `fn f() -> impl Future<Output = ..>`, and \
            to end in an `async move` block",
    note = "or hold the lock for as long as it takes: `let guard = manager.lock(key).acquire().await?`"
)]
pub trait Awaited {}

/// No stream is: nothing implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is read after the function has returned, and so without the lock",
    label = "a stream in what the function returns",
    note = "collect it inside the function, and return the items",
    note = "or hold a guard inside the stream: `let guard = manager.lock(key).acquire().await?`"
)]
pub trait Collected {}
