//! The variables that parameters bind, and the values that they leave unbound.

use proc_macro2::Ident;
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::visit_mut::{self, VisitMut};
use syn::{FnArg, GenericParam, Pat, PatIdent, Signature, Type};

use super::{Binding, contains_ident};

/// Finds patterns that leave a part of the argument where it is.
pub(super) struct LeavesBehind(pub(super) bool);

impl VisitMut for LeavesBehind {
    fn visit_pat_mut(&mut self, pat: &mut Pat) {
        match pat {
            Pat::Wild(_) | Pat::Rest(_) | Pat::Path(_) => self.0 = true,
            Pat::Ident(ident) if ident.by_ref.is_some() || may_be_constant(ident) => self.0 = true,
            Pat::Struct(pat) if pat.rest.is_some() => self.0 = true,
            _ => visit_mut::visit_pat_mut(self, pat),
        }
    }
}

/// Whether a name in a pattern is upper-case, without `@` or `mut`. It probably is a constant or a unit struct, but it
/// may be a variable.
fn may_be_constant(pat: &PatIdent) -> bool {
    pat.by_ref.is_none()
        && pat.mutability.is_none()
        && pat.subpat.is_none()
        && pat.ident.unraw().to_string().starts_with(char::is_uppercase)
}

/// Collects the names in a pattern, each once.
#[derive(Default)]
struct Names {
    bound: Vec<Ident>,
    constant: Vec<Ident>,
}

impl VisitMut for Names {
    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        let names = if may_be_constant(pat) { &mut self.constant } else { &mut self.bound };
        if !names.contains(&pat.ident) {
            names.push(pat.ident.clone());
        }
        visit_mut::visit_pat_ident_mut(self, pat);
    }
}

/// The names that a pattern binds, without those that may be constants.
pub(crate) fn bound_names(pat: &Pat, names: &mut Vec<Ident>) {
    let mut found = Names::default();
    found.visit_pat_mut(&mut pat.clone());
    found.bound.retain(|name| !names.contains(name));
    names.append(&mut found.bound);
}

/// Whether a pattern may bind a name that is wanted.
pub(super) fn may_bind(pat: &Pat, wanted: impl Fn(&Ident) -> bool) -> bool {
    let mut found = Names::default();
    found.visit_pat_mut(&mut pat.clone());
    found.bound.iter().chain(&found.constant).any(wanted)
}

/// The names that a function binds.
pub(super) fn bindings(sig: &Signature) -> Vec<Binding> {
    let mut bindings = Vec::new();
    for input in &sig.inputs {
        let FnArg::Typed(typed) = input else { continue };
        let plain = matches!(&*typed.pat, Pat::Ident(pat) if pat.subpat.is_none());
        let ty = (plain && !mentions_impl_or_macro(&typed.ty)).then(|| (*typed.ty).clone());
        let mut names = Vec::new();
        bound_names(&typed.pat, &mut names);
        bindings.extend(names.into_iter().map(|ident| Binding { ident, ty: ty.clone(), moves: true }));
    }
    for param in &sig.generics.params {
        if let GenericParam::Const(param) = param {
            bindings.push(Binding { ident: param.ident.clone(), ty: None, moves: false });
        }
    }
    bindings
}

/// `self`, if there is one.
pub(super) fn receiver(sig: &Signature) -> Option<Ident> {
    match sig.inputs.first() {
        Some(FnArg::Receiver(receiver)) => Some(Ident::new("self", receiver.self_token.span)),
        _ => None,
    }
}

/// Whether a type cannot be written a second time: `impl Trait`, or a macro that may make one.
fn mentions_impl_or_macro(ty: &Type) -> bool {
    contains_ident(ty.to_token_stream(), &|ident| ident == "impl")
        || matches!(ty, Type::Macro(_) | Type::Verbatim(_))
}
