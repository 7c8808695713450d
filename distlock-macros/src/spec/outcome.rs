//! How errors and losses reach the caller.

use super::{Route, values};
use crate::args::{Given, RawArgs};
use crate::diag::{self, Errors};
use crate::item::{Function, Shape};
use crate::options::Opt;

/// How errors reach the caller.
pub(super) fn route(args: &RawArgs, function: &Function, errors: &mut Errors) -> Route {
    if let Some(given) = args.get(Opt::OnError) {
        return Route::OnError(given.value.clone());
    }
    let returns_nothing = function.sound && function.output().is_none();
    if let Some(given) = args.get(Opt::MapErr) {
        if returns_nothing {
            errors.push(diag::map_err_without_result(given.span));
        }
        return Route::MapErr(given.value.clone());
    }
    if returns_nothing {
        let name = &function.sig.ident;
        errors.push(match args.get(Opt::OnBusy) {
            None => diag::returns_nothing(name),
            Some(_) => diag::returns_nothing_but_if_busy(name),
        });
    }
    Route::From
}

/// `on_lost = ..`: whether it is `"continue"`.
pub(super) fn continues(given: &Given, function: &Function, errors: &mut Errors) -> bool {
    let is_sync = matches!(function.shape, Shape::Sync);
    let word = values::word(given, &["cancel", "continue", "error"], errors);
    match word {
        Some("cancel") if is_sync && function.sound => errors.push(diag::cannot_cancel(&given.value)),
        Some("error") if !is_sync && function.sound => errors.push(diag::cancels_already(&given.value)),
        _ => {}
    }
    word == Some("continue")
}
