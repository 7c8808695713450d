//! Futures, streams and tasks inside a return type: their work would be done when the lock has been released.
//!
//! Only names are visible here. The type behind an alias is checked in the expansion, at the places that `leaves`
//! lists.

use quote::ToTokens as _;
use syn::punctuated::Punctuated;
use syn::{GenericArgument, PathArguments, Token, Type, TypeParamBound, TypePath};

use super::contains_ident;
use crate::diag::{self, Errors};

/// Boxed futures.
pub(super) const FUTURES: [&str; 2] = ["BoxFuture", "LocalBoxFuture"];
/// Boxed streams.
pub(super) const STREAMS: [&str; 2] = ["BoxStream", "LocalBoxStream"];
/// Handles of tasks and threads.
const TASKS: [&str; 3] = ["JoinHandle", "ScopedJoinHandle", "JoinSet"];

/// Types that are finished if their contents are. They need no check.
const FINISHED: &str = "Result Option Vec Arc Rc HashMap BTreeMap LockError String str bool char \
                        u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64";

fn is_finished(path: &TypePath, name: &str) -> bool {
    path.qself.is_none() && FINISHED.split(' ').any(|finished| finished == name)
}

/// A returned value whose work is done later, after the body has returned.
pub(super) enum Lazy<'a> {
    /// A future, with its output type, if the type is written.
    Future(Option<&'a Type>),
    Stream,
}

/// The laziness of a list of bounds.
pub(super) fn of_bounds(bounds: &Punctuated<TypeParamBound, Token![+]>) -> Option<Lazy<'_>> {
    bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let last = bound.path.segments.last()?;
        match last.ident.to_string().as_str() {
            "Stream" | "TryStream" | "FusedStream" | "AsyncIterator" => Some(Lazy::Stream),
            "TryFuture" | "FusedFuture" | "IntoFuture" => Some(Lazy::Future(None)),
            "Future" => Some(Lazy::Future(associated(&last.arguments, "Output"))),
            _ => None,
        }
    })
}

/// `Output = T`
fn associated<'a>(arguments: &'a PathArguments, name: &str) -> Option<&'a Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(assoc) if assoc.ident == name => Some(&assoc.ty),
        _ => None,
    })
}

/// `T` and `U` in `Name<T, U>`.
pub(super) fn types(arguments: &PathArguments) -> impl Iterator<Item = &Type> {
    let arguments = match arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        PathArguments::None | PathArguments::Parenthesized(_) => None,
    };
    arguments.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Reports every future, stream and task that a return type names.
pub(super) fn check(ty: &Type, errors: &mut Errors) {
    let mut bounded = |bounds: &Punctuated<TypeParamBound, Token![+]>| match of_bounds(bounds) {
        Some(Lazy::Future(_)) => errors.push(diag::returns_future_inside(ty)),
        Some(Lazy::Stream) => errors.push(diag::returns_stream_inside(ty)),
        // `impl Iterator<Item = impl Future>`
        None => bounds.iter().for_each(|bound| {
            if let TypeParamBound::Trait(bound) = bound
                && let Some(last) = bound.path.segments.last()
            {
                types(&last.arguments).for_each(|ty| check(ty, errors));
                associated(&last.arguments, "Item").into_iter().for_each(|ty| check(ty, errors));
            }
        }),
    };
    match ty {
        Type::ImplTrait(ty) => bounded(&ty.bounds),
        Type::TraitObject(ty) => bounded(&ty.bounds),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return };
            let name = last.ident.to_string();
            if FUTURES.contains(&name.as_str()) {
                errors.push(diag::returns_future_inside(ty));
            } else if STREAMS.contains(&name.as_str()) {
                errors.push(diag::returns_stream_inside(ty));
            } else if TASKS.contains(&name.as_str()) {
                errors.push(diag::returns_task_inside(ty));
            } else {
                types(&last.arguments).for_each(|ty| check(ty, errors));
            }
        }
        ty => inside(ty).for_each(|ty| check(ty, errors)),
    }
}

/// The types that a tuple, an array, a reference consist of. The types of functions are left out, because functions are
/// called later anyway.
fn inside(ty: &Type) -> Box<dyn Iterator<Item = &Type> + '_> {
    match ty {
        Type::Group(group) => Box::new(std::iter::once(&*group.elem)),
        Type::Paren(paren) => Box::new(std::iter::once(&*paren.elem)),
        Type::Tuple(tuple) => Box::new(tuple.elems.iter()),
        Type::Array(array) => Box::new(std::iter::once(&*array.elem)),
        Type::Slice(slice) => Box::new(std::iter::once(&*slice.elem)),
        Type::Reference(reference) => Box::new(std::iter::once(&*reference.elem)),
        _ => Box::new(std::iter::empty()),
    }
}

/// A type to ask about, where it is used.
pub(crate) struct Leaf<'a> {
    /// The type.
    pub(crate) ty: &'a Type,
    /// The place at which a mistake is reported.
    pub(crate) place: &'a Type,
}

/// The types in a return type that may stand for something else: aliases, associated types, types of other
/// crates. The caller looks through `Result`, `Option`, `Vec` and `Box`.
pub(crate) fn leaves<'a>(ty: &'a Type, found: &mut Vec<Leaf<'a>>) {
    let Type::Path(path) = ty else {
        inside(ty).for_each(|ty| leaves(ty, found));
        return;
    };
    let Some(last) = path.path.segments.last() else { return };
    let name = last.ident.to_string();
    let inner: Vec<&Type> = types(&last.arguments).collect();
    let finished = is_finished(path, &name);
    // `type Result<T> = ..` of the user's own may be an alias of anything, and so may `type Result = ..`.
    let alias = name == "Result" && inner.len() < 2;
    let hidden = contains_ident(ty.to_token_stream(), &|ident| ident == "impl");
    // Asked instead of its inner type, which costs no more, and finds an alias of that name.
    let asked_through = match inner.as_slice() {
        [inner, ..] if ["Result", "Option", "Vec", "Box"].contains(&name.as_str()) => asked_alone(inner),
        _ => None,
    };
    match asked_through {
        Some(place) if !hidden => found.push(Leaf { ty, place }),
        _ if (!finished || alias) && !hidden => found.push(Leaf { ty, place: ty }),
        _ => {}
    }
    if asked_through.is_some() {
        return;
    }
    // The error type of a `Result` is not checked.
    let worked_on = if name == "Result" { 1 } else { usize::MAX };
    inner.into_iter().take(worked_on).for_each(|ty| leaves(ty, found));
}

/// A type without arguments that must be checked.
fn asked_alone(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let finished = is_finished(path, &last.ident.to_string());
    (matches!(last.arguments, PathArguments::None) && (!finished || last.ident == "Result")).then_some(ty)
}
