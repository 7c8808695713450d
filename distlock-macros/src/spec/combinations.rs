//! Options that do not go together.

use super::{Amount, Options, Wait};
use crate::args::RawArgs;
use crate::diag::{self, Errors};
use crate::item::{Function, Shape};
use crate::options::Opt;
use syn::ext::IdentExt as _;
use syn::{FnArg, Type, TypeReference};

/// Reports options that exclude each other, or have no effect without each other.
pub(super) fn check(args: &RawArgs, function: &Function, options: &Options, errors: &mut Errors) {
    check_pairs(args, options, errors);
    check_reentrant(args, function, options, errors);
    check_linger(args, options, errors);
    check_fences(args, options, errors);
    check_transaction(args, function, options, errors);
    check_needs(args, errors);
    check_holds(args, options, errors);
    check_variables(function, options, errors);
}

fn check_pairs(args: &RawArgs, options: &Options, errors: &mut Errors) {
    let mut exclude = |option: Opt, other: Opt, why: &str, help: &str| {
        if let (Some(given), Some(_)) = (args.get(option), args.get(other)) {
            errors.push(diag::conflict(given.span, option, other, why, help));
        }
    };
    // A value that is not a number of attempts has been reported already.
    if let Wait::Retries { .. } = options.wait {
        exclude(
            Opt::Retries,
            Opt::Wait,
            &format!("`{}` counts attempts, and `{}` queues", Opt::Retries, Opt::Wait),
            "keep one of the two",
        );
    }
    exclude(
        Opt::MaxHolders,
        Opt::Keys,
        "a counting lock has one key",
        "lock the keys one by one, or leave out one of the two",
    );
    exclude(
        Opt::Guard,
        Opt::When,
        "there is no guard when the lock is not taken",
        "use `manager.lock(key)` inside the body",
    );
    exclude(
        Opt::MapErr,
        Opt::OnError,
        &format!("`{}` makes the error, and `{}` the whole value", Opt::MapErr, Opt::OnError),
        &format!(
            "keep `{}` for a return type that is not a `Result`, `{}` otherwise",
            Opt::OnError,
            Opt::MapErr
        ),
    );
    if options.shared {
        exclude(Opt::MaxHolders, Opt::Mode, "a shared lock has no limit", "leave out one of the two");
    }
}

/// The lock of a nested call ends with the call around it, which may end first: a time-out inside it lets the nested
/// future out. A thread cannot leave a call that it is in.
fn check_reentrant(args: &RawArgs, function: &Function, options: &Options, errors: &mut Errors) {
    let goes_on = options.continues && !matches!(function.shape, Shape::Sync);
    if let (Some(given), true, true) = (args.get(Opt::Reentrant), options.reentrant, goes_on) {
        let why = "the body could continue after the outer call has released the lock";
        let help = format!("leave out `{}`, or acquire the lock once, in the outer call", Opt::OnLost);
        errors.push(diag::conflict(given.span, Opt::Reentrant, Opt::OnLost, why, &help));
    }
}

fn check_linger(args: &RawArgs, options: &Options, errors: &mut Errors) {
    let Some(given) = args.get(Opt::Linger) else { return };
    let mut exclude = |other: Opt, why: &str| {
        if args.get(other).is_some() {
            errors.push(diag::conflict(given.span, Opt::Linger, other, why, "leave out one of the two"));
        }
    };
    let only_exclusive = "only an exclusive lock of one key is kept";
    exclude(Opt::Keys, only_exclusive);
    exclude(Opt::MaxHolders, only_exclusive);
    if options.shared {
        exclude(Opt::Mode, only_exclusive);
    }
    let why = format!("`{}` keeps this process out, too, but `{}` lets it return", Opt::MinHold, Opt::Linger);
    exclude(Opt::MinHold, &why);
}

/// The option that needs a fencing token.
fn check_fences(args: &RawArgs, options: &Options, errors: &mut Errors) {
    for option in [Opt::Token, Opt::Fence, Opt::Transaction] {
        let Some(given) = args.get(option) else { continue };
        let mut exclude = |other: Opt, why: &str, help: &str| {
            if args.get(other).is_some() {
                errors.push(diag::conflict(given.span, option, other, why, help));
            }
        };
        exclude(
            Opt::Keys,
            "a fencing token belongs to one key",
            &format!("leave out `{option}`, or lock one `{}`", Opt::Key),
        );
        exclude(Opt::MaxHolders, "writes of several holders have no order", "leave out one of the two");
        exclude(
            Opt::When,
            "there is no token when the lock is not taken",
            "use `manager.lock(key)` inside the body",
        );
        if options.shared {
            let help = format!("leave out `{option}`, or use `{} = \"exclusive\"`", Opt::Mode);
            exclude(Opt::Mode, "readers have no order", &help);
        }
    }
}

fn check_transaction(args: &RawArgs, function: &Function, options: &Options, errors: &mut Errors) {
    let Some(given) = args.get(Opt::Transaction) else { return };
    if options.reentrant {
        let why = "the transaction of the outer call keeps the row of the key locked";
        let help = "leave out one of the two";
        errors.push(diag::conflict(given.span, Opt::Transaction, Opt::Reentrant, why, help));
    }
    for input in &function.sig.inputs {
        if let FnArg::Typed(typed) = input
            && is_transaction(&typed.ty, None)
        {
            errors.push(diag::transaction_inside_another(&typed.ty));
        }
    }
}

/// `&mut Transaction`, `Transaction<'_, _>` and `&DatabaseTransaction`, by their names. A `Transaction` without a
/// lifetime may be a payment.
fn is_transaction(ty: &Type, behind: Option<&TypeReference>) -> bool {
    match ty {
        Type::Reference(reference) => is_transaction(&reference.elem, Some(reference)),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let is_changed = behind.is_some_and(|reference| reference.mutability.is_some());
            last.ident == "Transaction" && (is_changed || !last.arguments.is_none())
                || last.ident == "DatabaseTransaction" && behind.is_some()
        }),
        _ => false,
    }
}

/// The variables for the body hide arguments of the same names, and each other.
fn check_variables(function: &Function, options: &Options, errors: &mut Errors) {
    let transaction = options.transaction.as_ref().map(|transaction| &transaction.name);
    let variables = [
        (Opt::Guard, options.guard.as_ref()),
        (Opt::Token, options.token.as_ref()),
        (Opt::Fence, options.fence.as_ref()),
        (Opt::Transaction, transaction),
    ];
    let variables: Vec<_> =
        variables.into_iter().filter_map(|(option, name)| Some((option, name?))).collect();
    for (index, (option, name)) in variables.iter().enumerate() {
        let earlier = variables[..index].iter().find(|(_, other)| other.unraw() == name.unraw());
        if function.binds(name) {
            errors.push(diag::hides_argument(*option, name));
        } else if let Some((other, _)) = earlier {
            errors.push(diag::same_variable(*option, *other, name));
        }
    }
}

fn check_needs(args: &RawArgs, errors: &mut Errors) {
    let needs = [
        (Opt::Once, Opt::Transaction, "the result is stored in the transaction of its effects"),
        (Opt::OnceOf, Opt::Once, "it distinguishes a repeated call from a new one"),
        (Opt::OnceOutcome, Opt::Once, "without it, every call is a new one"),
    ];
    for (option, needed, why) in needs {
        if let (Some(given), false) = (args.get(option), args.mentions(needed)) {
            errors.push(diag::requires(given.span, option, why, &format!("add `{}`", needed.example())));
        }
    }
    if let (Some(given), None) = (args.get(Opt::RetryDelay), args.get(Opt::Retries)) {
        let help = format!("add `{}`, or leave it out", Opt::Retries.example());
        errors.push(diag::requires(given.span, given.option, "it is the delay between retries", &help));
    }
}

fn check_holds(args: &RawArgs, options: &Options, errors: &mut Errors) {
    if let Some(given) = args.get(Opt::MaxHold) {
        if !options.renew {
            let why = format!("without renewal the lease ends with `{}`", Opt::Ttl);
            let help = format!("leave out `{}`, or `{}`", Opt::Renew.example(), given.option);
            errors.push(diag::requires(given.span, given.option, &why, &help));
        } else if let (Some(Amount::Millis(ttl)), Some(Amount::Millis(max))) =
            (&options.ttl, &options.max_hold)
            && max < ttl
        {
            errors.push(diag::max_hold_below_ttl(&given.value));
        }
    }
    if let Some(given) = args.get(Opt::MinHold)
        && !options.renew
        && let (Some(Amount::Millis(ttl)), Some(Amount::Millis(min))) = (&options.ttl, &options.min_hold)
        && min > ttl
    {
        errors.push(diag::min_hold_above_ttl(&given.value));
    }
}
