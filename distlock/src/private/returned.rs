//! Checks that a function returns no unfinished work: a future or a stream would run without the lock.
//!
//! The macro knows the names in a return type, but not the type behind an alias or an `impl Trait`. So the expansion
//! calls a method: the inherent method exists only for the refused types, and takes precedence over the trait's method.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

/// A type to check, without a value.
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

impl<T: ?Sized> Clone for TypeOf<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for TypeOf<T> {}

macro_rules! look_inside {
    ($([$($parameter:tt)*] $outer:ty => $inner:ty;)*) => {$(
        impl<$($parameter)*> TypeOf<$outer> {
            /// The type inside.
            #[must_use]
            pub fn inside(self) -> TypeOf<$inner> {
                TypeOf::new()
            }
        }
    )*};
}

look_inside! {
    [T, E] Result<T, E> => T;
    [T] Option<T> => T;
    [T] Vec<T> => T;
    [T] Box<T> => T;
    [T] std::thread::JoinHandle<T> => JoinHandle<T>;
    ['scope, T] std::thread::ScopedJoinHandle<'scope, T> => JoinHandle<T>;
    [T] tokio::task::JoinSet<T> => JoinHandle<T>;
}

/// Stands for work that continues without the caller: it counts as a future.
#[derive(Debug)]
pub struct JoinHandle<T>(PhantomData<fn() -> T>);

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        Poll::Pending
    }
}

macro_rules! elements {
    ($([$($parameter:ident)*] $($name:ident: $element:ident,)*;)*) => {$(
        impl<$($parameter),*> TypeOf<($($parameter,)*)> {
            $(
                /// The element there.
                #[must_use]
                pub fn $name(self) -> TypeOf<$element> {
                    TypeOf::new()
                }
            )*
        }
    )*};
}

elements! {
    [A] first_element: A,;
    [A B] first_element: A, second_element: B,;
    [A B C] first_element: A, second_element: B, third_element: C,;
    [A B C D] first_element: A, second_element: B, third_element: C, fourth_element: D,;
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

/// The same for every other type, which is not changed. The inherent methods take precedence. The names are long
/// because traits of other crates have methods for all types, too: diesel-async has `first`.
pub trait AnyType: Sized {
    /// A type whose contents are not checked.
    #[must_use]
    fn inside(self) -> Self {
        self
    }

    /// Not a tuple.
    #[must_use]
    fn first_element(self) -> NoElement {
        NoElement
    }

    /// Not a tuple of this many.
    #[must_use]
    fn second_element(self) -> NoElement {
        NoElement
    }

    /// Not a tuple of this many.
    #[must_use]
    fn third_element(self) -> NoElement {
        NoElement
    }

    /// Not a tuple of this many.
    #[must_use]
    fn fourth_element(self) -> NoElement {
        NoElement
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

/// An element that a type does not have. It is not a [`TypeOf`]: the compiler tries each of its inherent methods, for
/// every call.
#[derive(Debug)]
pub struct NoElement;

impl NoElement {
    /// Nothing is inside.
    #[must_use]
    pub fn inside(self) -> Self {
        self
    }

    /// Not a future.
    #[must_use]
    pub fn no_future(self) -> Self {
        self
    }

    /// Not a stream.
    #[must_use]
    pub fn no_stream(self) -> Self {
        self
    }
}

/// No future is: nothing implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is awaited after the function has returned, when the lock is no longer held",
    label = "a future in what the function returns",
    note = "await it inside the function, and return what it yields",
    note = "a function whose whole value is a future has to say so, as in `fn f() -> impl Future<Output = ..>`, and \
            to end in an `async move` block",
    note = "or hold the lock for as long as it takes: `let guard = manager.lock(key).acquire().await?`"
)]
pub trait Awaited {}

/// No stream is: nothing implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is read after the function has returned, when the lock is no longer held",
    label = "a stream in what the function returns",
    note = "collect it inside the function, and return the items",
    note = "or hold a guard inside the stream: `let guard = manager.lock(key).acquire().await?`"
)]
pub trait Collected {}
