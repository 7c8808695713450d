//! How errors and losses reach the caller.

use super::{OnLost, Route, values};
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

/// The reaction to a loss without `on_lost`.
pub(super) fn default_on_lost(function: &Function) -> OnLost {
    match function.shape {
        Shape::Sync => OnLost::Error,
        Shape::Async | Shape::Future(_) => OnLost::Cancel,
    }
}

/// `on_lost = ..`
pub(super) fn on_lost(given: &Given, function: &Function, errors: &mut Errors) -> OnLost {
    let default = default_on_lost(function);
    match values::word(given, &["cancel", "continue", "error"], errors) {
        Some("continue") => return OnLost::Continue,
        Some("cancel") if default == OnLost::Error && function.sound => {
            errors.push(diag::cannot_cancel(&given.value));
        }
        Some("error") if default == OnLost::Cancel && function.sound => {
            errors.push(diag::cancels_already(&given.value));
        }
        _ => {}
    }
    default
}
