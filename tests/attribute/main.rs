//! The attribute at run time, on the memory backend. There is one file for each behaviour.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod support;

mod args_drop_before_release;
mod async_trait_methods;
mod cancellation;
mod cooperation;
mod crate_path;
mod drop_order;
mod drop_scope;
mod exits;
mod finished_values;
mod forbidden_lints;
mod generics;
mod guard_and_token;
mod key_expression;
mod key_macro;
mod key_template;
mod keys;
mod label;
mod lints;
mod lost;
mod lower_case_items;
mod macro_rules;
mod manager;
mod map_err;
mod max_hold_and_min_hold;
mod modes;
mod nested_kinds;
mod on_busy;
mod on_error;
mod order;
mod other_attributes;
mod panics;
mod patterns;
mod receivers;
mod recursion;
mod reentry;
mod release;
mod returned_futures;
mod returns;
mod same_rules;
mod send;
mod size;
mod stacking;
mod synchronous;
mod traits;
mod wait;
mod when;
