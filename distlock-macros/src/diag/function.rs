//! The annotated item.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::{Error, Expr, Type};

use super::{error, error_on};
use crate::options::Opt;

/// On a struct, a module, an impl block.
pub(crate) fn not_a_function(keyword: &Ident) -> Error {
    let help = match keyword.to_string().as_str() {
        "impl" | "trait" | "mod" => "put it on each function inside that needs the lock",
        "let" => "put it on a function; for a block use `manager.lock(key).run(async |held| { .. })`",
        _ => "put it on a function",
    };
    error(keyword.span(), format!("`#[distributed_lock]` locks functions, not `{keyword}` items"), help)
}

/// On a trait method without default body.
pub(crate) fn no_body(name: &Ident) -> Error {
    let problem = format!("`{name}` has no body to lock");
    error(
        name.span(),
        problem,
        "put `#[distributed_lock]` on the function in each `impl`, or give it a default body",
    )
}

/// On a `const fn`.
pub(crate) fn const_fn(span: Span) -> Error {
    error(span, "a `const fn` cannot take a lock", "leave `const` out")
}

/// On an `extern "C" fn`.
pub(crate) fn foreign_abi(span: Span) -> Error {
    error(
        span,
        "a function with a foreign calling convention cannot report that a lock is busy",
        "put the body into a Rust function, annotate that one, and call it from here",
    )
}

/// On a variadic function.
pub(crate) fn variadic(span: Span) -> Error {
    error(
        span,
        "a variadic function cannot be locked",
        "put the body into a Rust function, annotate that one, and call it from here",
    )
}

/// On `fn f() -> !`.
pub(crate) fn never_returns(ty: &Type) -> Error {
    error_on(
        ty,
        "a function that returns `!` has no way to say that the lock is busy or lost",
        "return `Result<std::convert::Infallible, distlock::LockError>`",
    )
}

/// Below `#[tokio::test]` or `#[tokio::main]`.
pub(crate) fn below_runtime_attribute(name: &Ident, attribute: &str) -> Error {
    let problem =
        format!("`#[distributed_lock]` below `{attribute}` sees a function that is no longer async");
    error(name.span(), problem, format!("place `#[distributed_lock(..)]` above `{attribute}`"))
}

/// On `fn f() -> impl Stream`.
pub(crate) fn returns_stream(ty: &Type) -> Error {
    error_on(
        ty,
        "a function that returns a stream ends before the stream is read, and the lock ends with it",
        "hold a guard inside the stream: `let guard = manager.lock(key).acquire().await?`",
    )
}

/// `async fn f() -> Result<BoxFuture<..>, E>`
pub(crate) fn returns_future_inside(ty: &impl ToTokens) -> Error {
    error_on(
        ty,
        "this future is awaited after the function has returned, when the lock is no longer held",
        "await it inside the function and return what it yields, or hold the lock by hand for as long as it takes: \
         `let guard = manager.lock(key).acquire().await?`",
    )
}

/// `async fn f() -> Result<BoxStream<..>, E>`
pub(crate) fn returns_stream_inside(ty: &impl ToTokens) -> Error {
    error_on(
        ty,
        "this stream is read after the function has returned, when the lock is no longer held",
        "collect it inside the function and return the items, or hold a guard inside the stream: \
         `let guard = manager.lock(key).acquire().await?`",
    )
}

/// `async fn f() -> Result<JoinHandle<..>, E>`
pub(crate) fn returns_task_inside(ty: &impl ToTokens) -> Error {
    error_on(
        ty,
        "this task continues after the function has returned, when the lock is no longer held",
        "await it inside the function and return what it yields, or let the task take the lock itself: \
         `manager.lock(key).run(async |held| { .. })`",
    )
}

/// On `fn call(&mut self) -> Self::Future`.
pub(crate) fn unnameable_future(ty: &Type) -> Error {
    let name = ty.to_token_stream().to_string().replace(' ', "");
    error_on(
        ty,
        format!("the future `{name}` cannot be wrapped: its type and its output are not visible here"),
        "annotate an `async fn` that does the work, and call it from here",
    )
}

/// A future-returning function that does not end in an `async` block.
pub(crate) fn unrecognised_future(ty: &Type) -> Error {
    error_on(
        ty,
        "this function returns a future, but does not end in an `async` block that could be locked",
        "make it an `async fn`, or end it with `Box::pin(async move { .. })`",
    )
}

/// `return Box::pin(..);` in front of the `async` block at the end.
pub(crate) fn return_in_front(place: Span) -> Error {
    error(
        place,
        "the future of this `return` would run without the lock, which only the `async` block at the end \
         acquires",
        "move this `return` and its condition into that block, or make the function an `async fn`",
    )
}

/// `let id = ..;` before the `async` block, where an option uses the argument `id`.
pub(crate) fn hidden_argument(name: &Ident) -> Error {
    error(
        name.span(),
        format!(
            "this variable hides the argument `{name}` from an option, which is evaluated in the `async` block"
        ),
        "give the variable another name, or make the function an `async fn`",
    )
}

/// `id %= 16;` before the `async` block.
pub(crate) fn changed_argument(name: &Ident) -> Error {
    error(
        name.span(),
        format!(
            "the argument `{name}` may be changed here, before the `async` block in which an option uses it"
        ),
        "write the new value into another variable, or make the function an `async fn`",
    )
}

/// No return type, and no `on_error`.
pub(crate) fn returns_nothing(name: &Ident) -> Error {
    let problem = format!("`{name}` returns nothing that could carry a lock error");
    error(name.span(), problem, help_returns_nothing())
}

/// No return type, and `on_busy` without `on_error`.
pub(crate) fn returns_nothing_but_if_busy(name: &Ident) -> Error {
    let problem = format!(
        "`{}` covers a busy lock only, and `{name}` returns nothing that could carry other lock errors",
        Opt::OnBusy
    );
    error(name.span(), problem, help_returns_nothing())
}

fn help_returns_nothing() -> String {
    let on_error = Opt::OnError;
    format!("return `Result<(), distlock::LockError>`, or handle every error with `{on_error} = |error| ..`")
}

/// `map_err` on a function without return type.
pub(crate) fn map_err_without_result(span: Span) -> Error {
    error(
        span,
        format!("`{}` makes the error of a `Result`, but the function returns nothing", Opt::MapErr),
        format!("return a `Result`, or use `{} = |error| ..`", Opt::OnError),
    )
}

/// `on_lost = "cancel"` on a synchronous function.
pub(crate) fn cannot_cancel(value: &Expr) -> Error {
    let on_lost = Opt::OnLost;
    error_on(
        value,
        format!(
            "`{on_lost} = \"cancel\"` on a function that is not async: a running thread cannot be stopped"
        ),
        format!(
            "write `{on_lost} = \"error\"`, which turns `Ok` into `LockError::Lost`, or make the function async"
        ),
    )
}

/// `on_lost = "error"` on an async function.
pub(crate) fn cancels_already(value: &Expr) -> Error {
    let on_lost = Opt::OnLost;
    error_on(
        value,
        format!("`{on_lost} = \"error\"` on an async function: its body is dropped when the lock is lost"),
        format!("write `{on_lost} = \"cancel\"`, or leave it out"),
    )
}

/// `transaction = ..` on a function that is given a transaction
pub(crate) fn transaction_inside_another(ty: &Type) -> Error {
    let option = Opt::Transaction;
    error_on(
        ty,
        format_args!("the function is given a transaction, and `{option}` begins another one"),
        format_args!(
            "leave out the argument; or leave out `{option}`, and lock the function that begins the transaction"
        ),
    )
}
