//! Small pieces of syntax.

use proc_macro2::{Ident, Span, TokenStream};
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprMethodCall, ExprReference, Type};

/// `impl Trait` cannot be written in a body.
pub(super) struct ImplAsUnderscore;

impl VisitMut for ImplAsUnderscore {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        match ty {
            Type::ImplTrait(_) => {
                *ty = Type::Infer(syn::TypeInfer { attrs: Vec::new(), underscore_token: Default::default() })
            }
            Type::Group(group) if matches!(*group.elem, Type::ImplTrait(_)) => {
                self.visit_type_mut(&mut group.elem);
                let inner = (*group.elem).clone();
                *ty = inner;
            }
            ty => visit_mut::visit_type_mut(self, ty),
        }
    }
}

/// The same tokens, with errors reported elsewhere.
pub(super) fn located_at(tokens: TokenStream, place: Span) -> TokenStream {
    let mut moved = Vec::new();
    for mut token in tokens {
        token.set_span(token.span().located_at(place));
        moved.push(token);
    }
    moved.into_iter().collect()
}

/// `&expr`, with parentheses only where they are needed.
pub(super) fn reference(expr: &Expr) -> Expr {
    Expr::Reference(ExprReference {
        attrs: Vec::new(),
        and_token: syn::Token![&](Span::mixed_site()),
        mutability: None,
        expr: Box::new(expr.clone()),
    })
}

/// `expr.name()`, with parentheses only where they are needed.
pub(super) fn method(expr: &Expr, name: &str) -> Expr {
    Expr::MethodCall(ExprMethodCall {
        attrs: Vec::new(),
        receiver: Box::new(expr.clone()),
        dot_token: syn::Token![.](Span::mixed_site()),
        method: Ident::new(name, Span::mixed_site().located_at(expr.span())),
        turbofish: None,
        paren_token: syn::token::Paren(Span::mixed_site()),
        args: Default::default(),
    })
}
