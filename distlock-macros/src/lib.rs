//! The `#[distributed_lock]` attribute and the `key!` macro of the `distlock` crate, which re-exports and
//! documents both. This crate is an implementation detail: depend on `distlock`.
//!
//! An attribute goes through three steps. `args` and `item` read what was written; `spec` checks it and
//! resolves the names in key templates (`template`, `duration`, `places` are its pure parts); `expand` writes the
//! locked function and cannot fail. What is known about each option is in `options`, every message in `diag`.

mod args;
mod attribute;
mod diag;
mod duration;
mod expand;
mod item;
mod key;
mod options;
mod places;
mod spec;
mod template;

#[allow(missing_docs, reason = "documented where `distlock` re-exports it")]
#[doc(alias("annotation", "decorator", "Lock4j", "SchedulerLock", "synchronized"))]
#[proc_macro_attribute]
pub fn distributed_lock(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    attribute::expand(args.into(), item.into()).into()
}

#[allow(missing_docs, reason = "documented where `distlock` re-exports it")]
#[proc_macro]
pub fn key(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    key::expand(input.into()).into()
}

#[cfg(test)]
mod tests;
