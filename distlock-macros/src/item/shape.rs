//! How a function's value comes about: on the calling thread, as an `async fn`, or as an `async` block at its end.

use proc_macro2::Group;
use quote::ToTokens as _;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Block, Expr, ExprAsync, Ident, Pat, ReturnType, Signature, Stmt, Token, Type, TypeParamBound};

use super::lazy::{self, Lazy};
use super::returns;
use super::{FutureShape, Shape};
use super::{bare, bound_names};
use crate::diag::{self, Errors};

/// Finds out how a function's value comes about, and refuses one that is still to be worked on when it has returned.
pub(super) fn shape(sig: &Signature, body: &Group, errors: &mut Errors) -> Shape {
    let ReturnType::Type(_, ty) = &sig.output else {
        return if sig.asyncness.is_some() { Shape::Async } else { Shape::Sync };
    };
    if sig.asyncness.is_some() {
        lazy::check(ty, errors);
        return Shape::Async;
    }
    match returned(ty) {
        Returned::Value => {
            lazy::check(ty, errors);
            Shape::Sync
        }
        Returned::Stream => {
            errors.push(diag::returns_stream(ty));
            Shape::Sync
        }
        Returned::Unnameable => {
            errors.push(diag::unnameable_future(ty));
            Shape::Sync
        }
        Returned::Future(output) => match future_shape(*output, sig, body) {
            Some(shape) => {
                lazy::check(&shape.output, errors);
                returns::places(in_front(&shape.statements)).iter().for_each(|place| {
                    errors.push(diag::return_in_front(*place));
                });
                Shape::Future(Box::new(shape))
            }
            None => {
                errors.push(diag::unrecognised_future(ty));
                Shape::Sync
            }
        },
    }
}

/// The laziness of the outermost type of a return type.
enum Returned {
    Value,
    Future(Box<Type>),
    Stream,
    Unnameable,
}

fn returned(ty: &Type) -> Returned {
    match bare(ty) {
        Type::ImplTrait(ty) => returned_by_bounds(&ty.bounds),
        Type::TraitObject(ty) => returned_by_bounds(&ty.bounds),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Returned::Value };
            let first = lazy::types(&last.arguments).next();
            match (last.ident.to_string().as_str(), first) {
                ("Pin" | "Box", Some(inner)) => returned(inner),
                (name, Some(output)) if lazy::FUTURES.contains(&name) => {
                    Returned::Future(Box::new(output.clone()))
                }
                (name, Some(_)) if lazy::STREAMS.contains(&name) => Returned::Stream,
                ("Future", None) if path.qself.is_some() || path.path.segments.len() > 1 => {
                    Returned::Unnameable
                }
                _ => Returned::Value,
            }
        }
        _ => Returned::Value,
    }
}

fn returned_by_bounds(bounds: &Punctuated<TypeParamBound, Token![+]>) -> Returned {
    match lazy::of_bounds(bounds) {
        None => Returned::Value,
        Some(Lazy::Stream) => Returned::Stream,
        Some(Lazy::Future(Some(output))) => Returned::Future(Box::new(output.clone())),
        Some(Lazy::Future(None)) => Returned::Unnameable,
    }
}

fn future_shape(output: Type, sig: &Signature, body: &Group) -> Option<FutureShape> {
    let mut statements = Block::parse_within.parse2(body.stream()).ok()?;
    let found = async_block(tail(&mut statements)?)?;
    let mut rest = std::mem::take(&mut found.block.stmts);
    // In a block that a user wrote, `let id = parent;` is a part of the body.
    let is_generated = sig.generics.lifetimes().any(|param| param.lifetime.ident == "async_trait");
    let prelude_length = rest.iter().take_while(|statement| is_generated && is_prelude(statement)).count();
    let prelude = rest.drain(..prelude_length).collect();
    Some(FutureShape { output, statements, prelude, rest, rebound: Vec::new() })
}

/// The expression a block ends with.
pub(super) fn tail(statements: &mut [Stmt]) -> Option<&mut Expr> {
    match statements.last_mut()? {
        Stmt::Expr(Expr::Return(returned), _) => returned.expr.as_deref_mut(),
        Stmt::Expr(tail, None) => Some(tail),
        _ => None,
    }
}

/// The `async` block in `async {}`, `Box::pin(async {})`, `Pin::from(Box::new(async {}))`, `async {}.boxed()`.
pub(super) fn async_block(expr: &mut Expr) -> Option<&mut ExprAsync> {
    match expr {
        Expr::Async(found) => Some(found),
        Expr::Paren(paren) => async_block(&mut paren.expr),
        Expr::Group(group) => async_block(&mut group.expr),
        Expr::Block(block) if block.label.is_none() => async_block(tail(&mut block.block.stmts)?),
        Expr::Call(call) => {
            let Expr::Path(function) = &*call.func else { return None };
            let name = function.path.segments.last()?.ident.to_string();
            let wraps = matches!(name.as_str(), "pin" | "new" | "from" | "instrument" | "in_current_span");
            if wraps { async_block(call.args.first_mut()?) } else { None }
        }
        Expr::MethodCall(call) => {
            let name = call.method.to_string();
            let wraps = matches!(name.as_str(), "boxed" | "boxed_local" | "instrument" | "in_current_span");
            if wraps { async_block(&mut call.receiver) } else { None }
        }
        _ => None,
    }
}

/// The statements before the `async` block, in all blocks around it that `async_block` looks into, and the other
/// arguments of the calls around it.
pub(super) fn in_front(statements: &[Stmt]) -> Vec<Stmt> {
    let Some((last, front)) = statements.split_last() else { return Vec::new() };
    let mut found = front.to_vec();
    if let Stmt::Expr(expr, _) = last {
        in_tail(expr, &mut found);
    }
    found
}

fn in_tail(expr: &Expr, found: &mut Vec<Stmt>) {
    let argument = |argument: &Expr| Stmt::Expr(argument.clone(), None);
    match expr {
        Expr::Return(returned) => returned.expr.iter().for_each(|expr| in_tail(expr, found)),
        Expr::Paren(paren) => in_tail(&paren.expr, found),
        Expr::Group(group) => in_tail(&group.expr, found),
        Expr::Block(block) => found.extend(in_front(&block.block.stmts)),
        Expr::Call(call) => {
            call.args.first().into_iter().for_each(|first| in_tail(first, found));
            found.extend(call.args.iter().skip(1).map(argument));
        }
        Expr::MethodCall(call) => {
            in_tail(&call.receiver, found);
            found.extend(call.args.iter().map(argument));
        }
        _ => {}
    }
}

/// The variables that these statements bind. Not those that are copies of a variable of the same name, and cannot be
/// changed.
pub(super) fn bound(statements: &[Stmt]) -> Vec<Ident> {
    let mut names = Vec::new();
    for statement in statements {
        let Stmt::Local(local) = statement else { continue };
        let copy =
            local.init.as_ref().and_then(|init| copied(&init.expr)).filter(|_| is_constant(&local.pat));
        let mut bound = Vec::new();
        bound_names(&local.pat, &mut bound);
        names.extend(bound.into_iter().filter(|name| copy != Some(name)));
    }
    names
}

/// Whether a pattern binds the whole value to a name without `mut`.
fn is_constant(pat: &Pat) -> bool {
    match pat {
        Pat::Ident(pat) => pat.mutability.is_none(),
        Pat::Type(typed) => is_constant(&typed.pat),
        _ => false,
    }
}

/// The variable in `x`, `x.clone()`, `x.to_owned()` and `Arc::clone(&x)`.
fn copied(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::MethodCall(call) if call.method == "clone" || call.method == "to_owned" => {
            plain_source(&call.receiver)
        }
        Expr::Call(call) => {
            let Expr::Path(function) = &*call.func else { return None };
            let is_clone = function.path.segments.last().is_some_and(|last| last.ident == "clone");
            match call.args.first() {
                Some(Expr::Reference(reference)) if is_clone => plain_source(&reference.expr),
                _ => None,
            }
        }
        expr => plain_source(expr),
    }
}

/// The variable in `x` and in `{ let x = x; x }`.
pub(super) fn plain_source(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        Expr::Block(block) => match block.block.stmts.as_slice() {
            [Stmt::Local(local), Stmt::Expr(tail, None)] => {
                let source = plain_source(&local.init.as_ref()?.expr)?;
                (plain_source(tail)? == source).then_some(source)
            }
            _ => None,
        },
        _ => None,
    }
}

/// `let pattern = argument;`, and the dead `return` that `#[async_trait]` starts with.
fn is_prelude(statement: &Stmt) -> bool {
    match statement {
        Stmt::Local(local) => local
            .init
            .as_ref()
            .is_some_and(|init| init.diverge.is_none() && plain_source(&init.expr).is_some()),
        Stmt::Expr(Expr::If(expr), _) => {
            matches!(&*expr.cond, Expr::Let(condition)
                if condition.pat.to_token_stream().to_string().contains("__ret"))
        }
        _ => false,
    }
}
